"""Registration of LeaderWorkerSet: its passes over sets and groups, routes and background tasks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from lws.config import Settings
from lws.kube.field_errors import Refused
from lws.kube.metadata import copied, is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset.admission import defaulting, pod
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.group.gangs import PROVIDERS, GangProvider
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.observe.failed_creates import Beside
from lws.leaderworkerset.observe.gangs import Gangs
from lws.leaderworkerset.observe.membership import leader_pods_of
from lws.leaderworkerset.observe.observer import Environment, Observer
from lws.leaderworkerset.observe.recent_writes import WriteMemory
from lws.leaderworkerset.observe.webhook_coverage import WebhookCoverage
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.routing import Routing
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status import status
from lws.leaderworkerset.status.problems import STALLED
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS
from lws.leaderworkerset.status.summary import STATES
from lws.leaderworkerset.tables import LEADER_WORKER_SET, TABLES
from lws.runtime.actions import Action, Key, Object, Reference
from lws.runtime.apply import Applier, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, PODS, Resource
from lws.runtime.endpoints.metrics import KeyState
from lws.runtime.endpoints.pass_log import Fields
from lws.runtime.endpoints.workloads import LAST_START, WorkloadSeries, series_of_rollouts
from lws.runtime.errors import ApiError
from lws.runtime.loop import Kind, Term
from lws.runtime.registration import Controller, Parts, Registration
from lws.runtime.store import Store
from lws.runtime.throttle import Moving
from lws.runtime.webhooks.handlers import Handler, Siblings, change_object, refuse, siblings_of, validator
from lws_api.leaderworkerset.v1 import KIND, REVISION_LABEL

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


def handlers(settings: Settings, store: Store) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`."""
    provider = settings.gang_provider
    gang = PROVIDERS[provider] if provider is not None else None
    return handlers_with(siblings_of(store, KIND), gang)


