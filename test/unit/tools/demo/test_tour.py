from __future__ import annotations

from collections.abc import Callable

import pytest

from test.unit.tools.demo.fakes import FakeScene, SilentShow
from test.unit.tools.demo.objects import make_view
from tools.demo.check import Check
from tools.demo.mirror import NotInTime
from tools.demo.play import Play
from tools.demo.show import Result
from tools.demo.tour import run_tour
from tools.deployment import DeploymentError
from tools.localcluster import ApiError, CommandError

Act = Callable[[Play], list[Check]]
GOOD, BAD = Check("good", True, "", ""), Check("bad", False, "1", "2")


def act(*checks: Check, error: Exception | None = None) -> Act:
    def play_it(play: Play) -> list[Check]:
        play.show.wait_for("something")
        if error is not None:
            raise error
        return list(checks)

    return play_it


def tour(monkeypatch: pytest.MonkeyPatch, *acts: Act) -> tuple[Result, SilentShow]:
    titled = tuple((f"Step {number} of {{groups}} × {{size}}", act) for number, act in enumerate(acts))
    monkeypatch.setattr("tools.demo.tour.ACTS", titled)
    show = SilentShow()
    return run_tour(FakeScene([make_view()]), show), show  # type: ignore[arg-type]


def test_every_act_is_played_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    result, show = tour(monkeypatch, act(GOOD, GOOD), act(GOOD))
    assert result == Result(3) and result.is_good
    assert show.steps == ["Step 0 of 4 × 4", "Step 1 of 4 × 4"]
    assert show.checks == [GOOD] * 3
    assert [line.partition(",")[0] for line in show.messages] == ["2 of 2 facts hold", "1 of 1 facts hold"]
    assert show.waits[-1] == "" and show.failures == []


def test_a_failed_check_ends_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    result, show = tour(monkeypatch, act(GOOD), act(GOOD, BAD), act(GOOD))
    assert result == Result(3, ("bad",)) and not result.is_good
    assert len(show.steps) == 2
    assert show.failures == ["the manager's last words:\nthe last 12 lines"]


@pytest.mark.parametrize(
    ("error", "expected", "actual"),
    [
        pytest.param(
            NotInTime("pods", 90.0, make_view()),
            "within 90 s",
            "groups ready 4/4, up to date 4/4, Available",
            id="too late",
        ),
        pytest.param(CommandError("kubectl failed"), "no error", "kubectl failed", id="a command"),
        pytest.param(ApiError(500, "broken"), "no error", "500: broken", id="a request"),
        pytest.param(DeploymentError("no manager"), "no error", "no manager", id="the manager"),
        pytest.param(LookupError("no set"), "no error", "no set", id="the set"),
        pytest.param(IndexError("no pod"), "no error", "no pod", id="a pod"),
    ],
)
def test_an_act_that_raises_is_a_failed_check(
    error: Exception, expected: str, actual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, show = tour(monkeypatch, act(error=error), act(GOOD))
    (check,) = show.checks
    assert result == Result(1, (check.claim,))
    assert (check.held, check.expected, check.actual) == (False, expected, actual)
    assert show.waits[-1] == ""


def test_a_tour_without_checks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = tour(monkeypatch, act())
    assert not result.is_good


def test_earlier_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[frozenset[str]] = []

    def look(play: Play) -> list[Check]:
        seen.append(play.older)
        return [GOOD]

    tour(monkeypatch, look)
    assert "service-uid" in seen[0]
