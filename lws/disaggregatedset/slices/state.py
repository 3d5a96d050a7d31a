"""Turn the children of one slice into the numbers on which decisions about its rollout are based.

Annotations on children are records that upstream reads too. The status says to which rollout these records
belong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lws.disaggregatedset.children.role_sets import initial_of as annotated
from lws.disaggregatedset.children.role_sets import others_initial_of
from lws.disaggregatedset.children.scalers import scaler_counts, share
from lws.disaggregatedset.names import identity_of, scaler_name
from lws.disaggregatedset.revisions.record import RecordedRoles
from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.kube.quantities import scaled
from lws.leaderworkerset.rollout.state import Budget
from lws.runtime.actions import Object


@dataclass(frozen=True, slots=True)
class RolloutMemory:
    """The record of a slice's rollout.

    key: the target revision.
    initial, targets: desired groups when it began, by the name of a child and by role.
    """

    key: str
    initial: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, Any]:
        return {
            "revision": self.key,
            "initialReplicas": dict(sorted(self.initial.items())),
            "targets": dict(sorted(self.targets.items())),
        }


def rollout_record(obj: Object, index: int) -> RolloutMemory | None:
    """Read the record of a slice from the status; None if there is none."""
    return _memory(_rollouts(obj).get(str(index)))


def recorded_children(obj: Object) -> dict[str, int]:
    """Read the children with which the current rollouts of all slices began: name → number of groups."""
    memories = map(_memory, _rollouts(obj).values())
    return {
        name: count for memory in memories if memory is not None for name, count in memory.initial.items()
    }


def _rollouts(obj: Object) -> Mapping[str, Any]:
    # The store keeps only values of the right types (`readable_status`).
    rollouts: Mapping[str, Any] = (obj.get("status") or {}).get("rollouts") or {}
    return rollouts


def _memory(stored: Object | None) -> RolloutMemory | None:
    if stored is None or stored.get("revision") is None:
        return None
    return RolloutMemory(stored["revision"], _counts(stored, "initialReplicas"), _counts(stored, "targets"))


def _counts(stored: Object, field: str) -> dict[str, int]:
    return {name: count for name, count in (stored.get(field) or {}).items() if count >= 0}


def initial_of(child: ChildFacts, key: str, memory: RolloutMemory | None) -> int | None:
    """Return a child's number of groups when the rollout to this revision began; None if unknown."""
    if memory is not None and memory.key != key:
        return None
    if memory is not None and child.name in memory.initial:
        return memory.initial[child.name]
    return annotated(child.obj)


def newest_first(children: Iterable[ChildFacts], revisions: Iterable[RecordedRoles]) -> list[str]:
    """Sort children's keys by revision, newest first; then keys without one, by the age of children."""
    number = {revision.key: revision.number for revision in revisions}
    newest: dict[str, str] = {}
    for child in children:
        created = str(child.obj["metadata"].get("creationTimestamp") or "")
        newest[child.key] = max(newest.get(child.key, ""), created)
    return sorted(newest, key=lambda key: (number.get(key, -1), newest[key], key), reverse=True)


def counts_of(children: Iterable[ChildFacts], key: str, memory: RolloutMemory | None) -> dict[str, Count]:
    """Count the groups of the children of one revision, by role; `key` is the target revision."""
    # If a role has two children, the one without the slice in its name is ignored.
    counts: dict[str, Count] = {}
    for child in sorted(children, key=lambda child: not child.is_legacy):
        counts[child.role] = Count(
            desired=child.desired,
            present=child.present,
            ready=child.ready,
            is_settled=child.is_settled,
            initial=initial_of(child, key, memory),
            broken_on_top=child.broken_on_top,
            starting=child.starting,
            failed_on_top=child.failed_on_top,
        )
    return counts


def deleted_since(set_name: str, children: Iterable[ChildFacts], memory: RolloutMemory) -> dict[str, int]:
    """Return role → groups of the children that were deleted since the rollout began."""
    existing, deleted = {child.name for child in children}, Counter[str]()
    for name, count in memory.initial.items():
        identity = identity_of(set_name, name) if name not in existing else None
        if identity is not None:
            deleted[identity.role] += count
    return dict(deleted)


