"""Argo CD and Flux read the health of sets: our script in Argo CD's Lua, and the library kstatus."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import yaml

from lws.disaggregatedset.status import disaggregated_status
from lws.leaderworkerset.left_alone import plan_left_alone, unreadable
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.status import set_status
from lws.runtime.actions import Object, Problem
from test.unit.builders import NOW, make_set
from test.unit.disaggregated import make_disaggregated
from test.unit.lws.disaggregatedset.status.test_status import observed as observed_roles
from test.unit.lws.leaderworkerset.status.test_status import observed
from tools.deployment import REPOSITORY
from tools.localcluster.build import find_programs
from tools.localcluster.progress import LinePrinter

KINDS = ("LeaderWorkerSet", "DisaggregatedSet")
LATER = NOW + timedelta(seconds=61)
WAITING = ("InProgress", "Progressing")
DONE = ("Current", "Healthy")
FAILED = ("Failed", "Degraded")


def a_set(letters: str, then: str = "", floor: int = 0, **seen: Any) -> Object:
    """Return a set of four after a pass over these groups. then: the groups one minute later."""
    lws: Object = make_set(replicas=4, generation=3, progressDeadlineSeconds=60)
    for look, now in ((letters, NOW), (then, LATER)):
        if look:
            status = set_status(observed(lws, look, now=now, floor=floor, **seen))
            lws = {**lws, "status": dict(status.intended)}
    return lws


def of_roles(minutes: int = 0, **seen: Any) -> Object:
    status: dict[str, Any] = {}
    for minute in range(minutes + 1):
        now = NOW + timedelta(minutes=minute, seconds=minute)
        patch = disaggregated_status(observed_roles(status, now=now, deadline=60, **seen)).patch or {}
        status = {**status, **patch}
    return make_disaggregated(status=status)


def left_alone() -> Object:
    lws = make_set(generation=3)
    (status,) = plan_left_alone(SetSnapshot(lws, NOW), unreadable("spec.replicas is 'two'")).statuses
    return {**lws, "status": dict(status.patch)}


def edited(obj: Mapping[str, Any]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "generation": obj["metadata"]["generation"] + 1}}


QUOTA = Problem("QuotaExceeded", "exceeded quota")
STATES: dict[str, tuple[Object, tuple[str, str]]] = {
    "created": (a_set("u---"), WAITING),
    "all ready": (a_set("RRRR"), DONE),
    "edited": (edited(a_set("RRRR")), WAITING),
    "rolling": (a_set("RRRR", then="rrrR"), WAITING),
    "rolled": (a_set("rrrR", then="RRRR"), DONE),
    "a canary": (a_set("rrRR", floor=2), DONE),
    "a group restarts": (a_set("RRRR", then="RRRu"), WAITING),
    "no quota": (a_set("RR--", problems=(QUOTA,)), ("InProgress", "Degraded")),
    "stalled": (a_set("RRuu", then="RRuu"), FAILED),
    "a group has ended": (a_set("RRRT", exhausted=(3,)), FAILED),
    "a group has ended, and the rollout continues": (
        a_set("rRRT", exhausted=(3,)),
        ("InProgress", "Degraded"),
    ),
    "a group is kept": (a_set("RRRu", out_of_restarts=(3,)), FAILED),
    # kstatus treats a set without a condition for completion as done.
    "not observed yet": (make_set(generation=3), ("Current", "Progressing")),
    "left alone": (left_alone(), ("Current", "Progressing")),
    "roles: created": (of_roles(children=()), WAITING),
    "roles: all ready": (of_roles(), DONE),
    "roles: edited": (edited(of_roles()), WAITING),
    "roles: rolling": (of_roles(rolling=frozenset({0})), WAITING),
    "roles: stalled": (of_roles(minutes=1, children=()), FAILED),
    "roles: no quota": (of_roles(children=(), problems=(QUOTA,)), ("InProgress", "Degraded")),
}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, str]]:
    """Both tools' verdicts on each state."""
    data = yaml.safe_load((REPOSITORY / "docs" / "start" / "argocd-cm.yaml").read_text())["data"]
    scripts = {kind: text for key, text in data.items() for kind in KINDS if key.endswith(f"_{kind}")}
    program = find_programs(["gitops"], LinePrinter())["gitops"]
    request = json.dumps({"scripts": scripts, "objects": [obj for obj, _ in STATES.values()]}, default=str)
    done = subprocess.run([program], input=request, capture_output=True, text=True, check=True)
    return dict(zip(STATES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("state", STATES)
def test_gitops_tools_report_the_health_of_a_set(state: str, verdicts: dict[str, dict[str, str]]) -> None:
    verdict = verdicts[state]
    assert (verdict["kstatus"], verdict["health"]) == STATES[state][1], verdict
    assert verdict["message"] not in ("", "nil")
