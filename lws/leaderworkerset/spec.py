"""Read the spec of a LeaderWorkerSet from the plain object, with the defaults of the API.

Any client may have stored the set: fields may be absent or have meaningless values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, get_type_hints

from lws.kube.metadata import annotations_of, is_mapping
from lws.kube.pods import ContainerEnd
from lws.kube.quantities import INT32, scaled
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field, value_at
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
"""Annotations of a set that change its pods: revisions record them, and pod templates contain them."""

_OF_SUBGROUPS = (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
EXCLUSIVE_ANNOTATIONS = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


# 2^30 s is longer than any cap.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """`restartBackoff` in seconds."""

    base: float
    cap: float

    @classmethod
    def of(cls, backoff: Mapping[str, Any]) -> RestartBackoff:
        """Read the backoff in either notation. Unreadable values count as absent."""
        return cls(
            _seconds(backoff, fields.RESTART_BACKOFF_BASE_SECONDS, "base"),
            _seconds(backoff, fields.RESTART_BACKOFF_CAP_SECONDS, "cap"),
        )

    def delay(self, restarts: int) -> timedelta:
        """Return the minimum age of a leader before its group is recreated after this many restarts."""
        doublings = min(max(0, restarts), _MOST_DOUBLINGS)
        return timedelta(seconds=min(self.cap, self.base * 2**doublings))


@dataclass(frozen=True, slots=True)
class StartWaves:
    """`startStrategy` as numbers. seed: number of groups in the first wave. growth: a factor. In later waves,
    at most `growth` times the number of ready groups may exist.
    """

    seed: int
    growth: int

    @classmethod
    def of(cls, strategy: Mapping[str, Any]) -> StartWaves:
        return cls(
            fields.SEED_GROUPS.effective_in_part(strategy), fields.GROWTH_FACTOR.effective_in_part(strategy)
        )

    def most(self, ready: int) -> int:
        """Return how many groups of a revision may exist if this many of them are ready."""
        return max(self.seed, self.growth * ready)


@dataclass(frozen=True, slots=True)
class Prewarm:
    """`rolloutStrategy.prewarm`. deadline: in seconds. parallelism: nodes at a time. command: command to run
    on each node; empty for none.
    """

    deadline: int
    parallelism: int
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, prewarm: Mapping[str, Any]) -> Prewarm:
        command = prewarm.get(fields.PREWARM_COMMAND.name)
        return cls(
            fields.PREWARM_DEADLINE_SECONDS.effective_in_part(prewarm),
            fields.PREWARM_PARALLELISM.effective_in_part(prewarm),
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

    An attribute that is annotated with a field has the value of that field, with defaults, or what is derived
    from it. lws: the set itself, for its metadata and status. restart_policy: `Default`, the former name of
    `None`, is read as `None`. waits_for_start: whether no group is recreated before its pods have left
    Pending. restart_budget: upstream's limit; None if it is not set or if `max_group_restarts` is set.
    restart_backoff: upstream's delay; None for ours. exempt_containers, exempts_sidecars: containers whose
    restarts do not count (KEP-753). leader_template: the worker template if the set has no leader template.
    placement: as from `placement_annotations`.
    """

    lws: Object = field(compare=False, repr=False)
    replicas: Annotated[int, fields.REPLICAS]
    size: Annotated[int, fields.SIZE]
    partition: Annotated[int, fields.PARTITION]
    max_unavailable: Annotated[int | str, fields.MAX_UNAVAILABLE]
    max_surge: Annotated[int | str, fields.MAX_SURGE]
    paused: Annotated[bool, fields.PAUSED]
    restart_policy: Annotated[RestartPolicy, fields.RESTART_POLICY]
    waits_for_start: bool
    max_group_restarts: Annotated[int | None, fields.MAX_GROUP_RESTARTS]
    restart_budget: Annotated[int | None, fields.LEADER_WORKER_TEMPLATE_MAX_GROUP_RESTARTS]
    restart_backoff: Annotated[RestartBackoff | None, fields.RESTART_BACKOFF, RestartBackoff.of]
    exempt_containers: frozenset[str]
    exempts_sidecars: bool
    startup_policy: Annotated[StartupPolicy, fields.STARTUP_POLICY]
    start_strategy: Annotated[StartWaves | None, fields.START_STRATEGY, StartWaves.of]
    prewarm: Annotated[Prewarm | None, fields.PREWARM, Prewarm.of]
    subdomain_policy: Annotated[SubdomainPolicy, fields.SUBDOMAIN_POLICY]
    history_limit: Annotated[int, fields.REVISION_HISTORY_LIMIT]
    progress_deadline: Annotated[int | None, fields.PROGRESS_DEADLINE_SECONDS]
    leader_template: Annotated[Mapping[str, Any], fields.LEADER_TEMPLATE]
    worker_template: Annotated[Mapping[str, Any], fields.WORKER_TEMPLATE]
    placement: Mapping[str, str]
    subgroup: Annotated[Mapping[str, Any] | None, fields.SUB_GROUP_POLICY]
    max_unavailable_groups: Annotated[int | str | None, fields.MAX_UNAVAILABLE_GROUPS]
    leader_service: Annotated[Mapping[str, Any] | None, fields.LEADER_SERVICE]

    @classmethod
    def of(cls, lws: Object) -> SetSpec:
        """Read the spec of a set, or of a set into which a revision was restored."""
        # Not read through a model: pydantic takes 21 µs instead of 12, and rejects values that another CRD
        # admitted.
        values = dict(_DEFAULTS)
        for path, attributes in _BY_PART.items():
            if is_mapping(part := value_at(lws, path)):
                for name, key, read in attributes:
                    if (value := part.get(key)) is not None:
                        values[name] = read(value)
        values["worker_template"] = workers = values["worker_template"] or {}
        if values["leader_template"] is None:
            values["leader_template"] = workers
        if (policy := values["restart_policy"]) == RestartPolicy.DEFAULT:
            values["restart_policy"] = RestartPolicy.NONE
        if values["max_group_restarts"] is not None:
            values["restart_budget"] = None
        annotations = annotations_of(lws)
        waits = RECREATE_GROUP_AFTER_START_ANNOTATION in annotations
        exempt = annotations.get(RESTART_EXEMPT_CONTAINERS_ANNOTATION)
        sidecars = str(annotations.get(RESTART_EXEMPT_SIDECARS_ANNOTATION) or "")
        return cls(
            lws=lws,
            waits_for_start=waits or policy == RestartPolicy.RECREATE_GROUP_AFTER_START,
            exempt_containers=_names(exempt) if exempt else frozenset(),
            exempts_sidecars=sidecars.strip().lower() == "true",
            placement=_placement(annotations, has_subgroups=values["subgroup"] is not None),
            **values,
        )

    def counts(self, end: ContainerEnd) -> bool:
        """Whether restarts of this container are failures of its group."""
        return end.container not in self.exempt_containers and not (self.exempts_sidecars and end.is_sidecar)

    @property
    def counts_restarts(self) -> bool:
        """Whether restarts are counted as upstream counts them, in the annotation of the set."""
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
        """Index below which groups keep their revision."""
        return max(0, self.partition)

    @property
    def subgroup_annotations(self) -> dict[str, str]:
        """Annotations that give a pod its subgroup size and policy (KEP-115, KEP-257)."""
        policy = self.subgroup or {}
        annotations = {
            SUBGROUP_POLICY_TYPE_ANNOTATION: policy.get(fields.SUB_GROUP_POLICY_TYPE.name),
            SUBGROUP_SIZE_ANNOTATION: policy.get(fields.SUB_GROUP_SIZE.name),
        }
        return {key: str(value) for key, value in annotations.items() if value is not None}


