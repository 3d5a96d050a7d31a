"""Is each role such that a LeaderWorkerSet can be made of it?

In: a set with values of the right types. Out: the errors and warnings about that LeaderWorkerSet, at the path
of the role; what means nothing in a role, or is forbidden there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lws.admission import leaderworkerset
from lws.admission.defaulting import default
from lws.admission.disaggregatedset.facts import RoleFacts, SetFacts
from lws.admission.errors import FieldError, forbidden, not_supported, required
from lws.group.gang.provider import GangProvider
from lws.kube.metadata import is_mapping
from lws.leaderworkerset import fields
from lws_api.leaderworkerset.v1 import RolloutStrategyType

_PARTITION = (
    "partition is not supported by DisaggregatedSet; rolling updates are managed across roles by the "
    "DisaggregatedSet controller"
)
_OF_THE_WHOLE_SET = (fields.PAUSED, fields.HISTORY_LIMIT)


def role_errors(facts: SetFacts, role: RoleFacts, other: SetFacts | None) -> Iterator[FieldError]:
    """Everything that is wrong with one role by itself; nothing where it is the same in another version."""
    if _is_same(role, other):
        return
    strategy, partition = role.at(*fields.STRATEGY_TYPE.path), role.at(*fields.PARTITION.path)
    if strategy not in (None, "", RolloutStrategyType.ROLLING_UPDATE):
        supported = (RolloutStrategyType.ROLLING_UPDATE, "")
        yield not_supported(f"{role.path}.{fields.STRATEGY_TYPE}", strategy, supported)
    if partition not in (None, 0):
        yield forbidden(f"{role.path}.{fields.PARTITION}", partition, _PARTITION)
    if role.at("spec") is None:
        yield required(f"{role.path}.spec", "say what its groups are made of: a leaderWorkerTemplate")
        return
    for error in leaderworkerset.errors_in(_set_of(facts, role)):
        # The name is made of two that users choose: there are rules of its own about it.
        if not error.path.startswith("metadata.name"):
            yield FieldError(error.complaint, f"{role.path}.{error.path}", error.detail, error.value)


def role_warnings(
    facts: SetFacts, role: RoleFacts, other: SetFacts | None, gang: GangProvider | None
) -> Iterator[str]:
    """What is unwise in one role by itself; nothing where it is the same in another version."""
    if _is_same(role, other) or role.at("spec") is None:
        return
    for field in _OF_THE_WHOLE_SET:
        if role.at(*field.path) is not None:
            yield f"{role.path}.{field}: has no effect in a role: say it in {field} of the DisaggregatedSet"
    for warning in leaderworkerset.warnings_in(_set_of(facts, role), gang=gang):
        # Each begins with the path of what it is about.
        yield f"{role.path}.{warning}"


def _is_same(role: RoleFacts, other: SetFacts | None) -> bool:
    twin = other.role(role.name) if other is not None else None
    return twin is not None and twin.raw == role.raw


def _set_of(facts: SetFacts, role: RoleFacts) -> dict[str, Any]:
    """The LeaderWorkerSet of a role, under the longest name that one of them gets, as it would be stored.

    Templates, which are large, are shared with the role: defaults are set around them.
    """
    spec = dict(role.at("spec"))
    for field in (fields.TEMPLATE, fields.STRATEGY, fields.NETWORK):
        if is_mapping(value := spec.get(field.name)):
            spec[field.name] = dict(value)
    annotations = role.at("metadata", "annotations") or {}
    made = {
        "metadata": {"name": facts.longest_child_name(role.name), "annotations": annotations},
        "spec": spec,
    }
    default(made)
    return made
