"""Stories of DisaggregatedSets whose manager learns of pods later than of everything else.

Another process manages the LeaderWorkerSets and writes their statuses, so the statuses are ahead of the pods
that the manager knows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from lws.disaggregatedset.routing import PASS
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Key
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_attack import Attack
from test.unit.stories.fake_manager import FakeManager

BUDGETS = ({"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 2})
Edit = Callable[[dict[str, Any]], object]


class LatePods(Attack):
    """An attack with late pods.

    woken: how often the deletion of a pod alone started a pass.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self._order = random.Random(seed)
        self.woken = 0
        super().__init__(loop)

    def restart(self) -> None:
        super().restart()
        self._other = FakeManager(self.world.cluster, self.loop, self._on_plan, REGISTRATIONS)

    def _round(self) -> bool:
        world, manager = self.world, self.world.manager
        version = world.cluster.version
        _work(self._other, lambda key: key.kind != PASS)
        _work(manager, _is_of_the_set, late=("Pod",))
        world.nodes.sync_all()
        world.cluster.collect()
        for move in world.nodes.moves():
            move()
        if version != world.cluster.version or "Pod" not in manager.late:
            return version != world.cluster.version
        # Nothing changes any more: deliver some of the pods.
        manager.read("Pod", self._order.randint(1, 3))
        self.woken += any(map(_is_of_the_set, manager.queue.keys))
        return True


def _is_of_the_set(key: Key) -> bool:
    return key.kind == PASS


def _work(manager: FakeManager, is_meant: Callable[[Key], bool], late: Collection[str] = ()) -> None:
    while True:
        for kind in manager.late:
            if kind not in late:
                manager.read(kind)
        for key in [key for key in manager.queue.keys if not is_meant(key)]:
            del manager.queue.keys[key]
        if not manager.run_pass():
            return


def _image(spec: dict[str, Any]) -> None:
    for role in spec["roles"]:
        template = role["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        template["spec"]["containers"][0]["image"] = "b"


def _image_and_counts(spec: dict[str, Any]) -> None:
    _image(spec)
    spec["roles"][0]["spec"]["replicas"], spec["roles"][1]["spec"]["replicas"] = 1, 4


def _rename(spec: dict[str, Any]) -> None:
    for role in spec["roles"]:
        role["name"] += "x"


@pytest.mark.parametrize("edit", [_image, _image_and_counts, _rename], ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("seed", range(len(BUDGETS)))
def test_late_pod_events_break_no_promise(loop: asyncio.AbstractEventLoop, seed: int, edit: Edit) -> None:
    attack = LatePods(loop, seed)
    roles = [make_role(name, count, rolling=BUDGETS[seed]) for name, count in (("prefill", 3), ("decode", 2))]
    obj = make_disaggregated(roles=roles)
    del obj["metadata"]["uid"]
    attack.world.cluster.add(obj)
    attack.go()
    attack.writes.clear()
    attack.woken = 0
    attack.world.edit(edit)
    attack.go()
    attack.check_end()
    assert attack.woken, "no other event follows that would report them"
