"""No code compares times of different machines, or depends on the clock of the machine it runs on.

Passes and commands use the time of the API server (`ServerClock`), which also wrote the creation and deletion
times of objects, and in which managers record their own times. Intervals are measured by monotonic clocks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lws import timing
from lws.kube.conditions import elapsed
from test.unit.builders import NOW

LWS = Path(timing.__file__).parent

_CERTIFICATES = "certificates are dated for all machines"
_CLOCKS = {"datetime", "date", "time"}
_READINGS = {"now", "utcnow", "today", "time", "time_ns", "localtime", "gmtime"}

OWN_CLOCK = {
    "cli/commands/plan.py _without_cluster": "no object has a time",
    "runtime/certificates/directory.py CertificateDirectory": _CERTIFICATES,
    "runtime/client/connection.py ServerClock": "only until the first response",
    "runtime/client/kubeconfig.py KubeconfigLoader": "credentials expire before any response",
    "runtime/endpoints/metrics.py Metrics": "default of tools: the manager passes the time of the API server",
    "runtime/endpoints/metrics_server.py MetricsServer": _CERTIFICATES,
    "runtime/events.py EventRecorder": "part of a unique name",
    "runtime/webhooks/serving.py Serving": _CERTIFICATES,
}
"""The definitions that read the clock of this machine, and why they may."""

_WRITTEN = "written, in the time of the API server"
_SHOWN = "shown to users"
_OURS = "of our own conditions, which managers write in the time of the API server"
_TIMES_OF_OTHERS = {
    "startedAt",
    "finishedAt",
    "lastTransitionTime",
    "lastObservedTime",
    "deprecatedLastTimestamp",
    "eventTime",
    "renewTime",
    "acquireTime",
}

OTHER_CLOCKS = {
    "cli/commands/doctor.py _last_transition": _OURS,
    "cli/commands/doctor.py _of_lease": "upstream's manager uses its own clock, and the finding says so",
    "cli/commands/status.py _conditions": _SHOWN,
    "disaggregatedset/groups.py _unready_since": _OURS,
    "kube/conditions.py with_condition": _WRITTEN,
    "kube/nodes.py loss_of": "ages of minutes; no other time shows since when a node has not been ready",
    "kube/pods.py wait_for_node": "only prolongs the time without progress that is allowed",
    "leaderworkerset/group/plan.py plan_group_ready": _WRITTEN,
    "leaderworkerset/observe/failed_creates.py _last_seen": "decides which message is shown, and how soon an "
    "annotation is written",
    "leaderworkerset/status/status.py figures_of": _OURS,
    "leaderworkerset/tables.py _has_waited": "equal or not: decides whether `wait_for_node` is called",
    "leaderworkerset/tables.py conditions": "stored",
    "runtime/events.py EventRecorder": _WRITTEN,
    "runtime/leadership/lease.py Lease": "only whether it has changed",
    "runtime/leadership/lease.py released": _WRITTEN,
}
"""The definitions that name times which others than the API server write, and why they may."""


def definitions_in(source: str, is_meant: Callable[[ast.AST], bool]) -> list[str]:
    """Return the names of the top-level definitions that contain such an expression."""
    return [_name(node) for node in ast.parse(source).body if any(map(is_meant, ast.walk(node)))]


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return str(getattr(node, "name", ast.unparse(node)))


def reads_own_clock(node: ast.AST) -> bool:
    is_reading = isinstance(node, ast.Attribute) and node.attr in _READINGS
    return is_reading and isinstance(node.value, ast.Name) and node.value.id in _CLOCKS


def names_time_of_others(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in _TIMES_OF_OTHERS


@pytest.mark.parametrize(
    ("is_meant", "allowed"),
    [
        pytest.param(reads_own_clock, OWN_CLOCK, id="clock of this machine"),
        pytest.param(names_time_of_others, OTHER_CLOCKS, id="times of others"),
    ],
)
def test_no_other_definition_depends_on_the_clock_of_a_machine(
    is_meant: Callable[[ast.AST], bool], allowed: dict[str, str]
) -> None:
    found = {
        f"{path.relative_to(LWS).as_posix()} {name}"
        for path in sorted(LWS.rglob("*.py"))
        for name in definitions_in(path.read_text(encoding="utf-8"), is_meant)
    }
    assert found == allowed.keys(), "use snapshot.now, Cluster.now or a monotonic clock, or add the reason"


@pytest.mark.parametrize(
    ("source", "own", "others"),
    [
        ("def age(): return datetime.now(UTC)", True, False),
        ("def age(clock=time.time): return clock()", True, False),
        ("def age(): return time.monotonic()", False, False),
        ("def age(): return snapshot.now", False, False),
        ('def age(pod): return pod["metadata"]["creationTimestamp"]', False, False),
        ('def age(end): return end.get("finishedAt")', False, True),
    ],
)
def test_expressions_that_depend_on_a_clock(source: str, own: bool, others: bool) -> None:
    assert definitions_in(source, reads_own_clock) == ["age"] * own
    assert definitions_in(source, names_time_of_others) == ["age"] * others


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param(-30, timedelta(seconds=30), id="past"),
        pytest.param(0, timedelta(0), id="now"),
        pytest.param(60, timedelta(seconds=-60), id="by another API server"),
        pytest.param(61, timedelta.max, id="the clock was set back"),
    ],
)
def test_time_since_a_moment(since: float, expected: timedelta) -> None:
    assert elapsed(NOW + timedelta(seconds=since), NOW) == expected
