"""One slice, its user, the events of its groups, and a manager that writes the steps of the planner.

Between any two writes of a step, a write may fail and the manager may be replaced. Promises are checked at
every write and at the end of every step, against the cluster, not against what the planner reads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lws.disaggregatedset.rollout import planner
from lws.disaggregatedset.rollout.drain import Lost, with_lost
from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState, SliceStep
from test.unit.stories.disaggregated.cluster import Children, Group
from test.unit.stories.disaggregated.promises import Promises

NAMES = ("x", "y", "z", "w", "v")


@dataclass
class Memory:
    """The record of the rollout to one revision."""

    target: str
    initial: dict[tuple[str, str], int]
    targets: dict[str, int]


@dataclass
class World:
    roles: dict[str, RoleTarget]
    template: str = "a"
    paused: bool = False
    knows_broken: bool = True
    children: Children = field(default_factory=Children)
    memory: Memory | None = None
    hopeless: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    lost: dict[tuple[str, str], int] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Key of the target revision, made of the template and the roles."""
        return f"{self.template}:{''.join(sorted(self.roles))}"

    def begin_settled(self) -> None:
        """Begin with every group ready."""
        for role in self.roles.values():
            self.children.want(self.key, role.name, role.target)
        self.order = [self.key]
        self.calm_down()

    def calm_down(self) -> None:
        dice = random.Random(0)
        for _ in range(3):
            self.pass_time(dice, speed=1)

    def pass_time(self, dice: random.Random, speed: float) -> None:
        """Let the controllers of children act and their groups take steps."""
        for key, _, child in self.children.all():
            child.is_hopeless = key in self.hopeless
            if dice.random() <= max(speed, 0.7):
                child.act()
        for _, _, child in self.children.all():
            child.move(dice, speed)
        self.children.forget()

    def state(self) -> SliceState:
        """The state of the slice as an observer would read it."""
        key, memory = self.key, self.memory
        keys = [other for other in reversed(self.order) if other != key]
        old = [RevisionCounts(other, counts) for other in keys if (counts := self._counts(other))]
        removed = {role for revision in old for role in revision.counts} - self.roles.keys()
        starts = memory.targets if memory and memory.target == key else {}
        targets = [
            RoleTarget(role.name, role.target, role.surge, role.unavailable, at_start=starts.get(role.name))
            for role in self.roles.values()
        ]
        targets += [RoleTarget(name, 0) for name in sorted(removed)]
        new = RevisionCounts(key, self._counts(key))
        missing = frozenset(self.roles.keys() - new.counts.keys())
        state = SliceState(tuple(targets), tuple(old), new, missing, self._gone())
        return with_lost(state, self._lost())

    def _gone(self) -> dict[str, int]:
        """Groups that deleted children had at the start, by role."""
        initial_counts = self.memory.initial if self.memory and self.memory.target == self.key else {}
        missing: dict[str, int] = {}
        for (key, role), groups in initial_counts.items():
            if self.children.get(key, role) is None:
                missing[role] = missing.get(role, 0) + groups
        return missing

    def _lost(self) -> dict[str, dict[str, Lost]]:
        """Lost children by key and role, as recorded in an up-to-date status."""
        result: dict[str, dict[str, Lost]] = {}
        initial = self.memory.initial if self.memory and self.memory.target == self.key else {}
        for (key, role), groups in self.lost.items():
            if key != self.key and initial.get((key, role)):
                result.setdefault(key, {})[role] = Lost(initial[key, role], groups)
        return result

    def _counts(self, key: str) -> dict[str, Count]:
        memory = self.memory if self.memory and self.memory.target == self.key else None
        return {
            role: child.count(memory.initial.get((key, role)) if memory else None, self.knows_broken)
            for role, child in self.children.by_key.get(key, {}).items()
            if child.is_there
        }

    def go_on(self, dice: random.Random, passes: int, trouble: float = 0.0, speed: float = 0.6) -> None:
        """Play passes of the manager. Between two writes groups move, and the rest of a step may be lost."""
        for _ in range(passes):
            self.pass_once(dice, trouble, speed)
            self.pass_time(dice, speed)

    def pass_once(self, dice: random.Random, trouble: float = 0.0, speed: float = 0.6) -> SliceStep:
        state = self.state()
        step = planner.next_step(state, self.paused)
        promises = Promises(self.children, state, step, self.key, self.paused)
        promises.check_answer()
        promises.check_old_ratio()
        for number, write in enumerate(self._writes_of(state, step, promises)):
            if trouble and dice.random() < trouble:
                return step
            if number and dice.random() < 0.3:
                self.pass_time(dice, speed)
            write()
        promises.check_end()
        return step

    def _writes_of(
        self, state: SliceState, step: SliceStep, promises: Promises
    ) -> Iterator[Callable[[], None]]:
        if step.starts:
            yield self._remember
        created = [role for role in step.new if role in state.missing]
        grown = {role for role, replicas in step.new.items() if replicas > state.new.of(role).desired}
        rising = [role for role in step.new if role in grown and role not in created]
        falling = [role for role in step.new if role not in created and role not in rising]
        lost = {
            (revision.key, r): c.desired
            for revision in state.old
            for r, c in revision.counts.items()
            if c.is_lost
        }
        for (key, role), replicas in lost.items():
            if remaining := step.old.get(key, {}).get(role, replicas):
                yield self._bring_back(promises, key, role, remaining)
        for role in (*created, *rising, *falling):
            yield self._write(promises, self.key, role, step.new[role])
        for key, roles in step.old.items():
            for role, replicas in roles.items():
                if (key, role) not in lost:
                    yield self._write(promises, key, role, replicas)
        for key in step.drained:
            yield lambda key=key: self._delete(promises, key)  # type: ignore[misc]

    def _write(self, promises: Promises, key: str, role: str, replicas: int) -> Callable[[], None]:
        def write() -> None:
            if key == self.key and key not in self.order:
                self.order.append(key)
            with promises.checked(key, role, replicas):
                self.children.want(key, role, replicas)
            self.writes.append(f"{key}/{role}={replicas}")

        return write

    def _bring_back(self, promises: Promises, key: str, role: str, replicas: int) -> Callable[[], None]:
        def write() -> None:
            promises.check_return(key, role, replicas, self.lost[key, role])
            self.children.want(key, role, replicas)
            del self.lost[key, role]
            self.writes.append(f"{key}/{role} is back: {replicas}")

        return write

    def _remember(self) -> None:
        initial = {(k, r): child.desired for k, r, child in self.children.all() if child.is_there}
        # Children that the same step creates have no groups yet.
        initial |= {(self.key, r): 0 for r in self.roles if (self.key, r) not in initial}
        self.memory = Memory(self.key, initial, {role.name: role.target for role in self.roles.values()})

    def _delete(self, promises: Promises, key: str) -> None:
        promises.check_delete(key)
        self.children.by_key.pop(key, None)
        if key in self.order:
            self.order.remove(key)

    # Actions of users.

    def change(self, template: str) -> None:
        self.template = template
        self._move_target()

    def _move_target(self) -> None:
        """Move the target revision to the end: a revision that returns counts as the newest."""
        if self.key in self.order:
            self.order.remove(self.key)
            self.order.append(self.key)

    def pause(self) -> None:
        self.paused = not self.paused

    def give_up_on_target(self) -> None:
        """Keep groups of the present revision from becoming ready from now on."""
        self.hopeless.add(self.key)

    def scale(self, role: str, target: int) -> None:
        if role in self.roles:
            old = self.roles[role]
            self.roles[role] = RoleTarget(role, target, old.surge, old.unavailable)

    def spend(self, role: str, surge: int, unavailable: int) -> None:
        if role in self.roles:
            self.roles[role] = RoleTarget(role, self.roles[role].target, surge, unavailable)

    def add_role(self, role: RoleTarget) -> None:
        if len(self.roles) < 4:
            self.roles[role.name] = role
            self._move_target()

    def remove_role(self, role: str) -> None:
        if len(self.roles) > 2 and self.roles.pop(role, None):
            self._move_target()

    def rename_all(self) -> None:
        renamed = [name for name in "pqrstuvw" if name not in self.roles][: len(self.roles)]
        pairs = zip(renamed, self.roles.values(), strict=False)
        self.roles = {n: RoleTarget(n, role.target, role.surge, role.unavailable) for n, role in pairs}
        self._move_target()

    # Events of groups.

    def break_group(self, dice: random.Random) -> None:
        self._turn(dice, (Group.READY, Group.STARTING), Group.BROKEN)

    def heal_group(self, dice: random.Random) -> None:
        self._turn(dice, (Group.BROKEN,), Group.READY)

    def lose_child(self, dice: random.Random) -> None:
        present = [item for item in self.children.all() if item[2].is_there]
        if present:
            key, role, lost = dice.choice(present)
            self.lost[key, role] = lost.desired
            lost.is_there = False
            lost.act()

    def lose_memory(self) -> None:
        self.memory = None

    def _turn(self, dice: random.Random, before: tuple[Group, ...], after: Group) -> None:
        hit = [
            (child, index)
            for _, _, child in self.children.all()
            for index, group in child.groups.items()
            if group in before
        ]
        if hit:
            child, index = dice.choice(hit)
            child.groups[index] = after

    def settle(self) -> None:
        """Play until the rollout is done. New groups become ready; old groups stay as broken as they are."""
        self.paused = False
        self.hopeless.discard(self.key)
        dice = random.Random(1)
        for _ in range(400):
            for key, _, child in self.children.all():
                if key == self.key:
                    broken = [index for index, group in child.groups.items() if group is Group.BROKEN]
                    child.groups |= dict.fromkeys(broken, Group.STARTING)
            step = self.pass_once(dice, speed=1)
            if step.is_done:
                return
            self.pass_time(dice, speed=1)
            self.pass_time(dice, speed=1)
        raise AssertionError(f"end: {self.state()} {step}")
