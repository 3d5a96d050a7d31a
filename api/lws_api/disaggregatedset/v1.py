"""The DisaggregatedSet API, version v1: labels, annotations and models.

The docstring of a field is its text in `kubectl explain`. Fields that upstream does not have are optional,
and neither a schema nor a webhook gives them a default.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from lws_api.disaggregatedset.status import RoleStatus, SliceRollout, SliceStatus
from lws_api.leaderworkerset.v1 import LeaderWorkerSetSpec, NetworkConfig, SubdomainPolicy
from lws_api.meta import (
    ActsAs,
    Condition,
    Count,
    EmbeddedMetadata,
    Int32,
    Int64,
    KubeModel,
    ObjectMeta,
    Opaque,
    Positive,
    PrinterColumn,
    ResourceKind,
    Scale,
    constrained,
    list_map,
    validation,
)

API_GROUP = "disaggregatedset.x-k8s.io"
VERSION = "v1"
API_VERSION = f"{API_GROUP}/{VERSION}"
KIND = "DisaggregatedSet"
SCALER_KIND = "DisaggregatedSetRoleScaler"

NAME_LABEL = f"{API_GROUP}/name"
ROLE_LABEL = f"{API_GROUP}/role"
SLICE_LABEL = f"{API_GROUP}/slice"
REVISION_LABEL = f"{API_GROUP}/revision"
APP_LABEL = "app"

INITIAL_REPLICAS_ANNOTATION = f"{API_GROUP}/initial-replicas"
OTHERS_INITIAL_REPLICAS_ANNOTATION = f"{API_GROUP}/initial-replicas-of-others"
ADDED_METADATA_ANNOTATION = f"{API_GROUP}/added-metadata"

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
    """What sets the number of groups of a role."""

    mode: ScalingMode = ScalingMode.STATIC
    """Static: `spec.replicas` of the role counts. External: autoscalers write the DisaggregatedSetRoleScaler
    `<set>-<role>`, which the controller creates.
    """


class RoleNetworkConfig(NetworkConfig):
    """How the pods of a role find each other. The policy has no default here."""

    subdomain_policy: SubdomainPolicy
    """The headless Service of the pods. Shared: one for the role. UniquePerReplica: one for each group."""


class RoleSpec(LeaderWorkerSetSpec):
    """The spec of the LeaderWorkerSets of a role."""

    network_config: RoleNetworkConfig = Field(
        default_factory=lambda: RoleNetworkConfig(subdomain_policy=SubdomainPolicy.SHARED)
    )
    """How pods of a group reach each other by name."""


class Role(KubeModel):
    """One role of a DisaggregatedSet, such as prefill or decode: a LeaderWorkerSet in each slice."""

    name: Annotated[str, constrained("string", minLength=1, maxLength=63, pattern=ROLE_NAME_PATTERN)]
    """Name of the role. Names of its objects contain it, so keep it short."""
    scaling: RoleScaling | None = None
    """What sets the number of groups (default: Static)."""
    metadata: EmbeddedMetadata | None = None
    """Labels and annotations of the role's LeaderWorkerSets."""
    spec: RoleSpec | None = None
    """Spec of the role's LeaderWorkerSets. `replicas` counts groups per slice. A change of
    `leaderWorkerTemplate` moves all roles to a new revision.
    """
    start_after: tuple[str, ...] = Field(default_factory=tuple)
    """Roles that must have a ready group before this one is first created. Rollouts do not wait."""
    sub_roles: tuple[Opaque, ...] = Field(default_factory=tuple)
    """Pools of a role in upstream. Rejected; a stored set with it is left alone."""


class PlacementPolicy(KubeModel):
    """How slices are distributed over the domains of a topology."""

    type: PlacementType = PlacementType.NONE
    """ExclusiveSlice: all pods of a slice run in one domain, without other slices of the set.
    ExclusiveTopology: also without slices of other sets.
    """
    topology: str = Field(default_factory=str)
    """Node label whose values are the domains. Required unless `type` is None."""
    strength: PlacementStrength | None = None
    """Required (default): a pod that does not fit waits. Preferred: it runs elsewhere."""


class SetRolloutStrategy(KubeModel):
    """How a set as a whole moves to a new revision."""

    paused: bool | None = None
    """If true, no role takes a rollout step. Scaling and group restarts continue."""
    max_updating_slices: Positive | None = None
    """Slices that may be in a rollout at a time (default: all)."""


