"""Turn the children of one slice into the numbers that its rollout is decided with.

The annotation on children is the memory that upstream understands; the status says which rollout it belongs
to.
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
from lws.runtime.actions import Object


@dataclass(frozen=True, slots=True)
class Roles:
    """What is wanted of each role in a slice, removed ones included. wanted: names of those of the spec."""

    targets: tuple[RoleTarget, ...]
    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class RolloutMemory:
    """Where the rollout of a slice began. key: the revision that it moves to. initial: groups that each child
    wanted then, by its name. targets: groups that each role was to have then.
    """

    key: str
    initial: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, Any]:
        """As the status has it."""
        return {
            "revision": self.key,
            "initialReplicas": dict(sorted(self.initial.items())),
            "targets": dict(sorted(self.targets.items())),
        }


def remembered(obj: Object, index: int) -> RolloutMemory | None:
    """The record of a slice in the status; None if it is missing or unreadable."""
    return _memory(_rollouts(obj).get(str(index)))


def remembered_children(obj: Object) -> dict[str, int]:
    """Children of a rollout in progress by name, with the group counts that they began with."""
    memories = map(_memory, _rollouts(obj).values())
    return {
        name: count for memory in memories if memory is not None for name, count in memory.initial.items()
    }


def _rollouts(obj: Object) -> Mapping[str, Any]:
    known = (obj.get("status") or {}).get("rollouts")
    return known if is_mapping(known) else {}


def _memory(known: Any) -> RolloutMemory | None:
    if not is_mapping(known) or not isinstance(known.get("revision"), str):
        return None
    return RolloutMemory(known["revision"], _counts(known, "initialReplicas"), _counts(known, "targets"))


def _counts(known: Mapping[str, Any], field: str) -> dict[str, int]:
    counts = known.get(field)
    pairs = counts.items() if is_mapping(counts) else ()
    return {name: count for name, count in pairs if type(count) is int and count >= 0}


def initial_of(child: ChildFacts, key: str, memory: RolloutMemory | None) -> int | None:
    """Group count of a child when the rollout to this revision began; None if unknown."""
    if memory is not None and memory.key != key:
        return None
    if memory is not None and child.name in memory.initial:
        return memory.initial[child.name]
    return annotated(child.obj)


def newest_first(children: Iterable[ChildFacts], revisions: Iterable[RecordedRoles]) -> list[str]:
    """Keys of children, that of the newest revision first; unrecorded ones by the age of their children."""
    number = {revision.key: revision.number for revision in revisions}
    made: dict[str, str] = {}
    for child in children:
        created = str(child.obj["metadata"].get("creationTimestamp") or "")
        made[child.key] = max(made.get(child.key, ""), created)
    return sorted(made, key=lambda key: (number.get(key, -1), made[key], key), reverse=True)


def counts_of(children: Iterable[ChildFacts], key: str, memory: RolloutMemory | None) -> dict[str, Count]:
    """The groups of the children of one revision, by role. key: the target revision."""
    # Where a role has two, the one that release 0.9 named counts with the other.
    counts: dict[str, Count] = {}
    for each in sorted(children, key=lambda each: not each.is_legacy):
        counts[each.role] = Count(
            wanted=each.wanted,
            present=each.present,
            ready=each.ready,
            is_settled=each.is_settled,
            initial=initial_of(each, key, memory),
            broken_on_top=each.broken_on_top,
            starting=each.starting,
            failed_on_top=each.failed_on_top,
        )
    return counts


def gone_since(set_name: str, children: Iterable[ChildFacts], memory: RolloutMemory) -> dict[str, int]:
    """Role → groups of children that were deleted since the rollout began."""
    there, gone = {child.name for child in children}, Counter[str]()
    for name, count in memory.initial.items():
        identity = identity_of(set_name, name) if name not in there else None
        if identity is not None:
            gone[identity.role] += count
    return dict(gone)


def gone_unseen(state: SliceState, children: Iterable[ChildFacts]) -> dict[str, int]:
    """The same where the status has lost its memory: what children of the target revision know of, and
    nobody else has any more. children: those of the target revision.
    """
    known = {child.role: others_initial_of(child.obj) for child in children if not child.is_leaving}
    gone = {role: count - state.old_initial(role) for role, count in known.items()}
    return {role: count for role, count in gone.items() if count > 0}


def others_at_start(set_name: str, memory: RolloutMemory, role: str) -> int:
    """Groups of a role that the other revisions had when the rollout began; 0 unless there were several,
    of which some can be gone before others.
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
    """keys: the target revision, then old ones, the newest first."""
    wanted, *old = keys
    by_key = {key: [child for child in children if child.key == key] for key in keys}
    standing = [each for each in by_key[wanted] if not each.is_leaving]
    if memory is None and not standing:
        # What is written on children is of a former rollout.
        memory = RolloutMemory("")
    new = counts_of(standing, wanted, memory)
    return SliceState(
        roles=roles.targets,
        old=tuple(RevisionCounts(key, counts_of(by_key[key], wanted, memory)) for key in old),
        new=RevisionCounts(wanted, new),
        missing=roles.wanted - new.keys(),
    )


