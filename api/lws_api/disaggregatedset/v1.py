"""The DisaggregatedSet API, version v1: its labels and annotations, its models, and how its kinds present
themselves.

In: objects as the API server returned them. Out: frozen views; the docstring of a field is its text in
`kubectl explain`. Fields that the original controller does not have are optional, and no schema or webhook
ever writes them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from lws_api.disaggregatedset.standing import RoleStatus, SliceRollout, SliceStatus
from lws_api.leaderworkerset.v1 import LeaderWorkerSetSpec, NetworkConfig, SubdomainPolicy
from lws_api.meta import (
    Condition,
    Count,
    EmbeddedMetadata,
    Int32,
    Int64,
    KubeModel,
    ObjectMeta,
    PrinterColumn,
    ResourceKind,
    Scale,
    constrained,
    list_map,
    validation,
)

GROUP = "disaggregatedset.x-k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DisaggregatedSet"
SCALER_KIND = "DisaggregatedSetRoleScaler"

NAME_LABEL = f"{GROUP}/name"
ROLE_LABEL = f"{GROUP}/role"
SLICE_LABEL = f"{GROUP}/slice"
REVISION_LABEL = f"{GROUP}/revision"
APP_LABEL = "app"

INITIAL_REPLICAS_ANNOTATION = f"{GROUP}/initial-replicas"
OTHERS_INITIAL_REPLICAS_ANNOTATION = f"{GROUP}/initial-replicas-of-others"

ROLE_NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

_SCALED_BY_THE_SPEC = "self.roles.filter(r, !has(r.scaling) || r.scaling.mode != 'External')"
_ALL_OR_NONE_AT_ZERO = validation(
    rule=f"{_SCALED_BY_THE_SPEC}.all(r, !has(r.spec.replicas) || r.spec.replicas == 0) || "
    f"{_SCALED_BY_THE_SPEC}.all(r, has(r.spec.replicas) && r.spec.replicas > 0)",
    message="replicas must be zero for all non-External roles or non-zero for all non-External roles",
)


class ScalingMode(StrEnum):
    STATIC = "Static"
    EXTERNAL = "External"


class PlacementType(StrEnum):
    NONE = "None"
    EXCLUSIVE_SLICE = "ExclusiveSlice"
    EXCLUSIVE_TOPOLOGY = "ExclusiveTopology"


class PlacementStrength(StrEnum):
    REQUIRED = "Required"
    PREFERRED = "Preferred"


class RoleScaling(KubeModel):
    """Who says how many groups a role has."""

    mode: ScalingMode = ScalingMode.STATIC
    """Static: `spec.replicas` of the role. External: the DisaggregatedSetRoleScaler of the name
    `<set>-<role>`, which is made for autoscalers to write to.
    """


class RoleNetworkConfig(NetworkConfig):
    """How the pods of a role find each other. Nothing completes it here, so the policy must be given."""

    subdomain_policy: SubdomainPolicy
    """Which headless Service gives pods their host names. Shared: one for the whole role. UniquePerReplica:
    one for each group.
    """


class RoleSpec(LeaderWorkerSetSpec):
    """The spec of the LeaderWorkerSets of a role."""

    network_config: RoleNetworkConfig = Field(
        default_factory=lambda: RoleNetworkConfig(subdomain_policy=SubdomainPolicy.SHARED)
    )
    """How the pods of a group reach each other by name."""


class Role(KubeModel):
    """One role of a DisaggregatedSet, such as prefill or decode: a LeaderWorkerSet in each slice."""

    name: Annotated[str, constrained("string", minLength=1, maxLength=63, pattern=ROLE_NAME_PATTERN)]
    """The name of the role. Objects are named after set and role, so keep it short."""
    scaling: RoleScaling | None = None
    """Who says how many groups the role has. The set itself if this is left out."""
    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the LeaderWorkerSets of this role."""
    spec: RoleSpec | None = None
    """The spec of the LeaderWorkerSets of this role. `replicas` counts the groups in each slice. A change of
    `leaderWorkerTemplate` moves all roles to a new revision in step.
    """
    start_after: tuple[str, ...] = Field(default_factory=tuple)
    """Names of roles that must have a ready group before this one is first created. Rollouts do not wait."""