def deleted_by_annotations(state: SliceState, children: Iterable[ChildFacts]) -> dict[str, int]:
    """Return role → groups of children deleted since the rollout began, from annotations.

    These replace a record that the status has lost. `children` are those of the target revision.
    """
    initial = {child.role: others_initial_of(child.obj) for child in children}
    deleted = {role: count - state.old_initial(role) for role, count in initial.items()}
    return {role: count for role, count in deleted.items() if count > 0}


# --- Compute the desired groups of each role, in one slice and in total, and the pace of the rollout.


@dataclass(frozen=True, slots=True)
class RoleTargets:
    """The targets of a set's roles; `key` is the target revision, `records` maps keys to revisions."""

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    key: str
    records: Mapping[str, RecordedRoles] = field(default_factory=dict)

    def recorded(self, key: str) -> DisaggregatedSpec | None:
        """Return the roles of a revision; None if no revision records them."""
        revision = self.records.get(key)
        return revision.record.spec if revision is not None else None

    def in_all(self) -> dict[str, int | None]:
        """Return the desired groups of each role over all slices; None for a role whose scaler is missing."""
        requested = scaler_counts(self.snapshot)
        return {
            role.name: requested.get(role.name) if role.is_external else role.replicas * self.spec.slices
            for role in self.spec.roles
        }

    @property
    def seeds(self) -> dict[str, int]:
        """The initial values of scalers, by role with external scaling."""
        external = (role.name for role in self.spec.roles if role.is_external)
        return {role: seed(self.snapshot, self.spec.slices, role, self.key) for role in external}

    def slice_state(self, index: int, memory: RolloutMemory | None) -> SliceState:
        """Build the state of a slice; `memory` is the record of its rollout."""
        key, children = self.key, self.snapshot.of_slice(index)
        names = frozenset(role.name for role in self.spec.roles)
        removed = sorted({child.role for child in children} - names)
        standing = [child for child in children if child.key == key and not child.is_terminating]
        # If there are none, the annotations of the children belong to a former rollout.
        record = RolloutMemory("") if memory is None and not standing else memory
        new = counts_of(standing, key, record)
        old = [former for former in newest_first(children, self.snapshot.revisions) if former != key]
        by_key = {former: [child for child in children if child.key == former] for former in old}
        state = SliceState(
            roles=(
                *(self._target(role, index, memory) for role in self.spec.roles),
                *(RoleTarget(name, 0, DEFAULT.surge, DEFAULT.unavailable) for name in removed),
            ),
            old=tuple(RevisionCounts(former, counts_of(by_key[former], key, record)) for former in old),
            new=RevisionCounts(key, new),
            missing=names - new.keys(),
        )
        if memory is None:
            return replace(state, deleted=deleted_by_annotations(state, standing))
        if memory.key == key:
            return replace(state, deleted=deleted_since(self.snapshot.owner.name, children, memory))
        return state

    def _target(self, role: Role, index: int, memory: RolloutMemory | None) -> RoleTarget:
        target = self._count(role, index)
        budget = role_budget(role.rolling, target)
        at_start = memory.targets.get(role.name) if memory is not None and memory.key == self.key else None
        return RoleTarget(role.name, target, budget.surge, budget.unavailable, role.is_external, at_start)

    def _count(self, role: Role, index: int) -> int:
        if not role.is_external:
            return role.replicas
        slices, total = self.spec.slices, scaler_counts(self.snapshot).get(role.name)
        if total is None:
            # Use the value with which the scaler will be created.
            total = seed(self.snapshot, slices, role.name, self.key)
        return share(total, slices, index)

    @property
    def without_groups(self) -> tuple[str, ...]:
        """Descriptions, for the status, of slices that have no group of a role although they have groups of
        other roles, because the role's scaler requests fewer groups than there are slices.
        """
        slices, requested = self.spec.slices, scaler_counts(self.snapshot)
        descriptions = []
        for role in self.spec.roles:
            total = requested.get(role.name, slices) if role.is_external else slices
            has_others = total < slices and any(self._count(any_role, total) for any_role in self.spec.roles)
            if slices > 1 and has_others:
                where = f"slice {total}" if total == slices - 1 else f"slices {total} to {slices - 1}"
                scaler = scaler_name(self.snapshot.obj["metadata"]["name"], role.name)
                descriptions.append(
                    f"{where}: role {role.name}: no group: its scaler {scaler} asks for {total} "
                    f"in {slices} slices"
                )
        return tuple(descriptions)


