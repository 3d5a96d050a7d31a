"""Registration of LeaderWorkerSet: its passes over sets and groups, routes and background tasks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from lws.config import Settings
from lws.kube.field_errors import FieldError, Refused
from lws.kube.metadata import controller_of, copied, is_terminating, labels_of, metadata_of
from lws.leaderworkerset.admission import defaulting, pod
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.group.exhaustion import Abandoned
from lws.leaderworkerset.group.gangs import GangProvider, Marks, workload_marks
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.observe.former_node import former_node, node_for_review
from lws.leaderworkerset.observe.gangs import Gangs, gang_of, scheduler_of
from lws.leaderworkerset.observe.membership import has_former_workers
from lws.leaderworkerset.observe.observer import Environment, Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.observe.webhook_coverage import WebhookCoverage
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.pod_identity import group_id, group_size_of, is_leader, is_marked_hash
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.routing import Routing
from lws.leaderworkerset.scheduling import Scheduler
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status import status
from lws.leaderworkerset.status.problems import STALLED
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS
from lws.leaderworkerset.status.summary import STATES
from lws.leaderworkerset.tables import LEADER_WORKER_SET, TABLES
from lws.runtime.actions import Key, Object
from lws.runtime.apply import WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, PODS, Resource
from lws.runtime.endpoints.metrics import standings_of_rollouts
from lws.runtime.endpoints.pass_log import Fields
from lws.runtime.endpoints.workloads import LAST_START, WorkloadSeries, series_of_rollouts
from lws.runtime.loop import Kind, Term
from lws.runtime.refusals import Faults
from lws.runtime.registration import Controller, Parts, Registration, applier_of
from lws.runtime.store import Store
from lws.runtime.throttle import ActiveSets
from lws.runtime.webhooks.handlers import Handler, change_object, refuse, siblings_of, validator
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, REVISION_LABEL

# --- Admission webhooks of LeaderWorkerSet and their handlers. Decisions are in
# `lws.leaderworkerset.admission`; the ids are the paths that webhook configurations have always called.


MUTATE_SET = "mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
VALIDATE_SET = "validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_POD = "mutate--v1-pod"
VALIDATE_POD = "validate--v1-pod"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType(
    {
        MUTATE_SET: LEADERWORKERSETS,
        VALIDATE_SET: LEADERWORKERSETS,
        MUTATE_POD: PODS,
        VALIDATE_POD: PODS,
    }
)
"""Handler id (the URL path without its slash) → reviewed resource."""


def handlers(settings: Settings, store: Store, cluster: Cluster) -> Mapping[str, Handler]:
    """Return the handlers of all `ENDPOINTS`, which read from the store."""
    gang = gang_of(settings)
    scheduler = partial(scheduler_of, settings, store)

    def errors(new: Object, old: Object | None, others: Iterable[Object]) -> list[FieldError]:
        return leaderworkerset.errors_in(new, old, others, scheduler())

    warnings = partial(leaderworkerset.warnings_in, gang=gang)
    return {
        MUTATE_SET: _default_set,
        VALIDATE_SET: validator(warnings, errors, siblings_of(store, KIND)),
        MUTATE_POD: _pod_admitter(gang, scheduler, store, cluster),
        VALIDATE_POD: _allow_pod,
    }


async def _default_set(**_: Any) -> None:
    change_object(_defaulted)


def _defaulted(raw: Object) -> Object:
    lws = copied(raw)
    defaulting.default(lws)
    return lws


@dataclass(frozen=True, slots=True)
class LeaderGates:
    """Decide whether new leaders get the gate of group replacement, by the sets and pods in the store.
    scheduler: returns the scheduler for `spec.scheduling`. fault_of: returns why the spec of a set cannot be
    read; empty if it can.
    """

    store: Store
    scheduler: Callable[[], Scheduler]
    fault_of: Callable[[Object], str]

    def may_have_former_group(self, raw: Object, namespace: str) -> bool:
        """Return whether workers of a former leader of this name may still run.

        The new leader must not join them. True if the store is not current: only a stream that has shown the
        deletion of the former leader has shown all of its workers.
        """
        name, set_name = str(metadata_of(raw).get("name") or ""), labels_of(raw).get(NAME_LABEL, "")
        owner = controller_of(raw) or {}
        if not is_leader(raw) or (owner.get("kind"), owner.get("name")) != ("StatefulSet", set_name):
            return False
        is_current = self.store.is_current()
        if is_current and not _has_pods_of_former_group(self.store, namespace, name):
            return False
        lws = self.store.get(KIND, namespace, set_name)
        # Without a set, no pass would remove the gate.
        return not is_current if lws is None else self._is_run(lws)

    def gates_hash_leader(self, raw: Object, namespace: str) -> bool:
        """Return whether a leader of a Hash group is gated. It is not gated if no pass would remove the gate,
        because its set is left alone or was deleted without its Deployment. A set that is not known may be
        new.
        """
        set_name = labels_of(raw).get(NAME_LABEL, "")
        lws = self.store.get(KIND, namespace, set_name)
        if lws is not None:
            return self._is_run(lws)
        deployment = self.store.get("Deployment", namespace, set_name)
        return deployment is None or controller_of(deployment) is not None

    def _is_run(self, lws: Object) -> bool:
        return why_left_alone(lws, True, self.scheduler(), self.fault_of(lws)) is None


def _has_pods_of_former_group(store: Store, namespace: str, leader: str) -> bool:
    """Return whether the store has workers of the former leader, or that leader in a group of size > 1."""
    former = store.get("Pod", namespace, leader)
    if former is not None and group_size_of(former) != 1:
        return True
    return has_former_workers(store, namespace, leader)


def _pod_admitter(
    gang: GangProvider | None, scheduler: Callable[[], Scheduler], store: Store, cluster: Cluster
) -> Handler:
    gates = LeaderGates(store, scheduler, Faults(spec_fault).fault_of)
    read_node = partial(node_for_review, cluster)

    async def admit_pod(*, new: Object | None, namespace: str | None, **_: Any) -> None:
        # Rules are deterministic, so the randomness comes from here.
        of_gang = partial(marks_of, gang, unique=secrets.token_hex(4)) if gang is not None else None
        unique, pod_namespace = secrets.token_hex(8), namespace or ""
        former = await former_node(store, read_node, new or {}, pod_namespace)

        def admitted(raw: Object) -> Object:
            is_hash_leader = is_marked_hash(raw) and is_leader(raw)
            is_run = not is_hash_leader or gates.gates_hash_leader(raw, pod_namespace)
            copy, has_former = pod.copy_to_admit(raw), gates.may_have_former_group(raw, pod_namespace)
            try:
                pod.admit(copy, pod_namespace, of_gang, unique, former, has_former, is_run)
            except Refused as refused:
                refuse(str(refused), refused)
            return copy

        change_object(admitted)

    return admit_pod


def marks_of(
    gang: GangProvider, labels: Mapping[str, str], annotations: Mapping[str, str], size: int, unique: str
) -> Marks:
    """Return the fields by which a new pod names its gang. unique: letters and digits that no other pod
    gets.
    """
    if gang.needs_field:
        return workload_marks(labels, annotations, unique) or Marks()
    return gang.marks(labels, size, unique)


async def _allow_pod(**_: Any) -> None:
    """Admit every pod update. Webhook configurations of earlier releases send them here."""


# --- Metrics of LeaderWorkerSets.


def _series(
    word: str, name: str, documentation: str, label: str = "", values: tuple[str, ...] = ()
) -> WorkloadSeries:
    return WorkloadSeries(KIND, word, f"lws_leaderworkerset_{name}", documentation, label, values)


SERIES = (
    _series(status.DESIRED, "groups_desired", "Desired groups."),
    _series(status.READY_GROUPS, "groups_ready", "Ready groups, surge included."),
    _series(status.UPDATED, "groups_updated", "Groups on the target revision, ready or not."),
    _series(status.BY_STATE, "groups", "Groups by state, as in status.groups.counts.", "state", STATES),
    _series(status.FAILED, "groups_failed", "Groups that exceeded maxGroupRestarts: kept or ended."),
    _series(status.DELAYED, "groups_restart_delayed", "Failed groups that wait for their back-off."),
    *series_of_rollouts(KIND, status.STUCK),
    _series(
        LAST_START,
        "last_group_start_duration_seconds",
        "Start duration of the group that became ready last, in seconds.",
    ),
    _series(
        status.RECREATED,
        "group_recreations_total",
        "Groups that were recreated by the manager or a rollout, by reason.",
        "reason",
        status.RECREATION_REASONS,
    ),
    _series(
        status.DELAYED, "group_restarts_delayed_total", "Failed groups that had to wait for their back-off."
    ),
    _series(
        status.SPURIOUS,
        "spurious_replacements_total",
        "Groups that a rollout replaced with an equal revision; 0 unless something is wrong.",
    ),
)


def _build(parts: Parts) -> Controller:
    settings, store = parts.settings, parts.store
    provider = settings.gang_provider
    scheduler = scheduler_of(settings, store)
    has_workloads = scheduler.has_workloads
    gangs = (
        Gangs(provider, parts.source, store, parts.resync, has_workloads) if provider is not None else None
    )
    coverage = WebhookCoverage(parts.source.cluster, parts.resync)
    environment = Environment(
        policies=settings.policies,
        covers=coverage.covers,
        gang=gangs.served if gangs is not None else lambda: None,
        start=parts.start,
        wake=lambda namespace, name: parts.add(Key("set", namespace, name)),
        scheduler=scheduler,
        workloads=gangs.workloads if gangs is not None and has_workloads else None,
    )
    controller = Controller(
        begin=partial(_begin, parts, environment, ActiveSets()),
        keys=Routing(store).keys,
        tasks={"webhook coverage": coverage.run},
        known=coverage.known.wait,
    )
    if gangs is None:
        return controller
    return replace(
        controller,
        tasks={**controller.tasks, "gangs": gangs.run},
        refresh=gangs.refresh,
        checks={"podgroups": gangs.fault},
    )


def _begin(parts: Parts, environment: Environment, active: ActiveSets, cluster: Cluster) -> Term:
    writes = SetWrites(parts.store, parts.source.clock, active)
    observer = Observer(cluster, parts.store, writes, environment)
    hooks = WriteHooks(
        writes.put,
        writes.record_apply,
        deleting=writes.deleting,
        deleted=lambda target, answer: writes.drop(answer),
        created=writes.record_create,
    )
    applier = applier_of(parts, writes, cluster, "set", hooks)
    return Term(
        {
            "set": Kind(
                observer.observe_set,
                plan_set,
                applier.apply,
                "leaderworkerset",
                writes.due,
                of_set,
                is_linear=True,
                owner=_set_of,
            ),
            "group": Kind(
                observer.observe_group, plan_group, applier.apply, "pod", fields=of_group, owner=_set_of
            ),
        },
        Routing(parts.store, writes.statuses.is_as_written).routes,
        (writes.forget, observer.members.forget, applier.forget),
    )


def _set_of(snapshot: SetSnapshot | GroupSnapshot | Abandoned) -> Object | None:
    return snapshot.lws


REGISTRATION = Registration(
    workload=LEADER_WORKER_SET,
    reporter="leaderworkerset",
    build=_build,
    endpoints=ENDPOINTS,
    handlers=handlers,
    reads=TABLES,
    standings=standings_of_rollouts("set", KIND, UPDATE_IN_PROGRESS, STALLED),
    series=SERIES,
)


def of_set(snapshot: SetSnapshot) -> Fields:
    """Return a set's log fields. revision: the target key; empty if it is left alone or being deleted."""
    lws = snapshot.lws
    is_passed_over = snapshot.left_alone is not None or is_terminating(lws)
    key = "" if is_passed_over else assess(snapshot).target.key
    return {"set": lws["metadata"]["name"], "revision": key}


def of_group(snapshot: GroupSnapshot | Abandoned) -> Fields:
    """Return a group's log fields. revision: the revision key of the leader; empty without the label."""
    if isinstance(snapshot, Abandoned):
        return {}
    leader = snapshot.leader
    return {
        "set": snapshot.lws["metadata"]["name"],
        "group": group_id(leader),
        "revision": labels_of(leader).get(REVISION_LABEL, ""),
    }
