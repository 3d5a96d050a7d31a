"""Check the types of a LeaderWorkerSet's values, and list its pod templates.

A CRD of another version may have admitted values of any type. The rules run only if there are no errors here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.kube.field_errors import FieldError, invalid
from lws.kube.quantities import is_integer
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


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """An error for each value of the wrong type; normally the CRD's schema has already rejected them."""
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
    """Path and value of the pod templates in the set, the leader template first."""
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = field.of(raw)
        if isinstance(template, Mapping):
            yield str(field), template
