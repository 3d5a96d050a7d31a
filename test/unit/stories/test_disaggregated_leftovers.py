"""Stories of what deleted LeaderWorkerSets of a DisaggregatedSet leave behind in a rollout."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.revisions.record import record
from lws.runtime.actions import Key
from lws_api.disaggregatedset.v1 import KIND
from test.unit.builders import make_set
from test.unit.stories.disaggregated_attack import Attack
from test.unit.stories.disaggregated_world import CHILD, World
from test.unit.stories.test_disaggregated_attacks import BUDGETS, Edit, begin, bring_to_rest, image


class Late(Attack):
    """An attack in which the garbage collector does nothing while `is_late`."""

    is_late = False

    def _round(self) -> bool:
        collect = self.world.cluster.collect
        if self.is_late:
            self.world.cluster.collect = lambda: False  # type: ignore[method-assign]
        try:
            return super()._round()
        finally:
            self.world.cluster.collect = collect  # type: ignore[method-assign]


def at_rest(loop: asyncio.AbstractEventLoop, rolling: dict[str, Any]) -> Late:
    attack = Late(loop)
    bring_to_rest(attack, rolling)
    return attack


def until(attack: Attack, name: str, groups: int) -> None:
    """Play until the child has this many desired groups."""
    for _ in range(60):
        if attack.world.get(CHILD, name)["spec"]["replicas"] == groups:
            return
        if not attack._round():
            attack.world.manager.ring()
    raise AssertionError(f"{name} never comes to {groups} groups")


def key_after(world: World, edit: Edit) -> str:
    """Return the key of the revision that an edit leads to."""
    obj = copy.deepcopy(dict(world.get(KIND)))
    edit(obj["spec"])
    return key_of(record(obj).roles)


def orphan_its_groups(world: World, name: str) -> None:
    """Delete a child as `kubectl delete lws NAME --cascade=orphan` does."""
    child = world.get(CHILD, name)
    for dependent in world.cluster.owned_by(child["metadata"]["uid"]):
        world.cluster.change(dependent, {"ownerReferences": None})
    world.cluster.end(child)


def test_orphaned_groups_of_a_lost_child_count_until_they_are_adopted(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The child was just scaled from three groups to two."""
    attack = begin(loop, BUDGETS[0])
    (old,) = attack.world.counts()
    attack.at, attack.hit = 12, lambda world: orphan_its_groups(world, f"demo-0-{old}-prefill")
    attack.world.edit(image("b"))
    attack.go()
    attack.check_end()


def test_remaining_groups_count_although_their_lost_child_is_not_recreated(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The child's siblings have no groups left, so it is not recreated, while its last group still runs."""
    attack = at_rest(loop, BUDGETS[1])
    (old,) = attack.world.counts()

    def lose(world: World) -> None:
        world.cluster.request_deletion(world.get(CHILD, f"demo-0-{old}-decode"))
        attack.is_late = True

    attack.at, attack.hit = 9, lose
    attack.world.edit(image("b"))
    attack.go()
    attack.is_late = False
    attack.go()
    attack.check_end()


def test_remaining_groups_of_a_lost_revision_count(loop: asyncio.AbstractEventLoop) -> None:
    attack = at_rest(loop, BUDGETS[0])
    (old,) = attack.world.counts()
    attack.world.edit(image("b"))
    until(attack, f"demo-0-{old}-prefill", 2)
    attack.is_late = True
    for role in ("prefill", "decode"):
        attack.world.cluster.request_deletion(attack.world.get(CHILD, f"demo-0-{old}-{role}"))
    attack.go(6)
    attack.is_late = False
    attack.go()
    attack.check_end()


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_statefulset_kept_by_a_finalizer_blocks_nothing(loop: asyncio.AbstractEventLoop, role: str) -> None:
    """The pods of the StatefulSet are gone, and its controller creates none during deletion."""
    attack = at_rest(loop, BUDGETS[0])
    (old,) = attack.world.counts()
    attack.world.edit(image("b"))
    until(attack, f"demo-0-{old}-prefill", 2)
    world, name = attack.world, f"demo-0-{old}-{role}"
    world.cluster.change(world.get("StatefulSet", name), {"finalizers": ["example.com/backup"]})
    world.cluster.request_deletion(world.get(CHILD, name))
    world.cluster.collect()
    assert world.get("StatefulSet", name)["metadata"].get("deletionTimestamp")
    for pod in list(world.cluster.of_kind("Pod")):
        if pod["metadata"]["name"].rpartition("-")[0] == name:
            world.cluster.end(pod)
    attack.go()
    attack.check_end()


def test_a_user_statefulset_with_the_name_of_a_child_does_not_count_as_its_groups(
    loop: asyncio.AbstractEventLoop,
) -> None:
    attack = begin(loop, BUDGETS[0])
    world, labels = attack.world, {"app": "mine"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 10, "selector": {"matchLabels": labels}, "template": template}
    name = f"demo-0-{key_after(world, image('b'))}-prefill"
    metadata = {"name": name, "labels": labels}
    world.cluster.add({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
    attack.is_judged = False
    world.edit(image("b"))
    for _ in range(40):
        if not attack._round():
            world.manager.ring()
    (prefill,) = (
        role_status for role_status in world.status["roleStatuses"] if role_status["name"] == "prefill"
    )
    assert prefill["replicas"] <= 4


def test_a_foreign_statefulset_with_the_name_of_a_lost_child_is_not_waited_for(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The owner of the StatefulSet has the same kind and name as the lost child."""
    attack = begin(loop, BUDGETS[0], (4, 4))
    world = attack.world
    (old,) = world.counts()
    name = f"demo-0-{old}-prefill"

    def take(_: World) -> None:
        world.cluster.end(world.get(CHILD, name))
        world.cluster.collect()
        world.cluster.collect()
        world.cluster.add(make_set(name, size=1, replicas=2))

    seen: list[dict[str, int]] = []
    former = attack._on_plan

    def look(key: Key, snapshot: Any, planned: Any) -> None:
        former(key, snapshot, planned)
        if key.kind == "disaggregatedset" and (CHILD, name) in snapshot.strangers:
            seen.append(dict(snapshot.lingering))

    attack.at, attack.hit, attack._on_plan = 9, take, look  # type: ignore[method-assign]
    attack.restart()
    world.edit(image("b"))
    for _ in range(60):
        if not attack._round():
            world.manager.ring()
    # The pods that the garbage collector had not deleted yet are awaited.
    assert seen and not any(seen[8:])


@pytest.mark.parametrize("fault", ["500", "409", "403", "late"])
def test_a_change_reverted_before_it_is_recorded_completes_no_rollout(
    loop: asyncio.AbstractEventLoop, fault: str
) -> None:
    attack = begin(loop, BUDGETS[0])
    world = attack.world
    before = len(world.reasons)
    attack.at, attack.fault = 1, fault
    world.edit(image("b"))
    world.manager.read(KIND)
    world.manager.run_pass(Key("disaggregatedset", "default", "demo"))
    world.edit(image("app:1"))
    attack.go()
    attack.check_end()
    assert "RollingUpdateCompleted" not in world.reasons[before:]