# --- Compute how many groups each role should have, in one slice and in total, and how fast it may get
# there.


@dataclass(frozen=True, slots=True)
class RoleTargets:
    """What a set asks for. key: of the target revision. records: what children of each key are made from."""

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    key: str
    records: Mapping[str, RolesRecord] = field(default_factory=dict)

    def recorded(self, key: str) -> DisaggregatedSpec | None:
        """The roles of a revision; None if no revision records them."""
        record = self.records.get(key)
        return record.spec if record is not None else None

    def in_all(self) -> dict[str, int | None]:
        """Groups of each role over all slices; None where its scaler is missing."""
        scaled = scaler_counts(self.snapshot)
        return {
            role.name: scaled.get(role.name) if role.is_external else role.replicas * self.spec.slices
            for role in self.spec.roles
        }

    def in_slice(self, index: int, memory: RolloutMemory | None) -> Roles:
        """Each role's target in a slice, removed roles included. memory: of its rollout."""
        names = frozenset(role.name for role in self.spec.roles)
        known = {each.role for each in self.snapshot.of_slice(index)}
        targets = [self._target(role, index, memory) for role in self.spec.roles]
        removed = [RoleTarget(name, 0, DEFAULT.surge, DEFAULT.unavailable) for name in sorted(known - names)]
        return Roles((*targets, *removed), names)

    def _target(self, role: Role, index: int, memory: RolloutMemory | None) -> RoleTarget:
        target = self._count(role, index)
        budget = budget_of(role.rolling, target)
        is_of_this = memory is not None and memory.key == self.key
        at_start = memory.targets.get(role.name) if memory is not None and is_of_this else None
        return RoleTarget(role.name, target, budget.surge, budget.unavailable, role.is_external, at_start)

    def _count(self, role: Role, index: int) -> int:
        if not role.is_external:
            return role.replicas
        slices, total = self.spec.slices, scaler_counts(self.snapshot).get(role.name)
        if total is None:
            # Its scaler will begin with that.
            total = seed(self.snapshot, slices, role.name, self.key)
        return share(total, slices, index)

    @property
    def without_groups(self) -> tuple[str, ...]:
        """Of scalers that ask for fewer groups than there are slices, which slices get none of their role,
        though they have groups of others: words for the status.
        """
        slices, scaled = self.spec.slices, scaler_counts(self.snapshot)
        found = []
        for role in self.spec.roles:
            total = scaled.get(role.name, slices) if role.is_external else slices
            has_others = total < slices and any(self._count(each, total) for each in self.spec.roles)
            if slices > 1 and has_others:
                where = f"slice {total}" if total == slices - 1 else f"slices {total} to {slices - 1}"
                scaler = scaler_name(self.snapshot.obj["metadata"]["name"], role.name)
                found.append(
                    f"{where}: role {role.name}: no group: its scaler {scaler} asks for {total} "
                    f"in {slices} slices"
                )
        return tuple(found)


# --- Read how many groups of a role a rollout may add, and how many may be unavailable. Percentages of the
# surge are rounded up, of `maxUnavailable` down. A value that cannot be read counts as 0: admission refuses
# it, but an older definition may have stored it.


@dataclass(frozen=True, slots=True)
class RoleBudget:
    surge: int
    unavailable: int


DEFAULT = RoleBudget(surge=1, unavailable=0)
"""Of roles that say nothing, or nothing that a rollout could move with; of removed roles too."""


def budget_of(rolling: Mapping[str, Any] | None, target: int) -> RoleBudget:
    """The budget of a role that is to have `target` groups."""
    if not isinstance(rolling, Mapping):
        return DEFAULT
    surge = max(0, _scaled(rolling.get("maxSurge"), target, round_up=True))
    unavailable = max(0, _scaled(rolling.get("maxUnavailable"), target, round_up=False))
    if unavailable or surge:
        return RoleBudget(surge, unavailable)
    return DEFAULT


def _scaled(value: object, target: int, round_up: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    try:
        return quantities.scaled(value, target, round_up)
    except ValueError:
        return 0
