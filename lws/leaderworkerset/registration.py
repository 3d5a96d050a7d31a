"""Registration of LeaderWorkerSet: its passes over sets and groups, routes and background tasks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lws.kube.metadata import is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset.assessment.assessment import assess
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
from lws.leaderworkerset.series import SERIES, STANDINGS
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.tables import TABLES
from lws.leaderworkerset.webhooks import ENDPOINTS, handlers
from lws.runtime.actions import Action, Object, Reference
from lws.runtime.apply import Applier, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.endpoints.pass_log import Fields
from lws.runtime.errors import ApiError
from lws.runtime.keys import Key
from lws.runtime.loop import Kind, Term
from lws.runtime.registration import Controller, Parts, Registration
from lws.runtime.throttle import Moving
from lws.runtime.workloads import LEADER_WORKER_SET
from lws_api.leaderworkerset.v1 import REVISION_LABEL


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
