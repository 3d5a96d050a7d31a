"""Fields of a LeaderWorkerSet that decisions read, by path, with types, defaults and limits of the models.

The set may have been stored under any version of the CRD: fields may be missing, null or of the wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import WithJsonSchema

from lws.kube.metadata import is_mapping
from lws.kube.quantities import INT32
from lws_api.leaderworkerset.v1 import LeaderWorkerSet
from lws_api.meta import ActsAs, KubeModel


def value_at(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value at a path; None if any part of the path is missing, null or not an object."""
    value: Any = raw
    for part in path:
        # The first check saves a call: passes read hundreds of fields.
        if type(value) is not dict and not is_mapping(value):
            return None
        value = value.get(part)
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a set. Outside the models, for example in pod templates, only its path is known.

    default: the value if the field is absent; None if there is no default.
    types: types of its values in JSON.
    choices: members of an enum, by value.
    minimum: the smallest number; None if there is no limit.
    maximum: the largest number.
    model: the model of the object in the field.
    """

    path: tuple[str, ...]
    default: Any = None
    types: tuple[type, ...] = ()
    choices: Mapping[str, StrEnum] = field(default_factory=dict)
    minimum: int | None = None
    maximum: int = INT32
    model: type[KubeModel] | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.path[-1] if self.path else "")

    def __str__(self) -> str:
        return ".".join(self.path)

    def child(self, name: str) -> Field:
        """Return a field of the object in this field."""
        return Field((*self.path, name), **_declared(self.model, name))

    @property
    def stored_default(self) -> Any:
        """The default as JSON contains it."""
        return self.default.value if isinstance(self.default, StrEnum) else self.default

    def stored_in(self, raw: Mapping[str, Any]) -> Any:
        """Return the stored value of the field in a set; None if it is not set."""
        return value_at(raw, self.path)

    def out_of_range(self, raw: Mapping[str, Any], minimum: int | None = None) -> str:
        """Describe a number that is out of range, else return "". minimum: replaces the model's minimum."""
        number, minimum = self.stored_in(raw), self.minimum if minimum is None else minimum
        if number is None or minimum is None or minimum <= number <= self.maximum:
            return ""
        return f"{self} is {number}, not from {minimum} to {self.maximum}"

    def effective_in(self, raw: Mapping[str, Any]) -> Any:
        """Return the value that takes effect in a set: the stored value or the default, see `or_default`."""
        return self.or_default(value_at(raw, self.path))

    def effective_in_part(self, part: Mapping[str, Any]) -> Any:
        """Return the same as `effective_in`, but from the object that the field belongs to."""
        return self.or_default(part.get(self.name))

    def or_default(self, value: Any) -> Any:
        """Return a stored value, or the default if the value is absent, unknown or of another type.

        An unknown value of an enum among the constants of this module stops a set before a pass reads it,
        except in `_HARMLESS` of `revisions/shape.py`. Fields that builders declare stop nothing.
        """
        if type(value) in self.types or (dict in self.types and is_mapping(value)):
            return value
        return self.choices.get(value, self.default) if type(value) is str else self.default


