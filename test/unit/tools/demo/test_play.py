from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from test.unit.tools.demo.fakes import FakeScene, SilentShow, a_manifest
from test.unit.tools.demo.objects import IMAGE, NAME, make_lease, make_view
from tools.demo.facts import Record, View
from tools.demo.mirror import NotInTime
from tools.demo.play import Play
from tools.demo.structure import Goal


def a_play(scene: FakeScene, show: SilentShow | None = None, uids: frozenset[str] = frozenset()) -> Play:
    return Play(scene, show or SilentShow(), a_manifest(), Path("a.yaml"), uids)  # type: ignore[arg-type]


def test_commands_are_shown_as_users_type_them() -> None:
    scene, show = FakeScene([make_view()]), SilentShow()
    a_play(scene, show).kubectl("patch", "lws", "a", "-p", "[1, 2]")
    assert show.messages == ["$ kubectl patch lws a -p '[1, 2]'"]
    assert scene.cluster.commands == [("--namespace", "default", "patch", "lws", "a", "-p", "[1, 2]")]


def test_a_reached_goal_is_verified_by_a_fresh_read() -> None:
    waited, fresh = make_view(), make_view()
    scene, show = FakeScene([waited], [fresh]), SilentShow()
    assert a_play(scene, show).until(Goal(NAME, 4, IMAGE), "4 groups") is fresh
    assert show.waits == ["4 groups", ""]


def test_a_goal_that_is_not_reached() -> None:
    with pytest.raises(NotInTime, match="6 groups"):
        a_play(FakeScene([make_view()])).until(Goal(NAME, 6, IMAGE), "6 groups")


@pytest.mark.parametrize(
    ("wait", "views", "reached"),
    [
        pytest.param(lambda play: play.until_empty(), [Record().view()], True, id="no objects remain"),
        pytest.param(lambda play: play.until_empty(), [make_view()], False, id="objects remain"),
        pytest.param(
            lambda play: play.until_taken_over("manager-0"),
            [make_view(leases=[make_lease("manager-1")])],
            True,
            id="another holds the Lease",
        ),
        pytest.param(
            lambda play: play.until_taken_over("manager-0"),
            [make_view(), make_view(leases=[make_lease("")])],
            False,
            id="the former manager or none holds the Lease",
        ),
    ],
)
def test_other_waits(wait: Callable[[Play], object], views: list[View], reached: bool) -> None:
    play = a_play(FakeScene(views, views))
    if reached:
        wait(play)
    else:
        with pytest.raises(NotInTime):
            wait(play)


def test_earlier_objects_may_remain() -> None:
    view = make_view()
    uids = frozenset(obj["metadata"]["uid"] for objects in view.objects.values() for obj in objects)
    assert a_play(FakeScene([view], [view]), uids=uids).until_empty() is view


def test_passes_are_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{}, {"set": 1}, {"set": 1, "pod": 6}])
    calls: list[tuple[int, str]] = []

    def read(port: int, token: str) -> Mapping[str, int]:
        calls.append((port, token))
        return next(answers)

    monkeypatch.setattr("tools.demo.play.read_passes", read)
    monkeypatch.setattr("tools.demo.play._SCRAPE_SECONDS", 0.0)
    scene = FakeScene([make_view()], workspace=tmp_path)
    assert a_play(scene).until_passes({"set": 1, "pod": 6}) == {"set": 1, "pod": 6}
    assert calls == [(8443, "the-admins-token")] * 3


def test_missing_passes_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.demo.play.read_passes", lambda *_: {})
    monkeypatch.setattr("tools.demo.play._SECONDS", -1.0)
    with pytest.raises(NotInTime, match="look at every object"):
        a_play(FakeScene([make_view()], workspace=tmp_path)).until_passes({"set": 1})


def test_a_missing_set_is_reported() -> None:
    play = a_play(FakeScene([]))
    assert play.facts(make_view()).name == NAME
    with pytest.raises(LookupError, match=f"default/{NAME} does not exist"):
        play.facts(Record().view())
