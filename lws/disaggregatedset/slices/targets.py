"""Compute how many groups each role should have, in one slice and in total, and how fast it may get there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lws.disaggregatedset.children.scalers import scaler_counts, seed, share
from lws.disaggregatedset.names import scaler_name
from lws.disaggregatedset.revisions.record import RolesRecord
from lws.disaggregatedset.rollout.budget import DEFAULT, budget_of
from lws.disaggregatedset.rollout.state import RoleTarget
from lws.disaggregatedset.slices.state import Roles, RolloutMemory
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role


@dataclass(frozen=True, slots=True)
class RoleTargets:
    """What a set asks for. key: of the target revision. records: what children of each key are made from."""

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    key: str
    records: Mapping[str, RolesRecord] = field(default_factory=dict)

    def recorded(self, key: str) -> DisaggregatedSpec | None:
        """What a revision asks for; None where nothing records it."""
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
        """Of each role in a slice, those that are not wanted any more included. memory: of its rollout."""
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
