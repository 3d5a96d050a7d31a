"""What do the rules about a LeaderWorkerSet read?

In: a raw set, in which an older CRD may have left fields out. Out: its values, with the API's default
wherever a field is missing or null; errors for values of the wrong type, so that no rule ever meets one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.kube.metadata import is_mapping
from lws.kube.quantities import scaled

TEMPLATE = ("spec", "leaderWorkerTemplate")
LEADER, WORKER = "leaderTemplate", "workerTemplate"
ROLLING_UPDATE = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")

_REPLICAS = ("spec", "replicas")
_SIZE = (*TEMPLATE, "size")
_SUBGROUP = (*TEMPLATE, "subGroupPolicy")
_PARTITION = (*ROLLING_UPDATE, "partition")
_MAX_UNAVAILABLE = (*ROLLING_UPDATE, "maxUnavailable")
_MAX_SURGE = (*ROLLING_UPDATE, "maxSurge")
_DISRUPTED_GROUPS = ("spec", "podDisruptionBudget", "maxUnavailableGroups")

_OBJECTS: tuple[tuple[str, ...], ...] = (
    ("metadata",),
    ("metadata", "annotations"),
    ("spec",),
    TEMPLATE,
    _SUBGROUP,
    ("spec", "rolloutStrategy"),
    ROLLING_UPDATE,
    ("spec", "networkConfig"),
    ("spec", "podDisruptionBudget"),
    ("spec", "leaderService"),
)
_INTEGERS: tuple[tuple[str, ...], ...] = (_REPLICAS, _SIZE, (*_SUBGROUP, "subGroupSize"), _PARTITION)
_AMOUNTS: tuple[tuple[str, ...], ...] = (_MAX_UNAVAILABLE, _MAX_SURGE, _DISRUPTED_GROUPS)


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
    subgroup = value_at(raw, _SUBGROUP)
    return Facts(
        replicas=_integer(value_at(raw, _REPLICAS), 1),
        size=_integer(value_at(raw, _SIZE), 1),
        max_unavailable=_amount(value_at(raw, _MAX_UNAVAILABLE), 1),
        max_surge=_amount(value_at(raw, _MAX_SURGE), 0),
        partition=_integer(value_at(raw, _PARTITION), 0),
        subgroup=subgroup if isinstance(subgroup, Mapping) else None,
        disrupted_groups=_amount(value_at(raw, _DISRUPTED_GROUPS), 1),
    )


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """An error for each value of the wrong type; normally the CRD's schema has refused them before."""
    errors = []
    for path in _OBJECTS:
        value = value_at(raw, path)
        if value is not None and not isinstance(value, Mapping):
            errors.append(invalid(".".join(path), value, "must be an object"))
    for path in _INTEGERS:
        value = value_at(raw, path)
        if value is not None and not _is_integer(value):
            errors.append(invalid(".".join(path), value, "must be an integer"))
    for path in _AMOUNTS:
        value = value_at(raw, path)
        if value is not None and not isinstance(value, str) and not _is_integer(value):
            errors.append(invalid(".".join(path), value, "must be an integer or a percentage"))
    return errors


def value_at(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; None where any part of the path is missing, null or no object."""
    value: Any = raw
    for part in path:
        if not is_mapping(value):
            return None
        value = value.get(part)
    return value


def templates_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and value of the pod templates that the user wrote, the leaders' first."""
    for name in (LEADER, WORKER):
        template = value_at(raw, (*TEMPLATE, name))
        if isinstance(template, Mapping):
            yield ".".join((*TEMPLATE, name)), template


def _groups(amount: int | str, replicas: int, round_up: bool) -> int | None:
    try:
        return scaled(amount, replicas, round_up)
    except ValueError:
        return None


def _is_integer(value: Any) -> bool:
    # JSON's true and false are integers to Python.
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(value: Any, default: int) -> int:
    return value if _is_integer(value) else default


def _amount(value: Any, default: int) -> int | str:
    return value if isinstance(value, str) or _is_integer(value) else default
