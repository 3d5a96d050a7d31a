"""Every waiting time is defined in lws/timing.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lws import timing
from lws.timing import Backoff

LWS = Path(timing.__file__).parent

_NAMES = (
    "SECONDS",
    "MINUTES",
    "DELAY",
    "PAUSE",
    "BACKOFF",
    "TIMEOUT",
    "PATIENCE",
    "WITHIN",
    "INTERVAL",
    "PERIOD",
)
_CALLS = {"sleep", "timeout", "timeout_at", "wait_for", "call_later", "wait", "timedelta", "ClientTimeout"}

ALLOWED = {
    "kube/nodes.py": "default of the Configuration",
}


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 0.5), (2, 1.0), (5, 8.0), (6, 10.0), (10**6, 10.0)]
)
def test_a_backoff_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    assert Backoff(0.5, 10.0).after(failures) == seconds


@pytest.mark.parametrize(("pause", "following"), [(0.5, 1.0), (6.0, 10.0), (10.0, 10.0)])
def test_successive_pauses(pause: float, following: float) -> None:
    assert Backoff(0.5, 10.0).following(pause) == following


def durations_in(source: str) -> list[int]:
    """Return the numbers of the lines that contain a duration.

    These are constants with such a name, and numbers that are passed to calls that wait.
    """
    return sorted({line for node in ast.walk(ast.parse(source)) for line in _lines(node)})


def _lines(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [
            name_node.id
            for target in targets
            for name_node in ast.walk(target)
            if isinstance(name_node, ast.Name)
        ]
        is_named = any(name.isupper() and name.endswith(_NAMES) for name in names)
        if is_named and any(map(_is_number, ast.walk(node.value))):
            yield node.lineno
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        times = [
            keyword.value for keyword in node.keywords if name in _CALLS or "timeout" in (keyword.arg or "")
        ]
        times += node.args if name in _CALLS else []
        if any(map(_is_number, times)):
            yield node.lineno


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value != 0


def test_no_other_module_contains_times() -> None:
    constants = {
        path.relative_to(LWS).as_posix(): lines
        for path in sorted(LWS.rglob("*.py"))
        if path.name != "timing.py" and (lines := durations_in(path.read_text(encoding="utf-8")))
    }
    assert constants.keys() == ALLOWED.keys(), constants


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("_RETRY_SECONDS = 2.0", True),
        ("_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0", True),
        ("KEPT = timedelta(minutes=1)", True),
        ("sleep(0.5)", True),
        ("sleep(0)", False),
        ("AppRunner(app, shutdown_timeout=1.0)", True),
        ("timedelta(seconds=int(grace))", False),
        ("MOST_PODS = 10", False),
    ],
)
def test_expressions_that_count_as_times(source: str, is_one: bool) -> None:
    assert bool(durations_in(source)) is is_one


def test_every_time_has_a_description() -> None:
    body = ast.parse(Path(timing.__file__).read_text(encoding="utf-8")).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            assert isinstance(following, ast.Expr), ast.unparse(node)