def seed(seen: DisaggregatedSnapshot, slices: int, role: str, key: str) -> int:
    """Compute the initial value of a role's scaler: its desired groups, without surplus slices and surge.

    A HorizontalPodAutoscaler never scales up from 0, so the value is at least 1 unless a scaler has set the
    role to 0. Without a scaler, a role is at 0 only if all roles are. New slices get at least one group of
    the role too, because the other roles alone cannot serve.
    """
    children = [child for child in seen.children if child.role == role and not child.is_terminating]
    total = sum(_desired_in(seen, index, role, key) for index in range(slices))
    was_scaled = any(child.obj["metadata"].get("generation", 1) > 1 for child in children)
    if not total and was_scaled and any(child.desired for child in seen.children if child.role != role):
        return 0
    is_any_new = not set(range(slices)) <= {child.slice_index for child in children}
    return max(total, slices) if is_any_new or not total else total


def _desired_in(seen: DisaggregatedSnapshot, index: int, role: str, key: str) -> int:
    """Return a role's desired groups in one slice. During a rollout, these are its groups when the rollout
    began, up to its target then, or its groups of one revision if they are more. The rollout may have another
    target than `key`, the present one.
    """
    existing = [child for child in seen.of_slice(index) if not child.is_terminating]
    of_role, by_key = [child for child in existing if child.role == role], Counter[str]()
    for child in of_role:
        by_key[child.key] += child.desired
    most, memory = max(by_key.values(), default=0), rollout_record(seen.obj, index)
    has_several = len({child.key for child in existing}) > 1
    if memory is not None and (has_several or memory.key == key):
        at_start = deleted_since(seen.owner.name, existing, memory).get(role, 0)
        at_start += sum(initial_of(child, memory.key, memory) or 0 for child in of_role)
        return max(most, min(at_start, memory.targets.get(role, at_start)))
    # Annotations of children on a single revision are older than the present number.
    return max(most, _annotated_in(of_role, key)) if has_several else most


def _annotated_in(children: Iterable[ChildFacts], key: str) -> int:
    """Return the groups of a role when a rollout without a record began, from annotations of its children.

    Those of a reverted rollout include its surge, which nothing tells from other groups any more.
    """
    pairs = [(child, annotated(child.obj)) for child in children]
    unknown = {child.key for child, initial in pairs if initial is None}
    # A rollout annotates all children except those that it creates.
    target = unknown.pop() if len(unknown) == 1 else key
    return sum(
        (0 if child.key == target else child.desired) if initial is None else initial
        for child, initial in pairs
    )


# --- Read how many groups of a role a rollout may add, and how many may be unavailable. Percentages of
# `maxSurge` are rounded up, percentages of `maxUnavailable` down.


DEFAULT = Budget(surge=1, unavailable=0)
"""The budget of removed roles and of roles that set no budget, or one in which both values are 0."""


def role_budget(rolling: Object | None, target: int) -> Budget:
    """Return the budget of a role with `target` desired groups. A negative number counts as 0."""
    configured = rolling or {}
    surge = max(0, scaled(configured.get("maxSurge") or 0, target, round_up=True))
    unavailable = max(0, scaled(configured.get("maxUnavailable") or 0, target, round_up=False))
    return Budget(unavailable, surge) if unavailable or surge else DEFAULT
