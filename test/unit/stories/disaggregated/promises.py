"""Check the promises of a rollout step against the state of the cluster.

An AssertionError begins with the name of the broken promise. The bounds are computed independently of the
planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor

from lws.disaggregatedset.rollout.state import PAUSED, RoleTarget, SliceState, SliceStep
from test.unit.stories.disaggregated.cluster import Children, Group


class Promises:
    """The promises that one step has to keep."""

    def __init__(
        self, children: Children, state: SliceState, step: SliceStep, key: str, paused: bool
    ) -> None:
        self.children, self.state, self.step, self.key, self.paused = children, state, step, key, paused
        self.roles = {role.name: role for role in state.roles}
        self.halves = self._halves()
        self.present_before = {name: state.present(name) for name in self.roles}
        self.ready = self._in_state(Group.READY)
        self.starting = self._in_state(Group.STARTING)
        self.before = {(k, r): child.desired for k, r, child in children.all() if child.is_there}
        self.is_rolling = any(n for (k, _), n in self.before.items() if k != key)
        self.new_is_ready = all(
            (child := children.get(key, name)) is not None and child.is_healthy for name in self._spec_roles()
        )

    def _in_state(self, state: Group) -> set[tuple[str, str, int]]:
        return {
            (key, role, index)
            for key, role, child in self.children.all()
            for index, group in child.groups.items()
            if group is state
        }

    def _spec_roles(self) -> set[str]:
        return set(self.state.missing) | set(self.state.new.counts)

    @contextmanager
    def checked(self, key: str, role: str, replicas: int) -> Iterator[None]:
        """Check one write: the body of the `with` statement executes it."""
        child = self.children.get(key, role)
        before = child.desired if child else 0
        present, serving = self._present(role), self._serving(role)
        yield
        if key != self.key:
            assert replicas <= before and child is not None, f"direction: {key} {role} {before} -> {replicas}"
        elif replicas < before:
            assert replicas == self.roles[role].target, f"direction: new {role} {before} -> {replicas}"
        if replicas > before:
            self._check_surge(role, present)
            self.check_ratio(role, replicas)
        if key != self.key and replicas < before:
            removed = {(key, role, index) for index in range(replicas, before)}
            self._check_floor(key, role, serving, removed & self.ready)
            self._check_hope(key, role, removed & (self.ready | self.starting))

    def check_return(self, key: str, role: str, replicas: int, lost: int) -> None:
        """Check that a deleted old child is recreated, and no larger than it was."""
        assert self.children.get(key, role) is None, f"direction: {key} {role} was not lost"
        assert replicas <= lost, f"direction: {key} {role} {lost} -> {replicas}"
        present = self.state.present(role)
        assert present <= self.roles[role].ceiling, f"surge: {role} {present} is back"

    def _check_surge(self, role: str, present: int) -> None:
        most = max(self.roles[role].ceiling, present)
        assert self._present(role) <= most, f"surge: {role} {self._present(role)} > {most}"

    def _check_floor(self, key: str, role: str, serving: int, removed: set[tuple[str, str, int]]) -> None:
        """Check that enough groups still serve.

        removed: groups that this write deletes and that were ready when it was decided.
        """
        after, least = self._serving(role), self._least(self.roles[role])
        if after >= least or not removed:
            return
        count = next(revision for revision in self.state.old if revision.key == key).of(role)
        is_passing = len(removed) == 1 and count.ready < count.desired and self.new_is_ready
        is_passing &= not self._starting(role)
        assert is_passing, f"floor: {role} {serving} -> {after} < {least}"

    def _check_hope(self, key: str, role: str, removed: set[tuple[str, str, int]]) -> None:
        """Check that starting groups, which may soon serve, are not given up faster than serving ones."""
        if not removed or not self._starting(role):
            return
        after, least = self._hoped(role), self._least(self.roles[role])
        assert after >= least, f"floor: {role} {after} < {least} although some of {key} are only starting"

    def check_ratio(self, role: str, replicas: int) -> None:
        """Check that no role is more than one step ahead of the last one. The steady state has no steps."""
        if not self.is_rolling or role in self.state.missing or not self.state.is_known:
            return
        most = self._next_new(role)
        assert replicas <= most, f"ratio: {role} {replicas} > {most}"

    @property
    def _total(self) -> int:
        """Number of steps of the plan."""
        return max(1, *(ceil(max(self._initial(r), r.target) / _batch(r)) for r in self.roles.values()))

    def _next_new(self, role: str) -> int:
        """Return the new groups of a role one step beyond the role that is furthest behind."""
        target = {name: role.target for name, role in self.roles.items()}
        new = {name: self.before.get((self.key, name), 0) for name in self.roles}
        reached = (floor(new[name] * self._total / target[name]) for name in target if target[name])
        index = min(self._total, *reached)
        return ceil((index + 1) * target[role] / self._total)

    def check_old_ratio(self) -> None:
        """Check that old groups are deleted in proportion.

        No role loses more than one step beyond the role that has lost most, or than its new groups need;
        existing new groups count. The rule exempts revisions that are deleted as a whole, groups that do not
        serve, and roles that are not desired any more. Scaling takes effect at once.
        """
        if any(role.at_start not in (None, role.target) for role in self.roles.values()):
            return
        if self.paused or not self.state.is_known or not self.new_is_ready or self._is_complete():
            return
        old = {name: self.state.old_desired(name) for name in self.roles}
        initial = {name: self._initial(role) for name, role in self.roles.items()}
        steps_done = (floor((initial[n] - old[n]) * self._total / initial[n]) for n in old if initial[n])
        index = max(0, 0, *steps_done) + 1
        for name, role in self.roles.items():
            remaining = old[name] - sum(self._loses(key, name) for key in self.step.old)
            by_plan = initial[name] - floor(index * initial[name] / self._total)
            # Existing new groups stay, even if they are ahead of the plan.
            new = max(self._next_new(name), self.before.get((self.key, name), 0))
            least = min(old[name], by_plan, role.ceiling - new)
            assert remaining >= least, f"ratio: old {name} {old[name]} -> {remaining} < {least}"

    def _is_complete(self) -> bool:
        return all(self.before.get((self.key, name), 0) >= role.target for name, role in self.roles.items())

    def _loses(self, key: str, role: str) -> int:
        """Return how many serving groups of the role the step takes from a revision that stays."""
        revision = next(candidate for candidate in self.state.old if candidate.key == key)
        counts = self.step.old[key]
        is_deleted = all(not counts.get(name, count.desired) for name, count in revision.counts.items())
        count = revision.of(role)
        lost = count.desired - counts.get(role, count.desired)
        if is_deleted or (lost == 1 and count.ready < count.desired):
            return 0
        return max(0, lost - count.broken_on_top)

    def check_answer(self) -> None:
        """Check that a done step leaves nothing to do, and that a waiting step names what it waits for."""
        if self.step.is_done:
            remaining = {key for key, _, child in self.children.all() if child.present and child.is_there}
            assert remaining <= {self.key}, f"end: done beside {remaining}"
            for name in self._spec_roles():
                child = self.children.get(self.key, name)
                ok = child is not None and child.desired == self.roles[name].target and child.is_healthy
                assert ok, f"end: done although {name} is not"
        elif self.step.is_empty:
            words = self.step.waiting_for
            named = any(f"role {name}:" in words for name in self.roles)
            assert named or words == PAUSED, f"end: waits for {words!r}"

    def check_delete(self, key: str) -> None:
        assert key != self.key, "direction: the target revision is deleted"
        roles = self.children.by_key.get(key, {})
        remaining = [role for role, child in roles.items() if child.is_there and child.present]
        assert not remaining, f"surge: {key} is deleted with groups of {remaining}"

    def check_end(self) -> None:
        """Check the promises that hold when all writes of a step are done."""
        if self.step.goes_on:
            return
        for half in self._halves() - self.halves:
            assert self._has_no_way(*half), f"pairs: {half}"
        self._check_order()

    def _has_no_way(self, key: str, role: str) -> bool:
        """Return whether surge and floor leave no alternative.

        The reasons are a single place, no place for a lost child, or broken groups.
        """
        if key == self.key:
            return role in self.state.missing and self.present_before[role] >= self.roles[role].ceiling
        has_none_to_spare = self.state.serving(role) <= self._least(self.roles[role])
        others = [revision.of(role) for revision in self.state.old]
        return all(count.desired <= 1 or (count.ready and has_none_to_spare) for count in others)

    def _halves(self) -> set[tuple[str, str]]:
        """Return key and role of each child at 0 whose revision is partial: it had, or will have, the
        role.
        """
        halves = set()
        for key, roles in self.children.by_key.items():
            present = {name: child for name, child in roles.items() if child.is_there}
            if not any(child.desired for child in present.values()):
                continue
            for name, child in present.items():
                is_desired = self.roles[name].target > 0 if key == self.key else self._had(key, name)
                if child.desired == 0 and is_desired:
                    halves.add((key, name))
        return halves

    def _had(self, key: str, role: str) -> bool:
        return any((revision.of(role).initial or 0) > 0 for revision in self.state.old if revision.key == key)

    def _check_order(self) -> None:
        """Check that old revisions go in order, the oldest last.

        An older revision keeps its groups while a newer one has more than one group of a role. Partial
        revisions may be deleted first.
        """
        for number, older in enumerate(self.state.old):
            if not all(count.desired for count in older.counts.values()):
                continue
            for role, count in older.counts.items():
                now = self.children.get(older.key, role)
                if now is None or now.desired >= count.desired or count.serving < count.desired:
                    continue
                for newer in self.state.old[:number]:
                    child = self.children.get(newer.key, role)
                    is_ok = child is None or child.desired <= 1
                    assert is_ok, f"direction: {older.key} {role} before {newer.key}"

    def _present(self, role: str) -> int:
        """Count the present groups of a role as the manager knows them.

        The manager knows neither groups of a lost old child nor groups that are recreated meanwhile.
        """
        known_present = {(revision.key, role): revision.of(role).present for revision in self.state.old}
        return sum(
            min(child.present, known_present.get((key, role), child.present))
            for key, name, child in self.children.all()
            if name == role and (child.is_there or key == self.key)
        )

    def _serving(self, role: str) -> int:
        return sum(child.serving for child in self.children.of_role(role))

    def _starting(self, role: str) -> int:
        """Return how many old groups of the role were known to be only starting."""
        return sum(revision.of(role).starting for revision in self.state.old)

    def _hoped(self, role: str) -> int:
        """Count the serving groups of a role, with the starting groups of old revisions."""
        of_role = [(key, child) for key, name, child in self.children.all() if name == role]
        return sum(child.serving if key == self.key else child.once_started for key, child in of_role)

    def _initial(self, role: RoleTarget) -> int:
        return sum(revision.of(role.name).initial or 0 for revision in self.state.old)

    def _least(self, role: RoleTarget) -> int:
        """Return how many groups must serve: min(io, t) - u in the specification."""
        start = sum(self.before.get((k, role.name), 0) for k in self.children.by_key)
        if self.state.is_known:
            start = self._initial(role) + (self.state.new.of(role.name).initial or 0)
            start += self.state.deleted.get(role.name, 0)
        return min(start, role.target) - role.unavailable


def _batch(role: RoleTarget) -> int:
    return role.surge if role.surge > 0 else max(1, role.unavailable)
