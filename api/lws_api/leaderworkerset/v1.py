"""The LeaderWorkerSet API, version v1: labels, annotations, environment variables and models.

The docstring of a field is its text in `kubectl explain`. Fields that upstream does not have are optional,
and neither a schema nor a webhook gives them a default.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy
from lws_api.leaderworkerset.scheduling import SetScheduling
from lws_api.leaderworkerset.service import LeaderService
from lws_api.leaderworkerset.status import GroupSummary, PrewarmProgress, RolloutPosition
from lws_api.meta import (
    ActsAs,
    ClaimTemplate,
    Condition,
    Count,
    Int32,
    Int64,
    IntOrPercent,
    KubeModel,
    ObjectMeta,
    PodTemplate,
    Positive,
    PrinterColumn,
    ResourceKind,
    Scale,
    constrained,
    list_map,
)

API_GROUP = "leaderworkerset.x-k8s.io"
VERSION = "v1"
API_VERSION = f"{API_GROUP}/{VERSION}"
KIND = "LeaderWorkerSet"

LABEL_PREFIX = "leaderworkerset.sigs.k8s.io"
"""Prefix of the labels and annotations of sets, pods and the objects that belong to them."""

CONTROLLER_NAME = f"{LABEL_PREFIX}/lws-controller"
"""What `spec.managedBy` calls this controller."""

NAME_LABEL = f"{LABEL_PREFIX}/name"
WORKER_INDEX_LABEL = f"{LABEL_PREFIX}/worker-index"
GROUP_INDEX_LABEL = f"{LABEL_PREFIX}/group-index"
GROUP_KEY_LABEL = f"{LABEL_PREFIX}/group-key"
REVISION_LABEL = f"{LABEL_PREFIX}/template-revision-hash"
ROLE_LABEL = f"{LABEL_PREFIX}/role"
LEADER, WORKER = "leader", "worker"
"""Values of ROLE_LABEL. StatefulSets carry it, pods do not."""
SUBGROUP_INDEX_LABEL = f"{LABEL_PREFIX}/subgroup-index"
SUBGROUP_KEY_LABEL = f"{LABEL_PREFIX}/subgroup-key"
FORMER_GROUP_GONE_LABEL = f"{LABEL_PREFIX}/former-group-gone"
"""On a leader that found no node while pods of its former group may have used it. The manager sets the label
to "true" when they are gone, so that the scheduler tries again.
"""

SIZE_ANNOTATION = f"{LABEL_PREFIX}/size"
REPLICAS_ANNOTATION = f"{LABEL_PREFIX}/replicas"
LEADER_NAME_ANNOTATION = f"{LABEL_PREFIX}/leader-name"
LEADER_ADDRESS_ANNOTATION = f"{LABEL_PREFIX}/leader-address"
EXCLUSIVE_TOPOLOGY_ANNOTATION = f"{LABEL_PREFIX}/exclusive-topology"
SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION = f"{LABEL_PREFIX}/subgroup-exclusive-topology"
SUBGROUP_SIZE_ANNOTATION = f"{LABEL_PREFIX}/subgroup-size"
SUBGROUP_POLICY_TYPE_ANNOTATION = f"{LABEL_PREFIX}/subgroup-policy-type"
SUBDOMAIN_POLICY_ANNOTATION = f"{LABEL_PREFIX}/subdomainPolicy"
LEADER_REQUESTS_TPUS_ANNOTATION = f"{LABEL_PREFIX}/leader-requests-tpus"
RECREATE_GROUP_AFTER_START_ANNOTATION = f"{LABEL_PREFIX}/experimental-recreate-group-after-start"
RESTART_EXEMPT_CONTAINERS_ANNOTATION = f"{LABEL_PREFIX}/restart-exempt-containers"
RESTART_EXEMPT_SIDECARS_ANNOTATION = f"{LABEL_PREFIX}/restart-exempt-sidecars"
GROUP_IDENTITY_ANNOTATION = f"{LABEL_PREFIX}/group-identity"
GROUP_READY_CONDITION = f"{LABEL_PREFIX}/group-ready"
"""Readiness gate and condition of leaders of Hash groups: their workers are ready."""
GROUP_REPLACEMENT_GATE = f"{LABEL_PREFIX}/group-replacement"
"""Scheduling gate of leaders, until the groups they replace are gone: of Hash groups, and of groups that
`spec.scheduling` is about.
"""
SCHEDULING_LEVEL_LABEL = f"{LABEL_PREFIX}/scheduling-level"
"""On PodGroups: the level of `spec.scheduling` that they are for."""
SCHEDULING_LEVEL_ANNOTATION = f"{LABEL_PREFIX}/workload-aware-scheduling"
WORKLOAD_NAME_ANNOTATION = f"{LABEL_PREFIX}/workload-name"
"""On pods of sets with `spec.scheduling`: its level, and the name of the Workload. Leaders of groups add five
characters of their own to the name, so that no two leaders have the same PodGroup.
"""
PREWARM_LABEL = f"{LABEL_PREFIX}/prewarm"
"""On the pods of Jobs that pull images before a rollout: the name of their set. They carry none of our other
labels and are not pods of the set.
"""
PREWARM_NODE_ANNOTATION = f"{LABEL_PREFIX}/prewarm-node"
"""On such a Job: the node that it pulls images for."""
PODS_RETRIED_AT_ANNOTATION = f"{LABEL_PREFIX}/pods-retried-at"
POD_TERMINATION_POLICY_ANNOTATION = f"{LABEL_PREFIX}/pod-termination-policy"
"""On worker StatefulSets, and on leader pods of upstream: `spec.podTerminationPolicy`, which is needed after
the set is gone.
"""
GROUP_RESTART_COUNTS_ANNOTATION = f"{LABEL_PREFIX}/group-restart-counts"
GROUP_RESTARTS_COUNTED_FOR_ANNOTATION = f"{LABEL_PREFIX}/group-restarts-counted-for"
"""On sets: for which leader pods `group-restart-counts` counts a restart that may not be done yet. It holds
hashes of their UIDs.
"""
RESTART_BUDGET_EXHAUSTED_ANNOTATION = f"{LABEL_PREFIX}/group-restart-budget-exhausted"
RECOVER_ANNOTATION = f"{LABEL_PREFIX}/recover"

RESTART_BUDGET_FINALIZER = f"{LABEL_PREFIX}/group-restart-budget-cleanup"
"""Finalizer on the pods of a group that has used up `maxGroupRestarts` of its template."""

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


class PodTerminationPolicy(StrEnum):
    DEFAULT = "Default"
    PARALLEL = "Parallel"


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
    """Groups with an index below this number keep their revision."""
    max_unavailable: IntOrPercent = 1
    """Groups that may be unavailable during the update: a number, or a percentage of `replicas`, rounded
    down. Not 0 if `maxSurge` is 0.
    """
    max_surge: IntOrPercent = 0
    """Groups that may exist in addition to `replicas` during the update: a number, or a percentage of
    `replicas`, rounded up.
    """


class Prewarm(KubeModel):
    """New images are pulled on the nodes of the groups that a rollout replaces, before it replaces the first.
    A Job for each node does it. The rollout goes on when all Jobs have finished, whether or not they
    succeeded.
    """

    deadline_seconds: Annotated[Positive | None, ActsAs(600)] = None
    """Seconds after which the rollout continues in any case (default 600)."""
    parallelism: Annotated[Positive | None, ActsAs(10)] = None
    """Nodes that pull at a time (default 10)."""
    command: tuple[str, ...] | None = None
    """Runs on each of these nodes, even if no image is new, with the image, environment and volumes of the
    first container of the worker (or leader) template.
    """


class RolloutStrategy(KubeModel):
    """How groups move to a new revision."""

    type: RolloutStrategyType = RolloutStrategyType.ROLLING_UPDATE
    """RollingUpdate replaces groups from the highest index to the lowest."""
    rolling_update_configuration: RollingUpdateConfiguration = Field(
        default_factory=RollingUpdateConfiguration
    )
    """Limits of the rolling update."""
    paused: Annotated[bool | None, ActsAs(False)] = None
    """If true, no group moves to another revision. Scaling and group restarts continue."""
    prewarm: Prewarm | None = None
    """Pulls new images before groups are replaced. Not for Hash groups."""


class SubGroupPolicy(KubeModel):
    """How a group is split into subgroups, for example one per accelerator island."""

    sub_group_policy_type: SubGroupPolicyType = SubGroupPolicyType.LEADER_WORKER
    """LeaderWorker: the leader belongs to the first subgroup. LeaderExcluded: only workers form subgroups."""
    sub_group_size: Int32 | None = None
    """Pods per subgroup. Must divide `size` or `size` - 1; under LeaderExcluded, `size` - 1. Immutable."""


class PersistentVolumeClaimRetentionPolicy(KubeModel):
    """What becomes of the claims made from `volumeClaimTemplates`."""

    when_deleted: str | None = None
    """Retain (default) or Delete the PVCs when the set is deleted."""
    when_scaled: str | None = None
    """Retain (default) or Delete PVCs of leaders on scale-down. PVCs of workers are kept."""


class RestartBackoff(KubeModel):
    """How long a group waits between restarts: `baseSeconds` before the first, then twice as long each time,
    up to `capSeconds`.
    """

    base_seconds: Annotated[Positive | None, ActsAs(10)] = None
    """Seconds before the first restart (default 10)."""
    cap_seconds: Annotated[Positive | None, ActsAs(300)] = None
    """Longest wait in seconds (default 300)."""
    base: str | None = None
    """The same as `baseSeconds`, as a duration such as 10s."""
    cap: str | None = None
    """The same as `capSeconds`, as a duration such as 5m."""


class LeaderWorkerTemplate(KubeModel):
    """What one group is made of. A change of anything but the policies on restarts and claims is a new
    revision.
    """

    leader_template: PodTemplate | None = None
    """Template of the leader pod (default: `workerTemplate`)."""
    worker_template: PodTemplate
    """Template of the worker pods."""
    size: Int32 = 1
    """Pods per group, leader included. At least 1."""
    restart_policy: RestartPolicy = RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    """What happens if a pod of a group is deleted or a container restarts. RecreateGroupOnPodRestart: the
    group is recreated. RecreateGroupAfterStart: the same, but not while pods of the group are missing or
    Pending. None: only the failed pod or container restarts, but a replaced leader still recreates its group.
    `Default` is the former name of `None`.
    """
    max_group_restarts: Count | None = None
    """Upstream's limit: how often failed pods may recreate a group on one revision. After that, its
    containers end, its pods stay, and the set is Degraded until you recover the group. Cannot be combined
    with `spec.maxGroupRestarts`.
    """
    restart_backoff: RestartBackoff | None = None
    """Upstream's wait, from the creation of the leader. Without it, groups wait 10 s to 10 min between
    restarts.
    """
    sub_group_policy: SubGroupPolicy | None = None
    """Splits each group into subgroups. Can be neither added nor removed later."""
    volume_claim_templates: tuple[ClaimTemplate, ...] = Field(default_factory=tuple)
    """PVCs for each pod, leaders included. Containers mount them by name. Immutable."""
    persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy | None = None
    """Whether PVCs of `volumeClaimTemplates` are kept or deleted."""


class NetworkConfig(KubeModel):
    """How the pods of a set find each other. A change is a new revision and starts a rollout."""

    subdomain_policy: SubdomainPolicy = Field(default_factory=lambda: SubdomainPolicy.SHARED)
    """The headless Service of the pods. Shared (default): one for the set. UniquePerReplica: one for each
    group.
    """


class GroupDisruptionBudget(KubeModel):
    """How much voluntary disruption, such as the drain of a node, a set tolerates."""

    max_unavailable_groups: IntOrPercent | None = None
    """Groups that may be disrupted at a time: a number (default 1), or a percentage of `replicas`, rounded
    down.
    """


class StartStrategy(KubeModel):
    """Groups of a revision start in waves, so that not all load their model from one store at once. At most
    `seedGroups` start at first. Then, up to `growthFactor` times as many groups as are ready may exist.
    """

    seed_groups: Annotated[Positive | None, ActsAs(1)] = None
    """Groups of the first wave (default 1)."""
    growth_factor: Annotated[int | None, constrained("integer", format="int32", minimum=2), ActsAs(2)] = None
    """Growth from wave to wave (default 2)."""


class LeaderWorkerSetSpec(KubeModel):
    """The desired state of a LeaderWorkerSet."""

    replicas: Annotated[int, constrained("integer", format="int32", minimum=0, maximum=1_000_000)] = 1
    """Number of groups, changed by `kubectl scale` and autoscalers."""
    leader_worker_template: LeaderWorkerTemplate
    """The pods of a group, their number, and what happens if one fails."""
    rollout_strategy: RolloutStrategy = Field(default_factory=RolloutStrategy)
    """How groups are replaced when `leaderWorkerTemplate` or `networkConfig` changes."""
    startup_policy: StartupPolicy = StartupPolicy.LEADER_CREATED
    """When workers are created. LeaderCreated: once the leader pod exists. LeaderReady: once it is ready."""
    pod_termination_policy: Annotated[
        PodTerminationPolicy | None,
        ActsAs(PodTerminationPolicy.DEFAULT),
    ] = None
    """When the workers of a deleted leader are terminated. Default: once it is gone. Parallel: together with
    it.
    """
    network_config: NetworkConfig = Field(default_factory=NetworkConfig)
    """How pods of a group reach each other by name."""
    revision_history_limit: Annotated[Count | None, ActsAs(10)] = None
    """Old revisions kept in addition to those that groups use (default 10)."""
    progress_deadline_seconds: Positive | None = None
    """Seconds without progress after which the set is reported as Stalled (default: never). It continues
    nevertheless. The clock stops while pods are gated or cannot be scheduled, and while nodes are prewarmed.
    """
    max_group_restarts: Count | None = None
    """How often failed pods may recreate a group on one revision (default: no limit). After that, the group
    stays for diagnosis, and the set is reported as Failed.
    """
    group_identity: GroupIdentity = GroupIdentity.ORDINAL
    """Ordinal: groups are numbered from 0 and belong to a StatefulSet. Hash: groups have random keys and
    belong to a Deployment, so that broken groups are the first that a scale-down deletes. Immutable.
    """
    group_replacement_policy: GroupReplacementPolicy = GroupReplacementPolicy.POST_TERMINATION
    """PostTermination: a new group is scheduled once the pods of the group that it replaces are gone.
    Immediate: at once; for Hash groups only.
    """
    start_strategy: StartStrategy | None = None
    """Limits how many groups start at a time, on creation, scale-up and rollout (default: no limit)."""
    scheduling: SetScheduling | None = None
    """Scheduling of pods as gangs through Workloads. Needs the feature gate WorkloadAwareScheduling."""
    managed_by: str | None = None
    """Controller of the set, such as `kueue.x-k8s.io/multikueue` (default: this one). This
    controller does not act on sets of another one. Immutable.
    """
    pod_disruption_budget: GroupDisruptionBudget | None = None
    """Creates a PodDisruptionBudget that counts whole groups."""
    leader_service: LeaderService | None = None
    """Creates the Service `<set>-leader`, which selects the leader pods."""


class LeaderWorkerSetStatus(KubeModel):
    """What was last observed of a set."""

    conditions: tuple[Condition, ...] = Field(default_factory=tuple, json_schema_extra=list_map("type"))
    """Available: all groups are ready on the target revision. Progressing: groups are being created or
    replaced. UpdateInProgress: a rollout is in progress. ReplicaFailure: groups cannot be created. Stalled:
    no progress for `spec.progressDeadlineSeconds`, or none is possible. Reconciling: Progressing and not
    Stalled. Failed: a group exceeded `spec.maxGroupRestarts`. Degraded: a group exceeded
    `spec.leaderWorkerTemplate.maxGroupRestarts`.
    """
    ready_replicas: Int32 = Field(default_factory=int)
    """Groups whose leader and workers are all ready, surge groups included."""
    updated_replicas: Int32 = Field(default_factory=int)
    """Groups on the target revision, ready or not, surge groups included."""
    replicas: Int32 = Field(default_factory=int)
    """Groups that exist, surge groups included."""
    hpa_pod_selector: str = Field(default_factory=str)
    """Label selector of the leader pods, for HorizontalPodAutoscalers."""
    observed_generation: Int64 = Field(default_factory=int)
    """The metadata.generation of this status."""
    current_revision: str = Field(default_factory=str)
    """ControllerRevision before the latest change; equal to `updateRevision` after the rollout."""
    update_revision: str = Field(default_factory=str)
    """ControllerRevision of the target revision."""
    collision_count: Int32 = Field(default_factory=int)
    """Number of hash collisions between templates; part of the next hash."""
    last_progress_time: datetime | None = None
    """When a group last became ready on the target revision, the rollout took a step, or the spec changed.
    `spec.progressDeadlineSeconds` counts from here, or from when waiting pods were scheduled.
    """
    groups: GroupSummary | None = None
    """State of the groups in short."""
    rollout: RolloutPosition | None = None
    """Record of the controller: position of the rollout, in case the leader StatefulSet is lost."""
    prewarm: PrewarmProgress | None = None
    """Progress of `spec.rolloutStrategy.prewarm`."""
    members: dict[str, str] = Field(default_factory=dict)
    """Record of the controller: hashes of the UIDs of each complete group, by index, to detect replaced pods.
    With RecreateGroupAfterStart, also how often containers were restarted until then.
    """
    restarts: dict[str, str] = Field(default_factory=dict)
    """Record of the controller: how often and when failed pods recreated each group, by index."""
    started: dict[str, Int32] = Field(default_factory=dict)
    """Record of the controller: how many groups of each revision have started, by revision key. With
    `spec.startStrategy` and `groupIdentity: Hash`, lost ones are replaced without waiting for a wave.
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
    group=API_GROUP,
    version=VERSION,
    kind=KIND,
    plural="leaderworkersets",
    singular="leaderworkerset",
    model=LeaderWorkerSet,
    short_names=("lws",),
    columns=(
        PrinterColumn("Ready", "integer", ".status.readyReplicas", "Groups with all their pods ready"),
        PrinterColumn("Desired", "integer", ".spec.replicas", "Desired number of groups"),
        PrinterColumn("Up-to-date", "integer", ".status.updatedReplicas", "Groups on the target revision"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the set was created"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
)