def _attributes() -> Iterator[tuple[str, Field, Callable[[Any], Any]]]:
    """Yield the attributes that come from a field: name, field, and the conversion of a stored value."""
    for name, hint in get_type_hints(SetSpec, include_extras=True).items():
        if notes := getattr(hint, "__metadata__", ()):
            source, *convert = notes
            yield name, source, partial(_converted, *convert) if convert else source.or_default


def _converted(of: Callable[[Any], Any], value: Any) -> Any:
    """Convert the object in a field; None if it is not an object."""
    return of(value) if is_mapping(value) else None


_DEFAULTS = {name: source.default for name, source, _ in _attributes()}
_BY_PART: dict[tuple[str, ...], list[tuple[str, str, Callable[[Any], Any]]]] = defaultdict(list)
for _name, _source, _read in _attributes():
    _BY_PART[_source.path[:-1]].append((_name, _source.name, _read))


def has_hash_groups(lws: Object) -> bool:
    """Return whether groups have keys, not indices, and a Deployment makes leaders (groupIdentity Hash)."""
    return bool(fields.GROUP_IDENTITY.stored_in(lws) == GroupIdentity.HASH)


def other_manager(lws: Object) -> str:
    """Return the other controller that runs a set (`spec.managedBy`); empty if this one does."""
    name = fields.MANAGED_BY.stored_in(lws)
    return name if isinstance(name, str) and name != CONTROLLER_NAME else ""