class PlacementPolicy(KubeModel):
    """How the slices of a set are placed among domains of a topology."""

    type: PlacementType = PlacementType.NONE
    """ExclusiveSlice: all pods of a slice run in one domain, and no other slice of the set in the same.
    ExclusiveTopology: nor any slice of another set. None: pods run anywhere.
    """
    topology: str = Field(default_factory=str)
    """The key of the node label that tells domains apart. Required unless `type` is None."""
    strength: PlacementStrength | None = None
    """Required: a pod that does not fit waits. Preferred: it runs elsewhere. Required if it is left out."""


class SetRolloutStrategy(KubeModel):
    """How a set as a whole moves to a new revision."""

    paused: bool | None = None
    """Whether the rollout stands still: no role takes another step until this is false or gone. Roles are
    still scaled and healed.
    """
    max_updating_slices: Annotated[int, constrained("integer", format="int32", minimum=1)] | None = None
    """How many slices may be in a rollout at a time. All of them if it is left out."""


class DisaggregatedSetSpec(KubeModel):
    """The wanted state of a set."""

    model_config = ConfigDict(json_schema_extra=_ALL_OR_NONE_AT_ZERO)

    roles: tuple[Role, ...] = Field(
        json_schema_extra={"minItems": 2, "maxItems": 10, **list_map("name")},
    )
    """The roles that make up one slice."""
    slices: Annotated[int, constrained("integer", format="int32", minimum=1, maximum=100)] = 1
    """How many copies of all roles the set has. Each moves to a new revision on its own. It starts no
    rollout.
    """
    placement_policy: PlacementPolicy | None = None
    """Where slices run. A change shows in pods that are made by the next rollout, and in new slices."""
    rollout_strategy: SetRolloutStrategy | None = None
    """How the set moves to a new revision. The limits of each role stand in the role."""
    revision_history_limit: Count | None = None
    """How many old revisions are kept beside those that still run, to look at and to go back to. 10 if it is
    left out.
    """
    progress_deadline_seconds: Annotated[int, constrained("integer", format="int32", minimum=1)] | None = None
    """After how many seconds without progress the set is reported as Stalled. Nothing else happens then: it
    goes on trying. Never if it is left out.
    """


