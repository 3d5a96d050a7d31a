"""test.bench.paced.turns: when a group was replaced and ready again, read from its leader pod."""

from __future__ import annotations

from typing import Any, cast

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL
from test.bench.manifests import NEW, OLD
from test.bench.paced.figures import Turn
from test.bench.paced.turns import Turns
from tools.localcluster.api import Api


def _pod(
    uid: str, image: str, ready: bool = False, terminating: bool = False, index: int = 3
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"uid": uid, "labels": {GROUP_INDEX_LABEL: str(index)}}
    if terminating:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    spec = {"containers": [{"image": image}]}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


class _Watched:
    """A stream of pods, one a second."""

    def __init__(self) -> None:
        self._now = 0.0
        self.turns = Turns(cast(Api, None), "ns", "demo", NEW, lambda: self._now)

    def see(self, *pods: dict[str, Any]) -> None:
        for pod in pods:
            self._now += 1.0
            self.turns.take(pod)


def test_a_turn_lasts_from_deletion_until_the_next_pod_is_ready() -> None:
    watched = _Watched()
    watched.see(
        _pod("a", OLD, ready=True),
        _pod("a", OLD, ready=True, terminating=True),
        _pod("a", OLD, terminating=True),
        _pod("b", NEW),
        _pod("b", NEW, ready=True),
        _pod("b", NEW, ready=True),
    )
    assert watched.turns.turns == {3: Turn(2.0, 5.0)}
    assert watched.turns.repeated == 0
    watched.turns.wait(0, 0.0, lambda: None)


def test_a_turn_of_a_surge_group_starts_with_its_creation() -> None:
    watched = _Watched()
    watched.see(_pod("a", NEW, index=40), _pod("a", NEW, ready=True, index=40))
    assert watched.turns.turns == {40: Turn(1.0, 2.0)}


def test_a_pod_recreated_on_the_old_revision_has_another_turn() -> None:
    watched = _Watched()
    watched.see(
        _pod("a", OLD, terminating=True),
        _pod("b", OLD),
        _pod("b", OLD, terminating=True),
        _pod("c", NEW),
        _pod("c", NEW, ready=True),
    )
    assert watched.turns.turns == {3: Turn(1.0, 5.0)}
    assert watched.turns.repeated == 1
