from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import yaml

from test.unit.tools.demo.fakes import FakeScene, SilentShow, a_manifest
from test.unit.tools.demo.objects import (
    NAME,
    make_event,
    make_group,
    make_revision,
    make_set,
    make_view,
)
from tools.demo.check import Check
from tools.demo.facts import Moment, Object, Record, View, pod_of
from tools.demo.play import Play
from tools.demo.tour import ACTS, MANIFEST, create, delete, lose_worker, restart_manager, scale, update

NEW_IMAGE = "example.com/pause:3.9"
Act = Callable[[Play], list[Check]]


def groups(indices: Iterable[int], **changes: Any) -> list[dict[str, Any]]:
    return [pod for index in indices for pod in make_group(index, **changes)]


def view_of(pods: Sequence[Object], count: int = 4, **others: Any) -> View:
    return make_view(pods, make_set(replicas=count), **others)


def moment_of(pods: Sequence[Object]) -> Moment:
    return tuple(pod for pod in map(pod_of, pods) if pod is not None)


def play_of(views: Sequence[View], moments: Sequence[Sequence[Object]] = ()) -> tuple[Play, FakeScene]:
    """Return a play and its scene.

    The first view is the state before the act, the others appear while it waits.
    """
    scene = FakeScene(views)
    scene.mirror.moments = tuple(map(moment_of, moments))
    # As in a record, deleted StatefulSets are kept.
    leaders = {uid: leader for view in views for uid, leader in view.leaders.items()}
    scene.mirror.view = lambda: View(views[-1].objects, leaders)  # type: ignore[method-assign]
    play = Play(scene, SilentShow(), a_manifest(), MANIFEST, frozenset())  # type: ignore[arg-type]
    return play, scene


def failed(checks: Sequence[Check]) -> list[str]:
    assert checks
    return [check.claim for check in checks if not check.held]


OLD = groups(range(4))
NEW = groups(range(4), incarnation="-2", revision="new", image=NEW_IMAGE)
UPDATED = view_of(NEW, revisions=[make_revision("old"), make_revision("new")])


def rolling(order: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Return moments in which every group is absent once and then recreated, in this order."""
    moments = [OLD]
    for number in range(len(order)):
        done, now = order[:number], order[number]
        remaining = [index for index in range(4) if index not in (*done, now)]
        fresh = groups(done, incarnation="-2", revision="new")
        moments.append([*groups(remaining), *fresh])
        moments.append([*groups(remaining), *fresh, *groups([now], incarnation="-2", revision="new")])
    return moments


def test_create() -> None:
    play, scene = play_of([view_of(OLD)])
    assert failed(create(play)) == []
    assert scene.cluster.commands == [("--namespace", "default", "apply", "-f", "-")]
    applied = yaml.safe_load(scene.cluster.inputs[0])
    assert applied["metadata"] == yaml.safe_load(MANIFEST.read_text())["metadata"]


def test_update() -> None:
    play, scene = play_of([view_of(OLD), UPDATED], rolling([3, 2, 1, 0]))
    assert failed(update(play)) == []
    assert json.loads(scene.cluster.commands[0][-1])[0]["value"] == NEW_IMAGE


@pytest.mark.parametrize(
    ("moments", "claim"),
    [
        pytest.param(rolling([0, 1, 2, 3]), "groups moved to the new revision in the order", id="from below"),
        pytest.param(
            [*rolling([3, 2, 1, 0]), NEW[:8]], "at no time were fewer than 3 groups ready", id="two at a time"
        ),
    ],
)
def test_an_unexpected_update_fails(moments: list[list[dict[str, Any]]], claim: str) -> None:
    play, _ = play_of([view_of(OLD), UPDATED], moments)
    (wrong,) = failed(update(play))
    assert wrong.startswith(claim)


RECREATED = [*groups([0, 1, 3]), *groups([2], incarnation="-2")]
WHY = make_event("RecreateGroup", f"Worker pod {NAME}-2-1 failed")


def test_lose_worker() -> None:
    moments = [OLD, groups([0, 1, 3]), RECREATED]
    play, scene = play_of([view_of(OLD), view_of(RECREATED, events=[WHY])], moments)
    assert failed(lose_worker(play)) == []
    assert scene.cluster.pods.restarted == [("default", f"{NAME}-2-1", "worker", 137)]


@pytest.mark.parametrize(
    ("after", "events", "wrong"),
    [
        pytest.param(RECREATED, [], [f"an Event RecreateGroup names {NAME}-2-1"], id="no event"),
        pytest.param(
            groups(range(4), incarnation="-2"),
            [WHY],
            ["the other 12 pods kept their UIDs"],
            id="all groups were recreated",
        ),
    ],
)
def test_an_unexpected_result_of_a_lost_worker_fails(
    after: list[dict[str, Any]], events: list[dict[str, Any]], wrong: list[str]
) -> None:
    play, _ = play_of([view_of(OLD), view_of(after, events=events)], [OLD])
    assert failed(lose_worker(play)) == wrong


def test_scale() -> None:
    more = groups(range(6))
    play, scene = play_of([view_of(OLD), view_of(more, count=6)], [OLD, more])
    assert failed(scale(play)) == []
    assert scene.cluster.commands[0][2:] == ("scale", "lws", NAME, "--replicas=6")


def test_scale_that_disturbs_a_group() -> None:
    more = groups(range(6))
    play, _ = play_of([view_of(OLD), view_of(more, count=6)], [OLD, OLD[:12], more])
    assert [claim.partition(" (")[0] for claim in failed(scale(play))] == [
        "groups 0, 1, 2, 3 were ready all the time"
    ]


SIX = groups(range(6))
BEFORE = view_of(SIX, count=6)


def restarting(after: View, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Check], FakeScene]:
    monkeypatch.setattr(Play, "until_passes", lambda *_: {"leaderworkerset": 1, "pod": 6})
    play, scene = play_of([BEFORE, BEFORE, after], [SIX])
    waited_for: list[str] = []
    monkeypatch.setattr(Play, "until_taken_over", lambda _, former: waited_for.append(former))
    checks = restart_manager(play)
    assert waited_for == ["manager-0"]
    return checks, scene


def test_restart_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, scene = restarting(BEFORE, monkeypatch)
    assert failed(checks) == []
    assert scene.manager.deeds == ["kill", "start", "wait_ready"]


def test_a_restarted_manager_that_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = make_revision("old")
    written["metadata"]["resourceVersion"] = "2"
    checks, _ = restarting(view_of(SIX, count=6, revisions=[written]), monkeypatch)
    assert failed(checks) == ["1 ControllerRevision has the UID, generation and resourceVersion it had"]


def test_delete() -> None:
    empty = Record().view()
    play, scene = play_of([empty], [OLD, OLD[:4], []])
    assert failed(delete(play)) == []
    assert scene.cluster.commands[0][2:] == ("delete", "lws", NAME)


def test_every_act_has_a_title() -> None:
    titles = [title.format(groups=4, size=4) for title, _ in ACTS]
    assert titles[0] == "Create 4 groups of 4 pods"
    assert len(set(titles)) == len(titles) == 6
