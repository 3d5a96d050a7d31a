"""The LeaderWorkerSet API, version v1: its labels, annotations and environment names, its models, and how it
presents itself.

In: a LeaderWorkerSet as the API server returned it. Out: a frozen view; the docstring of a field is its text
in `kubectl explain`. Fields that the original controller does not have are optional, and no schema or webhook
ever writes them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy
from lws_api.leaderworkerset.service import LeaderService
from lws_api.leaderworkerset.standing import GroupSummary, RolloutPosition
from lws_api.meta import (
    ClaimTemplate,
    Condition,
    Count,
    Int32,
    Int64,
    IntOrPercent,
    KubeModel,
    ObjectMeta,
    Opaque,
    PodTemplate,
    PrinterColumn,
    ResourceKind,
    Scale,
    constrained,
    list_map,
)

GROUP = "leaderworkerset.x-k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "LeaderWorkerSet"

_PREFIX = "leaderworkerset.sigs.k8s.io"

NAME_LABEL = f"{_PREFIX}/name"
WORKER_INDEX_LABEL = f"{_PREFIX}/worker-index"
GROUP_INDEX_LABEL = f"{_PREFIX}/group-index"
GROUP_KEY_LABEL = f"{_PREFIX}/group-key"
REVISION_LABEL = f"{_PREFIX}/template-revision-hash"
ROLE_LABEL = f"{_PREFIX}/role"
SUBGROUP_INDEX_LABEL = f"{_PREFIX}/subgroup-index"
SUBGROUP_KEY_LABEL = f"{_PREFIX}/subgroup-key"
FORMER_GROUP_GONE_LABEL = f"{_PREFIX}/former-group-gone"
"""Of a leader that found no node while pods of its former group may have been there: the manager sets it to
"true" when they are gone, so that the scheduler looks again.
"""

SIZE_ANNOTATION = f"{_PREFIX}/size"
REPLICAS_ANNOTATION = f"{_PREFIX}/replicas"
LEADER_NAME_ANNOTATION = f"{_PREFIX}/leader-name"
LEADER_ADDRESS_ANNOTATION = f"{_PREFIX}/leader-address"
EXCLUSIVE_TOPOLOGY_ANNOTATION = f"{_PREFIX}/exclusive-topology"
SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION = f"{_PREFIX}/subgroup-exclusive-topology"
SUBGROUP_SIZE_ANNOTATION = f"{_PREFIX}/subgroup-size"
SUBGROUP_POLICY_TYPE_ANNOTATION = f"{_PREFIX}/subgroup-policy-type"
SUBDOMAIN_POLICY_ANNOTATION = f"{_PREFIX}/subdomainPolicy"
LEADER_REQUESTS_TPUS_ANNOTATION = f"{_PREFIX}/leader-requests-tpus"
RECREATE_GROUP_AFTER_START_ANNOTATION = f"{_PREFIX}/experimental-recreate-group-after-start"
RESTART_EXEMPT_CONTAINERS_ANNOTATION = f"{_PREFIX}/restart-exempt-containers"
RESTART_EXEMPT_SIDECARS_ANNOTATION = f"{_PREFIX}/restart-exempt-sidecars"
PODS_RETRIED_AT_ANNOTATION = f"{_PREFIX}/pods-retried-at"

LEADER_ADDRESS_ENV = "LWS_LEADER_ADDRESS"
GROUP_SIZE_ENV = "LWS_GROUP_SIZE"
WORKER_INDEX_ENV = "LWS_WORKER_INDEX"


class RestartPolicy(StrEnum):
    DEFAULT = "Default"
    NONE = "None"
    RECREATE_GROUP_ON_POD_RESTART = "RecreateGroupOnPodRestart"
    RECREATE_GROUP_AFTER_START = "RecreateGroupAfterStart"


class StartupPolicy(StrEnum):
    LEADER_CREATED = "LeaderCreated"
    LEADER_READY = "LeaderReady"


class SubdomainPolicy(StrEnum):
    SHARED = "Shared"
    UNIQUE_PER_REPLICA = "UniquePerReplica"


class RolloutStrategyType(StrEnum):
    ROLLING_UPDATE = "RollingUpdate"


class SubGroupPolicyType(StrEnum):
    LEADER_WORKER = "LeaderWorker"
    LEADER_EXCLUDED = "LeaderExcluded"


class RollingUpdateConfiguration(KubeModel):
    """How many groups a rolling update may touch at a time."""

    partition: Int32 = 0
    """Groups with an index below this number keep the revision they run; groups at or above it are updated. 0
    updates all of them, a number of at least `replicas` none.
    """
    max_unavailable: IntOrPercent = 1
    """How many groups may be missing from `replicas` during the update: a number, or a percentage of
    `replicas` that is rounded down. It cannot be 0 while `maxSurge` is 0.
    """
    max_surge: IntOrPercent = 0
    """How many groups may be added on top of `replicas` during the update: a number, or a percentage of
    `replicas` that is rounded up. They are removed again when the update is done.
    """


class RolloutStrategy(KubeModel):
    """How groups move to a new revision."""

    type: RolloutStrategyType = RolloutStrategyType.ROLLING_UPDATE
    """The kind of strategy. RollingUpdate replaces groups from the highest index to the lowest."""
    rolling_update_configuration: RollingUpdateConfiguration = Field(
        default_factory=RollingUpdateConfiguration
    )
    """The limits of a rolling update. If it is left out: partition 0, maxUnavailable 1, maxSurge 0."""
    paused: bool | None = None
    """Whether the rollout stands still: no group moves to another revision until this is false or gone.
    Groups are still scaled and healed.
    """


class SubGroupPolicy(KubeModel):
    """How a group is split into subgroups, for example one per accelerator island."""

    sub_group_policy_type: SubGroupPolicyType = SubGroupPolicyType.LEADER_WORKER
    """Where the leader belongs. LeaderWorker: to the first subgroup. LeaderExcluded: to none; only workers
    form subgroups.
    """
    sub_group_size: Int32 | None = None
    """How many pods one subgroup has. It must divide `size`, or `size` - 1; with LeaderExcluded it must
    divide `size` - 1. It cannot be changed later.
    """


class PersistentVolumeClaimRetentionPolicy(KubeModel):
    """What becomes of the claims made from `volumeClaimTemplates`."""

    when_deleted: str | None = None
    """Retain or Delete the claims when the set is deleted. Retain if it is left out."""
    when_scaled: str | None = None
    """Retain or Delete the claims of leaders that are scaled away; claims of workers stay. Retain if it is
    left out.
    """


class LeaderWorkerTemplate(KubeModel):
    """What one group is made of. A change of anything but the policies on restarts and claims is a new
    revision.
    """

    leader_template: PodTemplate | None = None
    """The template of the leader pod. If it is left out, leaders are made from `workerTemplate` too."""
    worker_template: PodTemplate
    """The template of the worker pods, and of the leader if `leaderTemplate` is left out."""
    size: Int32 = 1
    """How many pods a group has, its leader included: a group of size 4 is one leader and three workers. At
    least 1.
    """
    restart_policy: RestartPolicy = RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    """What happens to a group when one of its pods is deleted or one of its containers restarts.
    RecreateGroupOnPodRestart: the whole group is replaced. RecreateGroupAfterStart: the same, but not while
    pods of the group are missing or Pending. None: only what failed comes back, but a leader that is replaced
    takes its workers along. Default is the former name of None.
    """
    max_group_restarts: Count | None = None
    """The name of the original for `spec.maxGroupRestarts`: write one of the two, with a policy that replaces
    groups. A change is no new revision.
    """
    sub_group_policy: SubGroupPolicy | None = None
    """Splits each group into subgroups. It can be neither added nor removed later."""
    volume_claim_templates: tuple[ClaimTemplate, ...] = Field(default_factory=tuple)
    """Claims that are made anew for each pod of each group, leaders included. Containers mount them by their
    name.
    """
    persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy | None = None
    """Whether claims made from `volumeClaimTemplates` are kept or deleted."""


class NetworkConfig(KubeModel):
    """How the pods of a set find each other. A change is a new revision and starts a rollout."""

    subdomain_policy: SubdomainPolicy = Field(default_factory=lambda: SubdomainPolicy.SHARED)
    """Which headless Service gives pods their host names. Shared: one for the whole set. UniquePerReplica:
    one for each group. Shared if it is left out.
    """


class GroupDisruptionBudget(KubeModel):
    """How much voluntary disruption, such as the drain of a node, a set bears."""

    max_unavailable_groups: IntOrPercent | None = None
    """How many groups evictions may take down at a time: a number, or a percentage of `replicas` that is
    rounded down. 1 if it is left out.
    """


class LeaderWorkerSetSpec(KubeModel):
    """The wanted state of a set."""

    replicas: Annotated[int, constrained("integer", format="int32", minimum=0, maximum=1_000_000)] = 1
    """How many groups the set has. This is what `kubectl scale` and autoscalers change; it starts no rollout.
    """
    leader_worker_template: LeaderWorkerTemplate
    """What each group is made of: its pods, its size, and what happens when a pod fails."""
    rollout_strategy: RolloutStrategy = Field(default_factory=RolloutStrategy)
    """How groups are replaced when `leaderWorkerTemplate` or `networkConfig` changes."""
    startup_policy: StartupPolicy = StartupPolicy.LEADER_CREATED
    """When the workers of a group are created. LeaderCreated: as soon as the leader pod exists. LeaderReady:
    once the leader pod is ready.
    """
    network_config: NetworkConfig = Field(default_factory=NetworkConfig)
    """How the pods of a group reach each other by name."""
    revision_history_limit: Count | None = None
    """How many old revisions are kept beside those that groups still run, to look at and to go back to. 10
    if it is left out.
    """
    progress_deadline_seconds: Annotated[int, constrained("integer", format="int32", minimum=1)] | None = None
    """After how many seconds without progress the set is reported as Stalled. Nothing else happens then: it
    goes on trying. Never if it is left out. While pods are gated or cannot be scheduled the clock stands
    still.
    """
    max_group_restarts: Count | None = None
    """How often a group may be replaced as a whole because its pods failed, on one revision. After that it is
    left as it is for diagnosis, and the set is reported as Failed. Unlimited if it is left out.
    """
    group_identity: GroupIdentity | None = None
    """How groups are told apart. Ordinal, as always here: by numbers from 0. Hash is refused: a set that was
    stored with it is left alone.
    """
    group_replacement_policy: GroupReplacementPolicy | None = None
    """When a group that goes is replaced. PostTermination, as always here: once its pods are gone. Immediate
    is refused: a set that was stored with it is left alone.
    """
    scheduling: Opaque | None = None
    """How the original has groups placed by Workloads of Kubernetes. It is refused here: a set that was
    stored with it is left alone.
    """
    pod_disruption_budget: GroupDisruptionBudget | None = None
    """Protects groups from evictions by a PodDisruptionBudget that counts whole groups. None is made if this
    is left out.
    """
    leader_service: LeaderService | None = None
    """Asks for a Service of the name `<set>-leader` that selects the leader pods. None is made if this is
    left out.
    """


class LeaderWorkerSetStatus(KubeModel):
    """What was last observed of a set."""

    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """The state in words. Available: all groups are ready and on the target revision. Progressing: groups are
    being created or replaced. UpdateInProgress: a rollout is under way. ReplicaFailure: something keeps
    groups from being made. Stalled: nothing has moved for `spec.progressDeadlineSeconds`. Failed: a group has
    used up `spec.maxGroupRestarts`.
    """
    ready_replicas: Int32 = Field(default_factory=int)
    """How many groups have a ready leader and all their workers ready, surge groups included."""
    updated_replicas: Int32 = Field(default_factory=int)
    """How many groups are on the target revision, ready or not, surge groups included."""
    replicas: Int32 = Field(default_factory=int)
    """How many groups exist, surge groups included."""
    hpa_pod_selector: str = Field(default_factory=str)
    """A label selector that matches the leader pods, for HorizontalPodAutoscalers: they measure leaders, one
    per group.
    """
    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation that this status is about."""
    current_revision: str = Field(default_factory=str)
    """The name of the ControllerRevision that the set was on before the latest change; equal to
    `updateRevision` once the rollout is done.
    """
    update_revision: str = Field(default_factory=str)
    """The name of the ControllerRevision that the set is on or moving to."""
    collision_count: Int32 = Field(default_factory=int)
    """How often two different templates came to the same hash; it goes into the hash of the next revision."""
    last_progress_time: datetime | None = None
    """When a group last became ready on the target revision, the rollout went a step further, or something
    new was asked for; `spec.progressDeadlineSeconds` counts from here, or from when pods that had to wait
    for nodes got them.
    """
    groups: GroupSummary | None = None
    """How the groups stand, in short."""
    rollout: RolloutPosition | None = None
    """Memory of the controller: how far the rollout has come, should the leader StatefulSet be lost."""
    members: dict[str, str] = Field(default_factory=dict)
    """Memory of the controller: for each complete group, by its index, hashes of the UIDs of its leader and
    of its workers. Tells a pod that was replaced while nobody looked.
    """
    restarts: dict[str, str] = Field(default_factory=dict)
    """Memory of the controller: for each group that was replaced because its pods failed, by its index, how
    often that was and when it was last.
    """


