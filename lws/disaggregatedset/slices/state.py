"""Turn the children of one slice into the numbers on which decisions about its rollout are based.

Annotations on children are records that upstream reads too. The status says to which rollout these records
belong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lws.disaggregatedset.children.role_sets import initial_of as annotated
from lws.disaggregatedset.children.role_sets import others_initial_of
from lws.disaggregatedset.children.scalers import scaler_counts, seed, share
from lws.disaggregatedset.names import identity_of, scaler_name
from lws.disaggregatedset.revisions.record import RecordedRoles, RolesRecord
from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.kube import quantities
from lws.kube.metadata import is_mapping
from lws.leaderworkerset.rollout.state import Budget
from lws.runtime.actions import Object


@dataclass(frozen=True, slots=True)
class Roles:
    """The targets of all roles in a slice, removed ones included; `desired` names the roles in the spec."""

    targets: tuple[RoleTarget, ...]
    desired: frozenset[str]


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
    """Read the record of a slice from the status; None if it is missing or unreadable."""
    return _memory(_rollouts(obj).get(str(index)))


def recorded_children(obj: Object) -> dict[str, int]:
    """Read the children with which the current rollouts of all slices began: name → number of groups."""
    memories = map(_memory, _rollouts(obj).values())
    return {
        name: count for memory in memories if memory is not None for name, count in memory.initial.items()
    }


def _rollouts(obj: Object) -> Mapping[str, Any]:
    rollouts = (obj.get("status") or {}).get("rollouts")
    return rollouts if is_mapping(rollouts) else {}


def _memory(stored: Any) -> RolloutMemory | None:
    if not is_mapping(stored) or not isinstance(stored.get("revision"), str):
        return None
    return RolloutMemory(stored["revision"], _counts(stored, "initialReplicas"), _counts(stored, "targets"))


def _counts(stored: Mapping[str, Any], field: str) -> dict[str, int]:
    counts = stored.get(field)
    pairs = counts.items() if is_mapping(counts) else ()
    return {name: count for name, count in pairs if type(count) is int and count >= 0}


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
    initial = {child.role: others_initial_of(child.obj) for child in children if not child.is_terminating}
    deleted = {role: count - state.old_initial(role) for role, count in initial.items()}
    return {role: count for role, count in deleted.items() if count > 0}


def others_at_start(set_name: str, memory: RolloutMemory, role: str) -> int:
    """Count the groups that a role had on other revisions when the rollout began.

    The count is 0 unless there were several other revisions, of which some can be deleted before others.
    """
    counts: Counter[str] = Counter()
    for name, count in memory.initial.items():
        identity = identity_of(set_name, name)
        if identity is not None and identity.key != memory.key and identity.role == role:
            counts[identity.key] += count
    return counts.total() if len(counts) > 1 else 0


def slice_state(
    children: Sequence[ChildFacts], roles: Roles, keys: Sequence[str], memory: RolloutMemory | None
) -> SliceState:
    """Build the state of a slice; `keys` are the target revision, then the old ones, newest first."""
    desired, *old = keys
    by_key = {key: [child for child in children if child.key == key] for key in keys}
    standing = [child for child in by_key[desired] if not child.is_terminating]
    if memory is None and not standing:
        # The annotations of the children belong to a former rollout.
        memory = RolloutMemory("")
    new = counts_of(standing, desired, memory)
    return SliceState(
        roles=roles.targets,
        old=tuple(RevisionCounts(key, counts_of(by_key[key], desired, memory)) for key in old),
        new=RevisionCounts(desired, new),
        missing=roles.desired - new.keys(),
    )


# --- Compute the desired groups of each role, in one slice and in total, and the pace of the rollout.


@dataclass(frozen=True, slots=True)
class RoleTargets:
    """The targets of a set's roles; `records` maps a revision key to its content, `key` is the target's."""

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    key: str
    records: Mapping[str, RolesRecord] = field(default_factory=dict)

    def recorded(self, key: str) -> DisaggregatedSpec | None:
        """Return the roles of a revision; None if no revision records them."""
        record = self.records.get(key)
        return record.spec if record is not None else None

    def in_all(self) -> dict[str, int | None]:
        """Return the desired groups of each role over all slices; None for a role whose scaler is missing."""
        scaled = scaler_counts(self.snapshot)
        return {
            role.name: scaled.get(role.name) if role.is_external else role.replicas * self.spec.slices
            for role in self.spec.roles
        }

    def in_slice(self, index: int, memory: RolloutMemory | None) -> Roles:
        """Return the targets of all roles in a slice, removed ones included; `memory` is its record."""
        names = frozenset(role.name for role in self.spec.roles)
        existing = {child.role for child in self.snapshot.of_slice(index)}
        targets = [self._target(role, index, memory) for role in self.spec.roles]
        removed = [
            RoleTarget(name, 0, DEFAULT.surge, DEFAULT.unavailable) for name in sorted(existing - names)
        ]
        return Roles((*targets, *removed), names)

    def _target(self, role: Role, index: int, memory: RolloutMemory | None) -> RoleTarget:
        target = self._count(role, index)
        budget = role_budget(role.rolling, target)
        is_of_this = memory is not None and memory.key == self.key
        at_start = memory.targets.get(role.name) if memory is not None and is_of_this else None
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
        slices, scaled = self.spec.slices, scaler_counts(self.snapshot)
        descriptions = []
        for role in self.spec.roles:
            total = scaled.get(role.name, slices) if role.is_external else slices
            has_others = total < slices and any(self._count(any_role, total) for any_role in self.spec.roles)
            if slices > 1 and has_others:
                where = f"slice {total}" if total == slices - 1 else f"slices {total} to {slices - 1}"
                scaler = scaler_name(self.snapshot.obj["metadata"]["name"], role.name)
                descriptions.append(
                    f"{where}: role {role.name}: no group: its scaler {scaler} asks for {total} "
                    f"in {slices} slices"
                )
        return tuple(descriptions)


# --- Read how many groups of a role a rollout may add, and how many may be unavailable. Percentages of
# `maxSurge` are rounded up, percentages of `maxUnavailable` down. An invalid value counts as 0: admission
# rejects it, but an older CRD may have stored it.


DEFAULT = Budget(surge=1, unavailable=0)
"""The budget of removed roles and of roles that set no budget, or one in which both values are 0."""


def role_budget(rolling: Mapping[str, Any] | None, target: int) -> Budget:
    """Return the budget of a role with `target` desired groups."""
    if not isinstance(rolling, Mapping):
        return DEFAULT
    surge = max(0, _scaled(rolling.get("maxSurge"), target, round_up=True))
    unavailable = max(0, _scaled(rolling.get("maxUnavailable"), target, round_up=False))
    if unavailable or surge:
        return Budget(unavailable, surge)
    return DEFAULT


def _scaled(value: object, target: int, round_up: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    try:
        return quantities.scaled(value, target, round_up)
    except ValueError:
        return 0