def handlers_with(siblings: Siblings, gang: GangProvider | None) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`. gang: the gang scheduler, if configured."""
    return {
        MUTATE_SET: _default_set,
        VALIDATE_SET: validator(
            partial(leaderworkerset.warnings_in, gang=gang), leaderworkerset.errors_in, siblings
        ),
        MUTATE_POD: _pod_admitter(gang),
        VALIDATE_POD: _allow_pod,
    }


async def _default_set(**_: Any) -> None:
    change_object(_defaulted)


def _defaulted(raw: Object) -> Object:
    lws = copied(raw)
    defaulting.default(lws)
    return lws


def _pod_admitter(gang: GangProvider | None) -> Handler:
    async def admit_pod(*, namespace: str | None, **_: Any) -> None:
        # Rules are deterministic, so randomness comes from here.
        marks = partial(gang.marks, unique=secrets.token_hex(4)) if gang is not None else None

        def admitted(raw: Object) -> Object:
            try:
                return pod.admitted(raw, namespace or "", marks)
            except Refused as refused:
                refuse(str(refused), refused)

        change_object(admitted)

    return admit_pod


async def _allow_pod(**_: Any) -> None:
    """Webhook configurations of earlier releases send every pod update here; all are admitted."""


# --- Metrics of LeaderWorkerSets.


_START = "lws_leaderworkerset"


def _gauge(
    word: str, name: str, documentation: str, label: str = "", values: tuple[str, ...] = ()
) -> WorkloadSeries:
    return WorkloadSeries(KIND, word, f"{_START}_{name}", documentation, label, values)


def _counter(
    word: str, name: str, documentation: str, label: str = "", values: tuple[str, ...] = ()
) -> WorkloadSeries:
    return WorkloadSeries(KIND, word, f"{_START}_{name}_total", documentation, label, values, is_counter=True)


SERIES = (
    _gauge(status.DESIRED, "groups_desired", "Groups that a set asks for."),
    _gauge(status.READY_GROUPS, "groups_ready", "Groups that are ready, those of a surge included."),
    _gauge(status.UPDATED, "groups_updated", "Groups that are on the target revision, ready or not."),
    _gauge(
        status.BY_STATE,
        "groups",
        "Groups by state, as in status.groups: Ready is ready on the target revision, Outdated is ready on "
        "another one.",
        "state",
        STATES,
    ),
    _gauge(
        status.FAILED,
        "groups_failed",
        "Groups that failed once more than maxGroupRestarts allows and are left as they are.",
    ),
    _gauge(
        status.DELAYED,
        "groups_restart_delayed",
        "Groups that failed and wait for the end of their back-off to be recreated.",
    ),
    _gauge(
        status.STUCK,
        "stalled",
        "1 while a set has been without progress for longer than its progressDeadlineSeconds.",
    ),
    *series_of_rollouts(KIND),
    _gauge(
        LAST_START,
        "last_group_start_duration_seconds",
        "Seconds that the group took to be ready that has become ready last; absent until one has.",
    ),
    _counter(
        status.RECREATED,
        "group_recreations",
        "Groups that the manager has deleted to have them made anew, by why.",
        "reason",
        status.RECREATION_REASONS,
    ),
    _counter(
        status.DELAYED,
        "group_restarts_delayed",
        "Times that a group which failed had to wait for the end of its back-off.",
    ),
    _counter(
        status.SPURIOUS,
        "spurious_replacements",
        "Groups that a rollout has replaced although their revision means the same as the wanted one; 0 "
        "unless something is wrong.",
    ),
)

STANDINGS = (
    KeyState(
        "set",
        UPDATE_IN_PROGRESS,
        "lws_leaderworkersets_in_rollout",
        "LeaderWorkerSets that are being moved to another revision.",
    ),
    KeyState(
        "set",
        STALLED,
        "lws_leaderworkersets_stalled",
        "LeaderWorkerSets without progress for longer than their progressDeadlineSeconds.",
    ),
)


def _build(parts: Parts) -> Controller:
    settings, store = parts.settings, parts.store
    provider = settings.gang_provider
    gangs = Gangs(provider, parts.source, store, parts.resync) if provider is not None else None
    coverage = WebhookCoverage(parts.source.cluster, parts.resync)

    def wake(namespace: str, name: str) -> None:
        parts.add(Key("set", namespace, name))

    environment = Environment(
        settings.node_loss,
        coverage.covers,
        gangs.served if gangs is not None else lambda: None,
        Beside(parts.start, wake),
    )
    controller = Controller(
        begin=partial(_begin, parts, environment, Moving()),
        keys=Routing(store, partial(leader_pods_of, store)).keys,
        tasks={"webhook coverage": coverage.run},
        known=coverage.known.wait,
    )
    return controller if gangs is None else _with_gangs(controller, gangs)


def _begin(parts: Parts, environment: Environment, moving: Moving, cluster: Cluster) -> Term:
    memory = WriteMemory(parts.store, parts.source.clock, moving)
    observer = Observer(cluster, parts.store, memory, environment)
    applier = _applier(parts, memory, cluster)
    return Term(
        {
            "set": Kind(
                observer.observe_set,
                plan_set,
                applier.apply,
                "leaderworkerset",
                memory.due,
                of_set,
                is_linear=True,
                owner=_set_of,
            ),
            "group": Kind(
                observer.observe_group, plan_group, applier.apply, "pod", fields=of_group, owner=_set_of
            ),
        },
        Routing(parts.store, partial(leader_pods_of, parts.store), memory.statuses.is_as_left).routes,
        (memory.forget, observer.forget, applier.forget),
    )


def _with_gangs(controller: Controller, gangs: Gangs) -> Controller:
    return replace(
        controller,
        tasks={**controller.tasks, "gangs": gangs.run},
        refresh=gangs.refresh,
        checks={"podgroups": gangs.wrong},
    )


def _set_of(snapshot: SetSnapshot | GroupSnapshot) -> Object:
    return snapshot.lws


def _applier(parts: Parts, memory: WriteMemory, cluster: Cluster) -> Applier:
    """Rejected writes of any pass, and the end of rejections, trigger a pass that updates the status of the
    set.
    """

    def refused(action: Action, error: ApiError, owner: Reference) -> None:
        memory.refusals.remember(action, error, owner)
        parts.add(Key("set", owner.namespace, owner.name))

    def done(action: Action, owner: Reference) -> None:
        if memory.refusals.forget(action, owner):
            parts.add(Key("set", owner.namespace, owner.name))

    written = WriteHooks(
        memory.put,
        memory.remember_applied,
        refused,
        memory.taken.remember,
        memory.going,
        statuses=memory.statuses,
        done=done,
    )
    return Applier(cluster, parts.recorder, written, parts.turns)


REGISTRATION = Registration(
    workload=LEADER_WORKER_SET,
    reporter="leaderworkerset",
    build=_build,
    endpoints=ENDPOINTS,
    handlers=handlers,
    reads=TABLES,
    standings=STANDINGS,
    series=SERIES,
)


def of_set(snapshot: SetSnapshot) -> Fields:
    """revision: the target revision key; empty if no plan is made for the set."""
    lws = snapshot.lws
    is_left_alone = why_left_alone(lws, snapshot.is_covered, snapshot.fault) is not None
    key = "" if is_left_alone or is_terminating(lws) else assess(snapshot).target.key
    return {"set": lws["metadata"]["name"], "revision": key}


def of_group(snapshot: GroupSnapshot) -> Fields:
    """revision: the revision key of the leader; empty if it has no such label."""
    leader = snapshot.leader
    return {
        "set": snapshot.lws["metadata"]["name"],
        "group": parent_and_ordinal(leader["metadata"]["name"])[1],
        "revision": labels_of(leader).get(REVISION_LABEL, ""),
    }
