"""What do the rules about a LeaderWorkerSet read?

In: a raw set, in which an older CRD may have left fields out. Out: its values, with the API's default
wherever a field is missing or null; errors for values of the wrong type, so that no rule ever meets one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.kube.quantities import is_integer, scaled
from lws.leaderworkerset import fields

_OBJECTS: tuple[fields.Field, ...] = (
    fields.Field(("metadata",)),
    fields.Field(("metadata", "annotations")),
    fields.SPEC,
    fields.TEMPLATE,
    fields.SUBGROUP,
    fields.STRATEGY,
    fields.ROLLING_UPDATE,
    fields.NETWORK,
    fields.DISRUPTION_BUDGET,
    fields.LEADER_SERVICE,
)
_INTEGERS: tuple[fields.Field, ...] = (fields.REPLICAS, fields.SIZE, fields.SUBGROUP_SIZE, fields.PARTITION)
_AMOUNTS: tuple[fields.Field, ...] = (fields.MAX_UNAVAILABLE, fields.MAX_SURGE, fields.DISRUPTED_GROUPS)


@dataclass(frozen=True, slots=True)
class Facts:
    """The values of a set that rules need.

    max_unavailable, max_surge: as written, a number of groups or a percentage such as "25%".
    disrupted_groups: as written, how many groups evictions may take.
    subgroup: the `subGroupPolicy`, None when there is none.
    """

    replicas: int
    size: int
    max_unavailable: int | str
    max_surge: int | str
    partition: int
    subgroup: Mapping[str, Any] | None
    disrupted_groups: int | str = 1

    @property
    def unavailable_groups(self) -> int | None:
        """maxUnavailable in groups, percentages of the replicas rounded down; None if it is unreadable."""
        return _groups(self.max_unavailable, self.replicas, round_up=False)

    @property
    def surge_groups(self) -> int | None:
        """maxSurge in groups, percentages rounded up, at most the replicas; None if it is unreadable."""
        groups = _groups(self.max_surge, self.replicas, round_up=True)
        return None if groups is None else min(groups, self.replicas)


def facts_of(raw: Mapping[str, Any]) -> Facts:
    """Facts of a set; what is missing, null or of the wrong type has the default of the API."""
    subgroup = fields.SUBGROUP.of(raw)
    return Facts(
        replicas=_integer(fields.REPLICAS.of(raw), fields.REPLICAS.default),
        size=_integer(fields.SIZE.of(raw), fields.SIZE.default),
        max_unavailable=_amount(fields.MAX_UNAVAILABLE.of(raw), fields.MAX_UNAVAILABLE.default),
        max_surge=_amount(fields.MAX_SURGE.of(raw), fields.MAX_SURGE.default),
        partition=_integer(fields.PARTITION.of(raw), fields.PARTITION.default),
        subgroup=subgroup if isinstance(subgroup, Mapping) else None,
        disrupted_groups=_amount(fields.DISRUPTED_GROUPS.of(raw), 1),
    )


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """An error for each value of the wrong type; normally the CRD's schema has refused them before."""
    errors = []
    for field in _OBJECTS:
        value = field.of(raw)
        if value is not None and not isinstance(value, Mapping):
            errors.append(invalid(field, value, "must be an object"))
    for field in _INTEGERS:
        value = field.of(raw)
        if value is not None and not is_integer(value):
            errors.append(invalid(field, value, "must be an integer"))
    for field in _AMOUNTS:
        value = field.of(raw)
        if value is not None and not isinstance(value, str) and not is_integer(value):
            errors.append(invalid(field, value, "must be an integer or a percentage"))
    return errors


def templates_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and value of the pod templates that the user wrote, the leaders' first."""
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = field.of(raw)
        if isinstance(template, Mapping):
            yield str(field), template


def _groups(amount: int | str, replicas: int, round_up: bool) -> int | None:
    try:
        return scaled(amount, replicas, round_up)
    except ValueError:
        return None


def _integer(value: Any, default: int) -> int:
    return value if is_integer(value) else default


def _amount(value: Any, default: int) -> int | str:
    return value if isinstance(value, str) or is_integer(value) else default