class LeaderWorkerSet(KubeModel):
    """A number of equal groups of pods, each one leader and its workers, that are created, updated and healed
    as units: for workloads such as inference of a model that does not fit on one machine.
    """

    api_version: str = Field(default_factory=lambda: API_VERSION)
    """The API group and version of this object: leaderworkerset.x-k8s.io/v1."""
    kind: str = Field(default_factory=lambda: KIND)
    """The kind of this object: LeaderWorkerSet."""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    """Name, namespace, labels and annotations. Pods are named after the set, so keep its name short."""
    spec: LeaderWorkerSetSpec
    """What you want: how many groups, what each is made of, and how they are updated."""
    status: LeaderWorkerSetStatus = Field(default_factory=LeaderWorkerSetStatus)
    """What the controller saw last. Written by the controller only."""


LEADER_WORKER_SET = ResourceKind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural="leaderworkersets",
    singular="leaderworkerset",
    model=LeaderWorkerSet,
    short_names=("lws",),
    columns=(
        PrinterColumn("Ready", "integer", ".status.readyReplicas", "Groups with all their pods ready"),
        PrinterColumn("Desired", "integer", ".spec.replicas", "Groups that are wanted"),
        PrinterColumn("Up-to-date", "integer", ".status.updatedReplicas", "Groups on the target revision"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the set was created"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
)
