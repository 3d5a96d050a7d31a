"""Tests of DisaggregatedSets with events in random order.

The store, the passes and the writes are the product's own; the cluster is in memory. Every write is judged,
and the set settles from every state. The test plays 300 sets by default, and 20,000 with more events each
with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lws_api.disaggregatedset.v1 import (
    INITIAL_REPLICAS_ANNOTATION,
    KIND,
    OTHERS_INITIAL_REPLICAS_ANNOTATION,
    SCALER_KIND,
)
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated.test_machine import COMMON, PROFILE
from test.unit.stories.disaggregated_attack import FAULTS, Attack
from test.unit.stories.disaggregated_world import CHILD

NAMES = ("prefill", "decode", "router", "encode")
BUDGETS: tuple[dict[str, Any] | None, ...] = (
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": 0, "maxUnavailable": 1},
    {"maxSurge": 2},
    {"maxSurge": 1, "maxUnavailable": 1},
    {"maxSurge": "50%", "maxUnavailable": "25%"},
    None,
)
PARTS = 6
SETS = {"default": 300 // PARTS, "nightly": 20_000 // PARTS}[PROFILE]
EVENTS = {"default": 3, "nightly": 6}[PROFILE]
MEMORY = (INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION)

Spec = dict[str, Any]

images = st.sampled_from(["a", "b", "c"])
budgets = st.sampled_from(BUDGETS)
groups = st.sampled_from([2, 3, 1, 4])
# None stands for a role that an autoscaler scales.
targets = st.sampled_from([2, 3, None, 1, 4])
courses = st.integers(0, 2**20)
"""Seed of what follows an event: rounds, a write that fails, streams that lag."""


class Machine(RuleBasedStateMachine):
    """One set and the events that happen to it."""

    @initialize(
        roles=st.lists(st.tuples(targets, budgets), min_size=2, max_size=4),
        slices=st.sampled_from([1, 1, 2, 3]),
        most_updating=st.sampled_from([None, None, 1]),
        is_new=st.sampled_from([False, False, False, True]),
        course=courses,
    )
    def begin(
        self,
        roles: list[tuple[int | None, dict[str, Any] | None]],
        slices: int,
        most_updating: int | None,
        is_new: bool,
        course: int,
    ) -> None:
        """Begin with a set that is settled or still being created."""
        self.loop = asyncio.new_event_loop()
        self.attack = Attack(self.loop)
        role_specs = [_role(name, *role) for name, role in zip(NAMES, roles, strict=False)]
        more = {} if most_updating is None else {"rolloutStrategy": {"maxUpdatingSlices": most_updating}}
        obj = make_disaggregated(roles=role_specs, slices=slices, **more)
        del obj["metadata"]["uid"]
        self.world = self.attack.world
        self.world.cluster.add(obj)
        self.attack.go(1 + course % 4 if is_new else 0)

    @rule(image=images, course=courses)
    def change_image(self, image: str, course: int) -> None:
        self._edit(lambda spec: _set_image(spec["roles"], image), course)

    @rule(image=images, course=courses)
    def change_image_of_one(self, image: str, course: int) -> None:
        self._edit(lambda spec: _set_image([_pick_role(spec, course)], image), course)

    @rule(count=st.sampled_from([2, 3, 1, 4, 0]), course=courses)
    def scale(self, count: int, course: int) -> None:
        def change(spec: Spec) -> None:
            of_role, replicas = _pick_role(spec, course)["spec"], _static(spec)
            if "replicas" in of_role:
                # Either all of these roles are at 0, or none.
                for of_other in replicas if 0 in {count, of_role["replicas"]} else [of_role]:
                    of_other["replicas"] = count

        self._edit(change, course)

    @rule(count=st.sampled_from([2, 0, 1, 3, 6]), course=courses)
    def scale_from_outside(self, count: int, course: int) -> None:
        def change(spec: Spec) -> None:
            spec["replicas"] = count

        for scaler in list(self.world.cluster.of_kind(SCALER_KIND)):
            self.world.edit(change, SCALER_KIND, scaler["metadata"]["name"])
        self._go_on(course)

    @rule(count=groups, course=courses)
    def change_scaling_mode(self, count: int, course: int) -> None:
        def change(spec: Spec) -> None:
            role = _pick_role(spec, course)
            if role.pop("scaling", None) is not None:
                role["spec"]["replicas"] = min([count, *(of_other["replicas"] for of_other in _static(spec))])
            else:
                role["scaling"] = {"mode": "External"}
                role["spec"].pop("replicas", None)

        self._edit(change, course)

    @rule(budget=budgets.filter(bool), course=courses)
    def change_budget(self, budget: dict[str, Any], course: int) -> None:
        def change(spec: Spec) -> None:
            strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": budget}
            _pick_role(spec, course)["spec"]["rolloutStrategy"] = strategy

        self._edit(change, course)

    @rule(count=groups, budget=budgets, course=courses)
    def add_role(self, count: int, budget: dict[str, Any] | None, course: int) -> None:
        def change(spec: Spec) -> None:
            used = {role["name"] for role in spec["roles"]}
            free = [name for name in NAMES if name not in used]
            least = min([count, *(of_role["replicas"] for of_role in _static(spec))])
            spec["roles"] += [_role(name, least, budget) for name in free[:1]]

        self._edit(change, course)

    @rule(course=courses)
    def remove_role(self, course: int) -> None:
        def change(spec: Spec) -> None:
            if len(spec["roles"]) > 2:
                spec["roles"].remove(_pick_role(spec, course))

        self._edit(change, course)

    @rule(course=courses)
    def rename_all_roles(self, course: int) -> None:
        def change(spec: Spec) -> None:
            for role in spec["roles"]:
                role["name"] = f"{role['name']}x"

        self._edit(change, course)

    @rule(slices=st.sampled_from([1, 2, 3]), course=courses)
    def change_slices(self, slices: int, course: int) -> None:
        self._edit(lambda spec: spec.update(slices=slices), course)

    @rule(course=courses)
    def pause_or_resume(self, course: int) -> None:
        def change(spec: Spec) -> None:
            former = spec.get("rolloutStrategy") or {}
            spec["rolloutStrategy"] = {**former, "paused": not former.get("paused")}

        self._edit(change, course)

    @rule(kind=st.sampled_from([CHILD, "Service", SCALER_KIND, "ControllerRevision"]), course=courses)
    def lose(self, kind: str, course: int) -> None:
        cluster = self.world.cluster
        owned = cluster.owned_by(self.world.get(KIND)["metadata"]["uid"], kind)
        if owned:
            cluster.request_deletion(random.Random(course).choice(sorted(owned, key=_name)))
        self._go_on(course)

    @rule(course=courses)
    def lose_memory(self, course: int) -> None:
        cluster = self.world.cluster
        if course % 2:
            cluster.change(self.world.get(KIND), status={})
        for child in self.world.children if course % 3 else ():
            annotations = child["metadata"].get("annotations") or {}
            remaining = {key: value for key, value in annotations.items() if key not in MEMORY}
            cluster.change(child, {"annotations": remaining})
        self._go_on(course)

    @rule(count=groups, is_orphaned=st.booleans(), course=courses)
    def edit_child(self, count: int, is_orphaned: bool, course: int) -> None:
        """Scale a child by hand, or remove its owner reference."""
        if children := self.world.children:
            child = random.Random(course).choice(children)
            if is_orphaned:
                self.world.cluster.change(child, {"ownerReferences": []})
            else:
                self.world.cluster.change(child, spec={**child["spec"], "replicas": count})
        self._go_on(course)

    @rule(failure=st.sampled_from(["crash", "hang", "fail", "lose_node"]), course=courses)
    def lose_readiness(self, failure: str, course: int) -> None:
        running = [
            pod for pod in self.world.cluster.of_kind("Pod") if pod["status"].get("phase") == "Running"
        ]
        if running:
            pod = random.Random(course).choice(sorted(running, key=_name))
            getattr(self.world.nodes, failure)(pod)
        self._go_on(course)

    @rule(image=images, course=courses)
    def keep_image_unready(self, image: str, course: int) -> None:
        """Keep groups of this image from becoming ready."""
        self.world.nodes.hopeless = frozenset({image})
        self._go_on(course)

    @rule(course=courses)
    def restore_readiness(self, course: int) -> None:
        self.world.nodes.stuck.clear()
        self._go_on(course)

    @rule(course=courses)
    def restart_manager(self, course: int) -> None:
        self.attack.restart()
        self._go_on(course)

    @rule(hours=st.sampled_from([-1, 1]), course=courses)
    def set_clock(self, hours: int, course: int) -> None:
        self.world.cluster.set_clock(timedelta(hours=hours))
        self._go_on(course)

    def _edit(self, change: Callable[[Spec], None], course: int) -> None:
        self.world.edit(change)
        self._go_on(course)

    def _go_on(self, course: int) -> None:
        dice = random.Random(course)
        if dice.random() < 0.5:
            self.attack.at = len(self.attack.writes) + dice.randint(1, 12)
            self.attack.fault = dice.choice([*FAULTS, ""])
        self.attack.dice = random.Random(course) if dice.random() < 0.4 else None
        self.attack.go(dice.choice([1, 2, 3, 6, 10]))
        if dice.random() < 0.3:
            self.world.manager.ring()

    def teardown(self) -> None:
        """Stop all faults, except for those of old groups, and check that the set reaches what its user
        wants.
        """
        if not hasattr(self, "attack"):
            return
        nodes, self.attack.dice, self.attack.at = self.world.nodes, None, 0
        nodes.held.clear()
        strategy = self.world.get(KIND)["spec"].get("rolloutStrategy") or {}
        if strategy.get("paused"):
            self.world.edit(lambda spec: spec["rolloutStrategy"].update(paused=False))
        self.attack.go()
        # Groups of the target revision become ready.
        nodes.hopeless -= {_image_of(role) for role in self.world.get(KIND)["spec"]["roles"]}
        nodes.stuck -= {
            pod["metadata"]["uid"]
            for pod in self.world.cluster.of_kind("Pod")
            if self.attack.key in pod["metadata"]["name"]
        }
        self.attack.go()
        self.attack.check_end()
        self.loop.close()


def _role(name: str, target: int | None, budget: dict[str, Any] | None) -> dict[str, Any]:
    return make_role(name, target, rolling=budget)


def _pick_role(spec: Spec, course: int) -> dict[str, Any]:
    role: dict[str, Any] = spec["roles"][course % len(spec["roles"])]
    return role


def _static(spec: Spec) -> list[dict[str, Any]]:
    """Return the specs of the roles that no autoscaler scales."""
    return [role["spec"] for role in spec["roles"] if "replicas" in role["spec"]]


def _image_of(role: dict[str, Any]) -> str:
    pod = role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    return str(pod["containers"][0]["image"])


def _set_image(roles: list[dict[str, Any]], image: str) -> None:
    for role in roles:
        pod = role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        pod["containers"][0]["image"] = image


def _name(obj: Any) -> str:
    return str(obj["metadata"]["name"])


@pytest.mark.parametrize("part", range(PARTS))
def test_every_set_keeps_its_promises_and_ends(part: int) -> None:
    # Each part draws its own examples: with derandomize, they follow from the name of the class.
    machine = type(f"Machine{part}", (Machine,), {})
    played = settings(
        max_examples=SETS, stateful_step_count=EVENTS, derandomize=PROFILE == "default", **COMMON
    )
    run_state_machine_as_test(machine, settings=played)