@cache
def _declared(model: type[KubeModel] | None, name: str) -> Mapping[str, Any]:
    """Return what a model declares about a field, as arguments of `Field`."""
    declarations = {} if model is None else model.__pydantic_fields__
    declared = next((candidate for candidate in declarations.values() if candidate.alias == name), None)
    if declared is None:
        return {}
    arguments: dict[str, Any] = {"default": declared.get_default(call_default_factory=True), "types": ()}
    for part in _parts(declared.rebuild_annotation()):
        if isinstance(part, ActsAs):
            arguments["default"] = part.default
        elif isinstance(part, WithJsonSchema):
            schema = part.json_schema or {}
            arguments |= {"minimum": schema.get("minimum"), "maximum": schema.get("maximum", INT32)}
        else:
            is_model, is_choice = issubclass(part, KubeModel), issubclass(part, StrEnum)
            arguments["types"] += (dict if is_model else part,)
            arguments["model"] = part if is_model else None
            arguments["choices"] = {str(choice): choice for choice in part} if is_choice else {}
    return arguments if isinstance(arguments["default"], int | str) else {**arguments, "default": None}


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and the metadata of an annotation."""
    origin = get_origin(annotation)
    if origin in (Annotated, Union, UnionType):
        for part in get_args(annotation):
            yield from _parts(part)
    elif annotation is not NoneType:
        yield {dict: dict, tuple: list}.get(origin, annotation)


SPEC = Field((), model=LeaderWorkerSet).child("spec")
REPLICAS = SPEC.child("replicas")
STARTUP_POLICY = SPEC.child("startupPolicy")
POD_TERMINATION_POLICY = SPEC.child("podTerminationPolicy")
REVISION_HISTORY_LIMIT = SPEC.child("revisionHistoryLimit")
PROGRESS_DEADLINE_SECONDS = SPEC.child("progressDeadlineSeconds")
MAX_GROUP_RESTARTS = SPEC.child("maxGroupRestarts")
START_STRATEGY = SPEC.child("startStrategy")
SEED_GROUPS = START_STRATEGY.child("seedGroups")
GROWTH_FACTOR = START_STRATEGY.child("growthFactor")
GROUP_IDENTITY = SPEC.child("groupIdentity")
GROUP_REPLACEMENT_POLICY = SPEC.child("groupReplacementPolicy")
SCHEDULING = SPEC.child("scheduling")
MANAGED_BY = SPEC.child("managedBy")
LEADER_SERVICE = SPEC.child("leaderService")

LEADER_WORKER_TEMPLATE = SPEC.child("leaderWorkerTemplate")
LEADER_TEMPLATE = LEADER_WORKER_TEMPLATE.child("leaderTemplate")
WORKER_TEMPLATE = LEADER_WORKER_TEMPLATE.child("workerTemplate")
SIZE = LEADER_WORKER_TEMPLATE.child("size")
RESTART_POLICY = LEADER_WORKER_TEMPLATE.child("restartPolicy")
LEADER_WORKER_TEMPLATE_MAX_GROUP_RESTARTS = LEADER_WORKER_TEMPLATE.child("maxGroupRestarts")
RESTART_BACKOFF = LEADER_WORKER_TEMPLATE.child("restartBackoff")
RESTART_BACKOFF_BASE_SECONDS = RESTART_BACKOFF.child("baseSeconds")
RESTART_BACKOFF_CAP_SECONDS = RESTART_BACKOFF.child("capSeconds")
VOLUME_CLAIM_TEMPLATES = LEADER_WORKER_TEMPLATE.child("volumeClaimTemplates")
PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY = LEADER_WORKER_TEMPLATE.child(
    "persistentVolumeClaimRetentionPolicy"
)
SUB_GROUP_POLICY = LEADER_WORKER_TEMPLATE.child("subGroupPolicy")
SUB_GROUP_SIZE = SUB_GROUP_POLICY.child("subGroupSize")
SUB_GROUP_POLICY_TYPE = SUB_GROUP_POLICY.child("subGroupPolicyType")

ROLLOUT_STRATEGY = SPEC.child("rolloutStrategy")
ROLLOUT_STRATEGY_TYPE = ROLLOUT_STRATEGY.child("type")
PAUSED = ROLLOUT_STRATEGY.child("paused")
PREWARM = ROLLOUT_STRATEGY.child("prewarm")
PREWARM_DEADLINE_SECONDS = PREWARM.child("deadlineSeconds")
PREWARM_PARALLELISM = PREWARM.child("parallelism")
PREWARM_COMMAND = PREWARM.child("command")
ROLLING_UPDATE_CONFIGURATION = ROLLOUT_STRATEGY.child("rollingUpdateConfiguration")
PARTITION = ROLLING_UPDATE_CONFIGURATION.child("partition")
MAX_UNAVAILABLE = ROLLING_UPDATE_CONFIGURATION.child("maxUnavailable")
MAX_SURGE = ROLLING_UPDATE_CONFIGURATION.child("maxSurge")

NETWORK_CONFIG = SPEC.child("networkConfig")
SUBDOMAIN_POLICY = NETWORK_CONFIG.child("subdomainPolicy")

POD_DISRUPTION_BUDGET = SPEC.child("podDisruptionBudget")
MAX_UNAVAILABLE_GROUPS = POD_DISRUPTION_BUDGET.child("maxUnavailableGroups")