class DisaggregatedSetSpec(KubeModel):
    """The desired state of a DisaggregatedSet."""

    model_config = ConfigDict(json_schema_extra=_ALL_OR_NONE_AT_ZERO)

    roles: tuple[Role, ...] = Field(
        json_schema_extra={"minItems": 1, "maxItems": 10, **list_map("name")},
    )
    """The roles of a slice."""
    slices: Annotated[int, constrained("integer", format="int32", minimum=1, maximum=100)] = 1
    """Number of copies of all roles. Each is updated on its own."""
    placement_policy: PlacementPolicy | None = None
    """Where slices run. A change applies to new slices and to pods of the next rollout."""
    rollout_strategy: SetRolloutStrategy | None = None
    """How the set is updated. Limits per role are in the role."""
    revision_history_limit: Annotated[Count | None, ActsAs(10)] = None
    """Old revisions kept in addition to those in use (default 10)."""
    progress_deadline_seconds: Positive | None = None
    """Seconds without progress after which the set is reported as Stalled (default: never). It continues
    nevertheless.
    """


class DisaggregatedSetStatus(KubeModel):
    """The last observed state of a DisaggregatedSet."""

    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation of this status."""
    role_statuses: tuple[RoleStatus, ...] = Field(default_factory=tuple, json_schema_extra=list_map("name"))
    """State of each role, over all slices and revisions."""
    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """Available: all groups are ready on the target revision. Progressing: some are not. Stalled: no progress
    for `spec.progressDeadlineSeconds`. ReplicaFailure: groups cannot be created. RolesEdited: the template of
    a LeaderWorkerSet is not that of its revision.
    """
    current_revision: str = Field(default_factory=str)
    """ControllerRevision before the latest change; equal to `updateRevision` after the rollout."""
    update_revision: str = Field(default_factory=str)
    """ControllerRevision of the target revision."""
    collision_count: Int32 = Field(default_factory=int)
    """Number of key collisions between templates; part of the next key."""
    last_progress_time: datetime | None = None
    """When a group last became ready on the target revision, the rollout took a step, or the spec changed.
    `spec.progressDeadlineSeconds` counts from here.
    """
    slices: Int32 = Field(default_factory=int)
    """Slices that have pods."""
    selector: str = Field(default_factory=str)
    """Label selector of all leader pods, for autoscalers of `spec.slices`."""
    slice_statuses: tuple[SliceStatus, ...] = Field(
        default_factory=tuple, json_schema_extra=list_map("index")
    )
    """Groups of each role and revision, by slice: those in a rollout first, then as many others as fit."""
    rollouts: dict[str, SliceRollout] = Field(default_factory=dict)
    """Record of the controller: where the rollout of each slice began, by index."""
    pending: tuple[str, ...] = Field(default_factory=tuple)
    """What waits: edits that would restart pods, for the next revision; rollouts, for the user; slices
    without groups of a scaled role; roles whose pods wait for nodes.
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
    """Groups of the role in all slices together, written through the scale subresource."""


class RoleScalerStatus(KubeModel):
    """What was last observed of the role."""

    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """Ready: a role follows this scaler."""
    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation of this status."""
    replicas: Int32 = Field(default_factory=int)
    """Groups of the role, over all slices and revisions."""
    selector: str = Field(default_factory=str)
    """Label selector of the role's leader pods."""


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
    group=API_GROUP,
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
        PrinterColumn("Slices", "integer", ".spec.slices", "Desired number of slices"),
        PrinterColumn("Revision", "string", ".status.updateRevision", "Desired revision"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the set was created"),
    ),
    scale=Scale(".spec.slices", ".status.slices", ".status.selector"),
)

ROLE_SCALER = ResourceKind(
    group=API_GROUP,
    version=VERSION,
    kind=SCALER_KIND,
    plural="disaggregatedsetrolescalers",
    singular="disaggregatedsetrolescaler",
    model=DisaggregatedSetRoleScaler,
    short_names=("dsrs",),
    columns=(
        PrinterColumn("Desired", "integer", ".spec.replicas", "Desired number of groups"),
        PrinterColumn("Current", "integer", ".status.replicas", "Groups that exist"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the scaler was created"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
)
