"""What a LeaderWorkerSet asks for: its fields with the defaults of the API, read from the plain object.

In: a LeaderWorkerSet as anyone stored it: fields may be absent, or hold meaningless values. Out: plain
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lws.kube.metadata import annotations_of, is_mapping
from lws.kube.quantities import INT32, scaled
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.runtime.actions import Object
from lws_api.config import duration
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
    ExclusiveTopologyScope,
    NodeReturn,
)
from lws_api.leaderworkerset.v1 import (
    CONTROLLER_NAME,
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    RECREATE_GROUP_AFTER_START_ANNOTATION,
    RESTART_EXEMPT_CONTAINERS_ANNOTATION,
    RESTART_EXEMPT_SIDECARS_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    PodTerminationPolicy,
    RestartPolicy,
    StartupPolicy,
    SubdomainPolicy,
)

PLACEMENT_ANNOTATIONS = (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
)
"""Annotations of a set that change its pods: revisions record them, and pod templates carry them."""

_OF_SUBGROUPS = (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
_EXCLUSIVE = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


# 2^30 s are longer than any cap.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """`restartBackoff`, in seconds."""

    base: float
    cap: float

    @classmethod
    def of(cls, backoff: Mapping[str, Any]) -> RestartBackoff:
        """Read in either spelling; what cannot be read counts as left out."""
        return cls(
            _seconds(backoff, fields.BACKOFF_BASE, "base"), _seconds(backoff, fields.BACKOFF_CAP, "cap")
        )

    def delay(self, restarts: int) -> timedelta:
        """How long a leader is left alone after so many restarts of its group."""
        doublings = min(max(0, restarts), _MOST_DOUBLINGS)
        return timedelta(seconds=min(self.cap, self.base * 2**doublings))


@dataclass(frozen=True, slots=True)
class StartWaves:
    """`startStrategy`: groups of the first wave, and how many times the ready groups may exist then."""

    seed: int
    growth: int

    def most(self, ready: int) -> int:
        """How many groups of a revision may exist, of which so many are ready."""
        return max(self.seed, self.growth * ready)


@dataclass(frozen=True, slots=True)
class Prewarm:
    """`rolloutStrategy.prewarm`. deadline: in seconds. parallelism: nodes at a time. command: empty if there
    is nothing to run.
    """

    deadline: int
    parallelism: int
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, prewarm: Mapping[str, Any]) -> Prewarm:
        command = prewarm.get(fields.PREWARM_COMMAND.name)
        return cls(
            _integer(prewarm, fields.PREWARM_DEADLINE),
            _integer(prewarm, fields.PREWARM_PARALLELISM),
            tuple(map(str, command)) if isinstance(command, list | tuple) else (),
        )


def _seconds(backoff: Mapping[str, Any], field: Field, as_duration: str) -> float:
    seconds, text = backoff.get(field.name), backoff.get(as_duration)
    if type(seconds) is not int or seconds <= 0:
        try:
            seconds = duration.parse(text).total_seconds() if isinstance(text, str) else 0
        except ValueError:
            seconds = 0
    return float(min(seconds if seconds > 0 else field.default, INT32))


@dataclass(frozen=True, slots=True)
class SetSpec:
    """The spec of a set, and the annotations that belong to it.

    lws: the set itself, for its metadata and status.
    replicas: groups that the set asks for. size: pods per group, the leader included.
    partition, max_unavailable, max_surge: as written. max_unavailable_groups: groups that may be disrupted at
    a time, as written; None if it is not set, with or without a disruption budget.
    restart_policy: `Default`, the former name of `None`, is read as `None`. waits_for_start: no group is
    recreated before its pods have left Pending. max_group_restarts: on one revision, None for no limit.
    restart_budget: upstream's limit, None if it is not set or `max_group_restarts` is. restart_backoff:
    upstream's wait, None for ours.
    exempt_containers, exempts_sidecars: whose restarts do not count (KEP-753).
    start_strategy: waves in which groups start, None for all at once.
    prewarm: what is done on nodes before a rollout, None for nothing.
    history_limit: revisions to keep beside the live ones. progress_deadline: seconds without progress after
    which the set counts as stalled, None if it never does.
    leader_template: the worker template if the set has none of its own.
    placement: as from `placement_annotations`.
    subgroup: the `subGroupPolicy`. leader_service: the Service of leaders. None if not requested.
    """

    lws: Object = field(compare=False, repr=False)
    replicas: int
    size: int
    partition: int
    max_unavailable: int | str
    max_surge: int | str
    paused: bool
    strategy_type: str
    restart_policy: RestartPolicy
    waits_for_start: bool
    max_group_restarts: int | None
    restart_budget: int | None
    restart_backoff: RestartBackoff | None
    exempt_containers: frozenset[str]
    exempts_sidecars: bool
    startup_policy: StartupPolicy
    start_strategy: StartWaves | None
    prewarm: Prewarm | None
    subdomain_policy: SubdomainPolicy
    history_limit: int
    progress_deadline: int | None
    leader_template: Mapping[str, Any]
    worker_template: Mapping[str, Any]
    placement: Mapping[str, str]
    subgroup: Mapping[str, Any] | None
    has_disruption_budget: bool
    max_unavailable_groups: int | str | None
    leader_service: Mapping[str, Any] | None

    @classmethod
    def of(cls, lws: Object) -> SetSpec:
        """The spec of a set, or of one that a revision was restored into."""
        spec, annotations = _part(lws, fields.SPEC), annotations_of(lws)
        template, strategy = _part(spec, fields.TEMPLATE), _part(spec, fields.STRATEGY)
        workers, leaders = _part(template, fields.WORKER_TEMPLATE), template.get(fields.LEADER_TEMPLATE.name)
        rolling, budget = _part(strategy, fields.ROLLING_UPDATE), spec.get(fields.DISRUPTION_BUDGET.name)
        policy, subgroup = _choice(template, fields.RESTART_POLICY), template.get(fields.SUBGROUP.name)
        limit, backoff = _integer(spec, fields.MAX_GROUP_RESTARTS), template.get(fields.RESTART_BACKOFF.name)
        exempt = annotations.get(RESTART_EXEMPT_CONTAINERS_ANNOTATION)
        sidecars = str(annotations.get(RESTART_EXEMPT_SIDECARS_ANNOTATION) or "")
        starts, prewarm = spec.get(fields.START_STRATEGY.name), strategy.get(fields.PREWARM.name)
        waits = RECREATE_GROUP_AFTER_START_ANNOTATION in annotations
        return cls(
            lws=lws,
            replicas=_integer(spec, fields.REPLICAS),
            size=_integer(template, fields.SIZE),
            partition=_integer(rolling, fields.PARTITION),
            max_unavailable=_amount(rolling, fields.MAX_UNAVAILABLE),
            max_surge=_amount(rolling, fields.MAX_SURGE),
            paused=bool(strategy.get(fields.PAUSED.name)),
            strategy_type=strategy.get(fields.STRATEGY_TYPE.name) or fields.STRATEGY_TYPE.stored_default,
            restart_policy=RestartPolicy.NONE if policy == RestartPolicy.DEFAULT else policy,
            waits_for_start=waits or policy == RestartPolicy.RECREATE_GROUP_AFTER_START,
            max_group_restarts=limit,
            restart_budget=_integer(template, fields.RESTART_BUDGET) if limit is None else None,
            restart_backoff=RestartBackoff.of(backoff) if is_mapping(backoff) else None,
            exempt_containers=_names(exempt) if exempt else frozenset(),
            exempts_sidecars=sidecars.strip().lower() == "true",
            startup_policy=_choice(spec, fields.STARTUP_POLICY),
            start_strategy=StartWaves(
                _integer(starts, fields.SEED_GROUPS), _integer(starts, fields.GROWTH_FACTOR)
            )
            if is_mapping(starts)
            else None,
            prewarm=Prewarm.of(prewarm) if is_mapping(prewarm) else None,
            subdomain_policy=_choice(_part(spec, fields.NETWORK), fields.SUBDOMAIN_POLICY),
            history_limit=_integer(spec, fields.HISTORY_LIMIT),
            progress_deadline=_integer(spec, fields.PROGRESS_DEADLINE),
            leader_template=leaders if leaders is not None else workers,
            worker_template=workers,
            placement=_placement(annotations, has_subgroups=subgroup is not None),
            subgroup=subgroup if is_mapping(subgroup) else None,
            has_disruption_budget=budget is not None,
            max_unavailable_groups=_amount(
                budget if is_mapping(budget) else {}, fields.MAX_UNAVAILABLE_GROUPS
            ),
            leader_service=spec.get(fields.LEADER_SERVICE.name),
        )

    @property
    def counts_restarts(self) -> bool:
        """Restarts are counted as upstream counts them, in the annotation of the set."""
        return self.restart_budget is not None or self.restart_backoff is not None

    @property
    def unavailable_groups(self) -> int | None:
        """maxUnavailable in groups, percentages of the replicas rounded down; None if it is unreadable."""
        return _groups(self.max_unavailable, self.replicas, round_up=False)

    @property
    def surge_groups(self) -> int | None:
        """maxSurge in groups, percentages rounded up, at most the replicas; None if it is unreadable."""
        groups = _groups(self.max_surge, self.replicas, round_up=True)
        return None if groups is None else min(groups, self.replicas)

    @property
    def floor(self) -> int:
        """Groups below this index keep their revision."""
        return max(0, self.partition)

    @property
    def subgroup_annotations(self) -> dict[str, str]:
        """Annotations that tell a pod its subgroup size and policy (KEP-115, KEP-257)."""
        policy = self.subgroup or {}
        told = {
            SUBGROUP_POLICY_TYPE_ANNOTATION: policy.get(fields.SUBGROUP_TYPE.name),
            SUBGROUP_SIZE_ANNOTATION: policy.get(fields.SUBGROUP_SIZE.name),
        }
        return {key: str(value) for key, value in told.items() if value is not None}


def has_hash_groups(lws: Object) -> bool:
    """Groups have keys in place of indices: their leaders are pods of a Deployment (groupIdentity Hash)."""
    return bool(fields.GROUP_IDENTITY.of(lws) == GroupIdentity.HASH)


def other_manager(lws: Object) -> str:
    """The controller that runs a set in place of this one (`spec.managedBy`); empty if this one does."""
    name = fields.MANAGED_BY.of(lws)
    return name if isinstance(name, str) and name != CONTROLLER_NAME else ""


def ends_in_parallel(lws: Object) -> bool:
    """The workers of a deleted leader are terminated with it (podTerminationPolicy Parallel)."""
    return bool(fields.POD_TERMINATION.of(lws) == PodTerminationPolicy.PARALLEL)


def node_return_of(lws: Object) -> NodeReturn | None:
    """How recreated pods return to the nodes of the former pods of their names; None if they do not."""
    value = annotations_of(lws).get(NODE_RETURN_ANNOTATION)
    return NodeReturn(value) if value in tuple(NodeReturn) else None


def nodes_of_no_return(lws: Object) -> tuple[str, ...]:
    """Names of nodes to which no pod returns."""
    names = str(annotations_of(lws).get(NODE_RETURN_EXCEPT_ANNOTATION) or "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def completed_backoff(backoff: Mapping[str, Any]) -> dict[str, Any]:
    """A `restartBackoff` with its defaults, which never stand beside the spelling as durations."""
    given = {name: value for name, value in backoff.items() if value is not None}
    if "base" in given or "cap" in given:
        return given
    return {**{field.name: field.default for field in (fields.BACKOFF_BASE, fields.BACKOFF_CAP)}, **given}


def leaders_kind(lws: Object) -> str:
    """Kind of the object that makes the leader pods; it has the name of the set."""
    return "Deployment" if has_hash_groups(lws) else "StatefulSet"


def recorded_size(recorded: Object) -> int:
    """Pods per group in a recorded spec."""
    return int(_integer(_part(recorded, fields.TEMPLATE), fields.SIZE))


def subdomain_policy_of(lws: Object) -> SubdomainPolicy:
    """One Service for all groups, or one per group."""
    policy: SubdomainPolicy = _choice(_part(lws["spec"], fields.NETWORK), fields.SUBDOMAIN_POLICY)
    return policy


def placement_annotations(lws: Object) -> dict[str, str]:
    """Annotations that say where groups run, as pod templates carry them (KEP-115); those without effect are
    left out, so that an edit of them is no rollout.
    """
    return _placement(annotations_of(lws), has_subgroups=fields.SUBGROUP.of(lws) is not None)


def placement_given(pod: Object, template: Object, requested: Mapping[str, str]) -> dict[str, str]:
    """Annotations about where groups run that a pod (or a template in use) has from its set.

    template: the template that the user wrote for the pod. Annotations of this template take effect for the
    pod and belong to the template, unless the set requests the same. requested: as from
    `placement_annotations`.
    """
    existing, own = annotations_of(pod), annotations_of(template)
    return {
        key: existing[key]
        for key in PLACEMENT_ANNOTATIONS
        if existing.get(key) and (own.get(key) != existing[key] or requested.get(key) == existing[key])
    }


def group_topology(placement: Mapping[str, str]) -> str:
    """The node label whose value is the same for all pods of a group; empty if there is none.

    placement: as from `placement_annotations`, or of a template that carries them.
    """
    return placement.get(EXCLUSIVE_TOPOLOGY_ANNOTATION) or placement.get(SHARED_TOPOLOGY_ANNOTATION) or ""


def _names(listed: object) -> frozenset[str]:
    return frozenset(map(str.strip, str(listed).split(","))) - {""}


def _placement(annotations: Mapping[str, str], has_subgroups: bool) -> dict[str, str]:
    if not annotations:
        return {}
    found = {
        key: annotations[key]
        for key in PLACEMENT_ANNOTATIONS
        if annotations.get(key) and (has_subgroups or key not in _OF_SUBGROUPS)
    }
    scope = found.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope == ExclusiveTopologyScope.NAMESPACE or not any(key in found for key in _EXCLUSIVE):
        found.pop(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, None)
    return found


# Exact types first, because that check is the fastest: this runs in every pass over every group.
def _part(whole: Mapping[str, Any], field: Field) -> Mapping[str, Any]:
    value = whole.get(field.name)
    return value if type(value) is dict or is_mapping(value) else {}


def _integer(part: Mapping[str, Any], field: Field) -> Any:
    value = part.get(field.name)
    return value if type(value) is int else field.default


def _amount(part: Mapping[str, Any], field: Field) -> Any:
    value = part.get(field.name)
    return value if type(value) in (int, str) else field.default


def _choice(part: Mapping[str, Any], field: Field) -> Any:
    """The member of the enum that the default of the field belongs to; unknown values count as left out."""
    value = part.get(field.name)
    if not value or value == field.default:
        return field.default
    try:
        return type(field.default)(value)
    except ValueError:
        return field.default


def _groups(amount: int | str, replicas: int, round_up: bool) -> int | None:
    try:
        return scaled(amount, replicas, round_up)
    except ValueError:
        return None