class DisaggregatedSetStatus(KubeModel):
    """What was last observed of a set."""

    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation that this status is about."""
    role_statuses: tuple[RoleStatus, ...] = Field(default_factory=tuple, json_schema_extra=list_map("name"))
    """How each role of the spec stands, over all slices and revisions."""
    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """The state in words. Available: all groups are there, ready and on the target revision. Progressing:
    some are not. Stalled: nothing has moved for `spec.progressDeadlineSeconds`. ReplicaFailure: something
    keeps groups from being made.
    """
    current_revision: str = Field(default_factory=str)
    """The name of the ControllerRevision that the set was on before the latest change; equal to
    `updateRevision` once the rollout is done.
    """
    update_revision: str = Field(default_factory=str)
    """The name of the ControllerRevision that the set is on or moving to."""
    collision_count: Int32 = Field(default_factory=int)
    """How often two different templates came to the same key; it goes into the key of the next revision."""
    last_progress_time: datetime | None = None
    """When a group last became ready on the target revision, the rollout went a step further, or something
    new was asked for; `spec.progressDeadlineSeconds` counts from here.
    """
    slices: Int32 = Field(default_factory=int)
    """How many slices have pods of any role."""
    selector: str = Field(default_factory=str)
    """A label selector that matches the leader pods of all roles and slices, for autoscalers that change
    `spec.slices`.
    """
    slice_statuses: tuple[SliceStatus, ...] = Field(
        default_factory=tuple, json_schema_extra=list_map("index")
    )
    """How many groups each role has on each revision, slice by slice: those in a rollout, then others, as
    many as there is room for.
    """
    rollouts: dict[str, SliceRollout] = Field(default_factory=dict)
    """Memory of the controller: for each slice that is in a rollout, by its index, where that began."""
    pending: tuple[str, ...] = Field(default_factory=tuple)
    """What was changed and waits for the next revision, because it would restart pods; slices whose rollout
    waits for the user, with their roles; slices for which a scaler leaves no group of its role; and roles
    whose pods wait for nodes.
    """


class DisaggregatedSet(KubeModel):
    """LeaderWorkerSets with different roles that serve together, such as prefill and decode of one model:
    created, scaled and updated in step, in one copy or in several equal slices.
    """

    api_version: str = Field(default_factory=lambda: API_VERSION)
    """The API group and version of this object: disaggregatedset.x-k8s.io/v1."""
    kind: str = Field(default_factory=lambda: KIND)
    """The kind of this object: DisaggregatedSet."""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    """Name, namespace, labels and annotations. Objects are named after set and role, so keep the name
    short.
    """
    spec: DisaggregatedSetSpec
    """What you want: which roles there are, how many groups each has, and how they are updated."""
    status: DisaggregatedSetStatus = Field(default_factory=DisaggregatedSetStatus)
    """What the controller saw last. Written by the controller only."""


class RoleScalerSpec(KubeModel):
    """What autoscalers ask for."""

    # It always has a value, so that its scale can be read before anybody has written one.
    model_config = ConfigDict(json_schema_extra={"required": ["replicas"]})

    replicas: Count = 0
    """How many groups the role has in all slices together. Autoscalers write it by way of the scale
    subresource.
    """


class RoleScalerStatus(KubeModel):
    """What was last observed of the role."""

    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """Ready: a role of a DisaggregatedSet follows this scaler."""
    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation that this status is about."""
    replicas: Int32 = Field(default_factory=int)
    """How many groups the role has, over all slices and revisions."""
    selector: str = Field(default_factory=str)
    """A label selector that matches the leader pods of the role: autoscalers measure one pod per group."""


class DisaggregatedSetRoleScaler(KubeModel):
    """The number of groups of one role of a DisaggregatedSet, for autoscalers. The controller makes one for
    each role whose scaling is External, and deletes it with the role.
    """

    api_version: str = Field(default_factory=lambda: API_VERSION)
    """The API group and version of this object: disaggregatedset.x-k8s.io/v1."""
    kind: str = Field(default_factory=lambda: SCALER_KIND)
    """The kind of this object: DisaggregatedSetRoleScaler."""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    """Name, namespace, labels and annotations. The name is `<set>-<role>`."""
    spec: RoleScalerSpec | None = None
    """What autoscalers ask for."""
    status: RoleScalerStatus = Field(default_factory=RoleScalerStatus)
    """What the controller saw last. Written by the controller only."""


DISAGGREGATED_SET = ResourceKind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural="disaggregatedsets",
    singular="disaggregatedset",
    model=DisaggregatedSet,
    short_names=("dset",),
    columns=(
        PrinterColumn(
            "Available",
            "string",
            '.status.conditions[?(@.type=="Available")].status',
            "Whether all groups are ready on the target revision",
        ),
        PrinterColumn("Slices", "integer", ".spec.slices", "Slices that are wanted"),
        PrinterColumn("Revision", "string", ".status.updateRevision", "The revision that is wanted"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the set was created"),
    ),
    scale=Scale(".spec.slices", ".status.slices", ".status.selector"),
)

ROLE_SCALER = ResourceKind(
    group=GROUP,
    version=VERSION,
    kind=SCALER_KIND,
    plural="disaggregatedsetrolescalers",
    singular="disaggregatedsetrolescaler",
    model=DisaggregatedSetRoleScaler,
    short_names=("dsrs",),
    columns=(
        PrinterColumn("Desired", "integer", ".spec.replicas", "Groups that are wanted"),
        PrinterColumn("Current", "integer", ".status.replicas", "Groups that exist"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the scaler was created"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
)