def ends_in_parallel(lws: Object) -> bool:
    """Return whether workers are terminated together with their leader (podTerminationPolicy Parallel)."""
    return bool(fields.POD_TERMINATION_POLICY.effective_in(lws) == PodTerminationPolicy.PARALLEL)


def node_return_of(lws: Object) -> NodeReturn | None:
    """Return how recreated pods return to the nodes of their former pods; None if they do not."""
    value = annotations_of(lws).get(NODE_RETURN_ANNOTATION)
    return NodeReturn(value) if value in tuple(NodeReturn) else None


def effective_node_return(lws: Object) -> NodeReturn | None:
    """Return `node_return_of` the set, or None if it has no effect. Exclusive topologies take precedence, and
    Hash groups have no stable names to return by.
    """
    placed = placement_annotations(lws)
    is_exclusive = any(key in placed for key in EXCLUSIVE_ANNOTATIONS)
    return None if is_exclusive or has_hash_groups(lws) else node_return_of(lws)


def return_to(lws: Object, node: str) -> NodeReturn | None:
    """Return how recreated pods return to this node; None if they do not, or if the node is excepted."""
    how = node_return_of(lws)
    return how if how is not None and node not in nodes_of_no_return(lws) else None


def nodes_of_no_return(lws: Object) -> tuple[str, ...]:
    """Return the names of nodes to which no pod returns."""
    names = str(annotations_of(lws).get(NODE_RETURN_EXCEPT_ANNOTATION) or "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def completed_backoff(backoff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `restartBackoff` with its defaults, or without them if it is written as durations."""
    configured = {name: value for name, value in backoff.items() if value is not None}
    if "base" in configured or "cap" in configured:
        return configured
    both = (fields.RESTART_BACKOFF_BASE_SECONDS, fields.RESTART_BACKOFF_CAP_SECONDS)
    return {field.name: field.default for field in both} | configured


def leaders_kind(lws: Object) -> str:
    """Return the kind of the object that creates the leader pods and has the name of the set."""
    return "Deployment" if has_hash_groups(lws) else "StatefulSet"


def recorded_size(recorded: Object) -> int:
    """Return the pods per group in a recorded spec."""
    return int(fields.SIZE.effective_in({"spec": recorded}))


def subdomain_policy_of(lws: Object) -> SubdomainPolicy:
    """Return whether there is one Service for all groups, or one per group."""
    policy: SubdomainPolicy = fields.SUBDOMAIN_POLICY.effective_in(lws)
    return policy


def placement_annotations(lws: Object) -> dict[str, str]:
    """Return annotations that determine where groups run, as pod templates contain them (KEP-115).
    Annotations without effect are left out, so that an edit of them starts no rollout.
    """
    return _placement(annotations_of(lws), has_subgroups=fields.SUB_GROUP_POLICY.stored_in(lws) is not None)


def placement_given(pod: Object, template: Object, requested: Mapping[str, str]) -> dict[str, str]:
    """Return annotations about placement that a pod (or a template in use) has from its set.
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
    """Return the node label whose value is the same for all pods of a group; empty if there is none.
    placement: as from `placement_annotations`, or annotations of a template that contains them.
    """
    return placement.get(EXCLUSIVE_TOPOLOGY_ANNOTATION) or placement.get(SHARED_TOPOLOGY_ANNOTATION) or ""


def _names(listed: object) -> frozenset[str]:
    return frozenset(map(str.strip, str(listed).split(","))) - {""}


def _placement(annotations: Mapping[str, str], has_subgroups: bool) -> dict[str, str]:
    if not annotations:
        return {}
    placement = {
        key: annotations[key]
        for key in PLACEMENT_ANNOTATIONS
        if annotations.get(key) and (has_subgroups or key not in _OF_SUBGROUPS)
    }
    scope = placement.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope == ExclusiveTopologyScope.NAMESPACE or placement.keys().isdisjoint(EXCLUSIVE_ANNOTATIONS):
        placement.pop(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, None)
    return placement


def _groups(amount: int | str, replicas: int, round_up: bool) -> int | None:
    try:
        return scaled(amount, replicas, round_up)
    except ValueError:
        return None
