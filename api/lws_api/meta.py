"""Types shared by all kinds: the base class of models, recurring types, and the description of a kind that
its CustomResourceDefinition is generated from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

EMBEDS = "x-lws-embeds"
"""Schema keyword that stands for a type of Kubernetes itself; the generator of the CRDs puts that type's
schema there.
"""


class KubeModel(BaseModel):
    """Base class for a read-only view of an object, or of a part of one.

    Unknown fields are kept; snake_case names are camelCase in JSON. A null counts as absent for declared
    fields, as it does for the API server. Limits are in the schema only, because values that an older release
    accepted must be readable. A plain default is also the default of the CRD; that of a `default_factory`
    applies to readers only.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        declared = {
            field.alias for field in cls.__pydantic_fields__.values()
        } | cls.__pydantic_fields__.keys()
        return {key: item for key, item in value.items() if item is not None or key not in declared}


def constrained(kind: str, **keywords: Any) -> WithJsonSchema:
    """Return the schema of a scalar, for `Annotated`. The API server enforces it, models do not."""
    return WithJsonSchema({"type": kind, **keywords})


@dataclass(frozen=True, slots=True)
class ActsAs:
    """For `Annotated`: the value that an absent field has. Neither the schema nor a webhook stores it."""

    default: Any


Int32 = Annotated[int, constrained("integer", format="int32")]
Positive = Annotated[int, constrained("integer", format="int32", minimum=1)]
Count = Annotated[int, constrained("integer", format="int32", minimum=0)]
Int64 = Annotated[int, constrained("integer", format="int64")]


def list_map(*keys: str) -> dict[str, Any]:
    """For `json_schema_extra`: a list whose items are identified by `keys`, so that field managers can own
    single items.
    """
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def validation(rule: str, message: str) -> dict[str, Any]:
    """For `json_schema_extra`: a CEL rule that the API server enforces."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


IntOrPercent = Annotated[
    int | str,
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}),
]
"""A number, or a percentage such as `25%`."""

IntOrString = IntOrPercent
"""A number, or a name such as that of a port."""

PodTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", EMBEDS: "io.k8s.api.core.v1.PodTemplateSpec"})
]
"""A core/v1 PodTemplateSpec exactly as the user wrote it."""

ClaimTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", EMBEDS: "io.k8s.api.core.v1.PersistentVolumeClaim"})
]
"""A core/v1 PersistentVolumeClaim exactly as the user wrote it."""

EmbeddedMetadata = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", EMBEDS: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}),
]
"""Metadata of an embedded object, exactly as the user wrote it."""

Opaque = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""An object that is stored as it is written and never read."""


class ObjectMeta(KubeModel):
    """The fields of metav1.ObjectMeta that are read; others are kept as extra fields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_CONDITION_TYPE = rf"^({_DOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
_CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Condition(KubeModel):
    """A metav1.Condition: one aspect of the state of an object."""

    type: Annotated[str, constrained("string", maxLength=316, pattern=_CONDITION_TYPE)]
    """Type of the condition; at most one of each type exists."""
    status: Annotated[str, constrained("string", enum=["True", "False", "Unknown"])]
    """Whether the condition holds: True, False or Unknown."""
    reason: Annotated[str, constrained("string", minLength=1, maxLength=1024, pattern=_CONDITION_REASON)]
    """Reason of the status in one CamelCase word, for programs."""
    message: Annotated[str, constrained("string", maxLength=32768)]
    """Reason of the status in one sentence, for people."""
    last_transition_time: datetime
    """When the status last changed from one value to another."""
    observed_generation: Annotated[int, constrained("integer", format="int64", minimum=0)] = Field(
        default_factory=int
    )
    """The metadata.generation that was observed; if it is lower than the current one, the condition is out of
    date.
    """


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of `kubectl get`; `type` is an OpenAPI type or `date`, `path` a JSON path such as
    `.spec.replicas`.
    """

    name: str
    type: str
    path: str
    description: str


@dataclass(frozen=True, slots=True)
class Scale:
    """JSON paths of the scale subresource."""

    spec_path: str
    status_path: str
    selector_path: str


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A namespaced kind with a status subresource: with the schema of its model, everything in its CRD."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    model: type[KubeModel]
    short_names: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    scale: Scale | None = None

    @property
    def api_version(self) -> str:
        """Group and version as objects carry them, e.g. `leaderworkerset.x-k8s.io/v1`."""
        return f"{self.group}/{self.version}"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition, e.g. `leaderworkersets.leaderworkerset.x-k8s.io`."""
        return f"{self.plural}.{self.group}"
