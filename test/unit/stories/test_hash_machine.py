"""Tests of sets with Hash groups in random events, with our own observation and plans.

Other controllers are a model. Promises hold after every turn, and the set settles from every state.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from lws.kube.metadata import controller_of, is_terminating, labels_of, name_of, uid_of
from lws.leaderworkerset.restart_counts import is_exhausted, is_kept
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.runtime.actions import Action, Delete
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, RECOVER_ANNOTATION, REVISION_LABEL
from test.unit.builders import make_pod_template
from test.unit.seeds import for_each_seed
from test.unit.stories.hash_cluster import HashCluster, gates_of, is_ready
from test.unit.stories.test_hash_sets import make_hash_set

Object = dict[str, Any]


class Watched(HashCluster):
    """A cluster that checks that each deletion by our passes has a reason.

    restarts: counted restarts by revision.
    """

    def __init__(self, lws: Object) -> None:
        super().__init__(lws)
        self.restarts: Counter[str] = Counter()

    def _do(self, action: Action) -> None:
        if isinstance(action, Delete) and action.target.kind == "Pod":
            leader = self.objects.get(("Pod", action.target.name))
            assert leader is None or self._has_reason(leader), f"{action.target.name} deleted: {action.why}"
            if leader is not None and any(event.reason == "RecreateGroup" for event in action.announce):
                self.restarts[labels_of(leader)[REVISION_LABEL]] += 1
        super()._do(action)

    def exhausted(self) -> dict[str, Object]:
        return {name_of(pod): pod for pod in self.leaders() if is_exhausted(pod)}

    def _has_reason(self, leader: Object) -> bool:
        """Return whether a pod of the group was lost, has ended or restarted, or the group is still gated."""
        group = self.pods_of(leader)
        size = self.lws["spec"]["leaderWorkerTemplate"]["size"]
        are_good = all(is_ready(pod) and not is_terminating(pod) for pod in group)
        are_new = not any(pod.get("status", {}).get("containerStatuses") for pod in group)
        return bool(gates_of(leader)) or len(group) < size or not are_good or not are_new


class Day:
    """One set and the events that happen to it.

    unsteady: whether the budget was changed or the Deployment lost since the set was last settled, so that
    old groups exist in addition to new ones.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        pick = self.chance.choice
        self.replicas, self.surge = pick([1, 2, 3]), pick([0, 1, 2])
        self.image, self.is_paused, self.is_immediate = "app:1", False, pick([False, False, True])
        policy = {"groupReplacementPolicy": "Immediate"} if self.is_immediate else {}
        self.limit, backoff = pick([None, None, 0, 1, 2]), pick([{}, {}, {"restartBackoff": {}}])
        template = {**backoff, **({"maxGroupRestarts": self.limit} if self.limit is not None else {})}
        waves = pick([{}, {"startStrategy": {"seedGroups": pick([1, 2])}}])
        lws = make_hash_set(
            replicas=self.replicas,
            size=2,
            max_surge=self.surge,
            max_unavailable=pick([1, 2]),
            template=template,
            **policy,
            **waves,
        )
        self.world = Watched(lws)
        self.most = self.replicas
        self._events, self._seen, self._ended_at = 0, 0, dict[str, int]()

    async def go_on(self, turns: int) -> None:
        """Play turns, and check the set after each of them."""
        for _ in range(turns):
            self.world.most_groups = 0
            await self.world.turn(20.0)
            if not self.is_immediate:
                most = self.most + self.surge
                assert self.world.most_groups <= most, f"{self.world.most_groups} groups, at most {most}"
            self._look_at_restarts()

    def _look_at_restarts(self) -> None:
        if self.limit is not None:
            most = self.limit * (self.most + self.surge)
            assert all(count <= most for count in self.world.restarts.values()), self.world.restarts
        exhausted, key = self.world.exhausted(), self.world.objects.get(("Deployment", "demo"))
        for name in self._ended_at.keys() - exhausted.keys():
            since = self._ended_at.pop(name)
            assert self._events > since, f"{name} is released without a request"
        for name, pod in exhausted.items():
            is_current = key is not None and key_of_template(key) == labels_of(pod)[REVISION_LABEL]
            self._ended_at.setdefault(name, self._seen if is_current else -1)
        self._seen = self._events

    def _is_news(self) -> None:
        """Note an event after which ended groups may be released, and restarts of other groups are not
        counted.
        """
        self._events += 1
        self.world.restarts.clear()

    def happen(self) -> None:
        """Play one random event."""
        events: list[Callable[[], None]] = [self.change, self.change, self.scale, self.scale]
        events += [self.pause, self.lose_worker, self.lose_leader, self.mark, self.lose_deployment]
        events += [self.crash, self.crash, self.recover, self.lose_write]
        events += [self.set_clock]
        self.chance.choice(events)()

    def set_clock(self) -> None:
        """Set the clock of the control plane forwards or back."""
        self.world.set_clock(timedelta(hours=self.chance.choice([-1, 1])))

    def crash(self) -> None:
        """Make workers of this image restart, or stop doing so."""
        self.world.crashing.symmetric_difference_update({self.image})

    def recover(self) -> None:
        for name in self.world.exhausted():
            self.world.change("Pod", name, {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}})
        self._is_news()

    def lose_write(self) -> None:
        """End the manager before one of its next writes."""
        numbers, which = itertools.count(), self.chance.randrange(8)
        self.world.is_lost = lambda action: next(numbers) == which

    def change(self) -> None:
        self._is_news()
        self.image = f"app:{self.chance.randrange(1, 9)}"
        if self.chance.random() < 0.3:
            self.world.failing.add(self.image)
        self.world.edit(leaderWorkerTemplate={"workerTemplate": make_pod_template(self.image)})

    def scale(self) -> None:
        self._is_news()
        self.replicas = self.chance.choice([0, 1, 2, 4])
        # Groups that a scale-down removes hold their nodes for a while.
        self.most = max(self.most, self.replicas)
        self.world.edit(replicas=self.replicas)

    def pause(self) -> None:
        self._is_news()
        self.is_paused = not self.is_paused
        self.world.edit(rolloutStrategy={"paused": self.is_paused})

    def lose_worker(self) -> None:
        pods = [obj for (kind, _), obj in self.world.objects.items() if kind == "Pod"]
        workers = [pod for pod in pods if (controller_of(pod) or {}).get("kind") == "StatefulSet"]
        if workers:
            self.world.delete(self.chance.choice(workers))

    def lose_leader(self) -> None:
        """Delete a leader, which may take some turns to terminate."""
        if leaders := self.world.leaders(live=True):
            leader = self.chance.choice(leaders)
            self.world.stay(leader, self.chance.randrange(4))
            self.world.delete(leader, is_foreground=self.chance.random() < 0.5)

    def mark(self) -> None:
        if leaders := self.world.leaders(live=True):
            cost = {DELETION_COST_ANNOTATION: str(self.chance.randrange(-5, 5))}
            name = name_of(self.chance.choice(leaders))
            self.world.change("Pod", name, {"metadata": {"annotations": cost}})

    def lose_deployment(self) -> None:
        self._is_news()
        deployment = self.world.objects.get(("Deployment", "demo"))
        if deployment is not None:
            (self.world.orphan if self.chance.random() < 0.5 else self.world.delete)(deployment)

    async def end(self) -> None:
        """Undo the faults, resume the set, and check that it settles.

        Ended groups stay until a user requests new ones.
        """
        self.world.failing.clear()
        self.world.crashing.clear()
        self.world.is_lost = lambda action: False
        self.world.edit(rolloutStrategy={"paused": False})
        self._is_news()
        await self.world.settle(seconds=700.0)
        exhausted, key = (
            len(self.world.exhausted()),
            key_of_template(self.world.objects["Deployment", "demo"]),
        )
        current = [pod for pod in self.world.gated() if labels_of(pod)[REVISION_LABEL] == key]
        assert len(current) == exhausted <= self.replicas
        # Kept groups hold up a rollout, in which groups of former revisions have no more restarts, either.
        assert exhausted or not self.world.gated()
        live = len(self.world.leaders(live=True)) - self.replicas
        assert 0 <= live <= (self.surge if exhausted else 0)
        self.recover()
        await self.world.settle()
        assert not any(is_kept(pod) for (kind, _), pod in self.world.objects.items() if kind == "Pod")
        leaders = self.world.leaders()
        assert len(leaders) == self.replicas and not self.world.gated()
        assert all(is_ready(pod) and not is_terminating(pod) for pod in leaders)
        assert len({labels_of(pod)[REVISION_LABEL] for pod in leaders}) <= 1
        assert len({labels_of(pod)[GROUP_INDEX_LABEL] for pod in leaders}) == self.replicas
        deployment = self.world.objects["Deployment", "demo"]
        images = {pod["spec"]["containers"][0]["image"] for pod in leaders}
        assert images <= {self.image}, uid_of(deployment)
        assert not any(
            int(pod["metadata"].get("annotations", {}).get(DELETION_COST_ANNOTATION, 0)) < -100
            for pod in leaders
        ), "costs of ours are left"


async def play(seed: int) -> None:
    """Play a day with random events to its end."""
    day = Day(seed)
    await day.go_on(6)
    for _ in range(day.chance.randrange(2, 7)):
        day.happen()
        await day.go_on(day.chance.randrange(6))
    await day.end()


@for_each_seed(60)
def test_random_event_sequences(seed: int) -> None:
    asyncio.run(play(seed))


async def lose_groups_of_the_former_revision(seed: int) -> None:
    """Lose groups of the former revision during a rollout to a revision that never becomes ready."""
    day = Day(seed)
    day.limit, chance, world = None, day.chance, day.world
    world.edit(startStrategy={"seedGroups": 1}, leaderWorkerTemplate={"maxGroupRestarts": None})
    await world.settle(seconds=700.0)
    day.image = "app:9"
    world.failing.add(day.image)
    world.edit(leaderWorkerTemplate={"workerTemplate": make_pod_template(day.image)})
    for _ in range(chance.randrange(2, 5)):
        for _ in range(chance.randrange(8)):
            await world.turn(20.0)
        chance.choice([day.lose_leader, day.lose_worker])()
    await world.settle(seconds=700.0)
    away = [pod for pod in world.gated() if pod["spec"]["containers"][0]["image"] == "app:1"]
    assert not away, f"{len(away)} groups of the former revision stay away"
    await day.end()


@for_each_seed(30)
def test_a_broken_revision_keeps_no_lost_group_of_the_former_one_away(seed: int) -> None:
    asyncio.run(lose_groups_of_the_former_revision(seed))
