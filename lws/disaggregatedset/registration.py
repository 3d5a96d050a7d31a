"""Registration of DisaggregatedSet: its passes, routes, reviews and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from lws.config import Settings
from lws.disaggregatedset import status
from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.routes import PASS, Routes
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.status import IN_ROLLOUT
from lws.disaggregatedset.tables import DISAGGREGATED_SET, TABLES
from lws.leaderworkerset.group.gangs import PROVIDERS, GangProvider
from lws.leaderworkerset.status.problems import STALLED
from lws.runtime.actions import Action, Key, Object, Reference
from lws.runtime.apply import Applier, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import DISAGGREGATED_SETS, Resource
from lws.runtime.endpoints.metrics import KeyState
from lws.runtime.endpoints.workloads import WorkloadSeries, series_of_rollouts
from lws.runtime.errors import ApiError
from lws.runtime.loop import Kind, Term
from lws.runtime.registration import Controller, Parts, Registration
from lws.runtime.store import Store
from lws.runtime.throttle import Moving
from lws.runtime.webhooks.handlers import Handler, Siblings, siblings_of, validator
from lws_api.disaggregatedset.v1 import KIND

VALIDATE_SET = "validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType({VALIDATE_SET: DISAGGREGATED_SETS})
"""Handler id (the URL path without its slash) → reviewed resource."""


def handlers(settings: Settings, store: Store) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`."""
    provider = settings.gang_provider
    gang = PROVIDERS[provider] if provider is not None else None
    return handlers_with(siblings_of(store, KIND), gang)


def handlers_with(siblings: Siblings, gang: GangProvider | None) -> Mapping[str, Handler]:
    """The handlers of all `ENDPOINTS`. gang: the gang scheduler, if configured."""
    return {VALIDATE_SET: validator(partial(warnings_in, gang=gang), errors_in, siblings)}


def _build(parts: Parts) -> Controller:
    return Controller(partial(_begin, parts, Moving()), Routes(parts.store).keys)


def _begin(parts: Parts, moving: Moving, cluster: Cluster) -> Term:
    memory = DisaggregatedMemory(parts.store, parts.source.clock, moving)
    observer = DisaggregatedObserver(cluster, parts.store, memory)
    applier = _applier(parts, memory, cluster)
    return Term(
        {PASS: Kind(observer.observe, plan, applier.apply, PASS, memory.due, owner=_set_of)},
        Routes(parts.store, memory.is_ours).by_kind,
        (memory.forget, observer.forget, applier.forget),
    )


def _set_of(snapshot: DisaggregatedSnapshot) -> Object:
    return snapshot.obj


def _applier(parts: Parts, memory: DisaggregatedMemory, cluster: Cluster) -> Applier:
    """Rejected writes, and the end of rejections, trigger a pass that updates the status of the set."""

    def refused(action: Action, error: ApiError, owner: Reference) -> None:
        memory.refusals.remember(action, error, owner)
        parts.add(Key(PASS, owner.namespace, owner.name))

    def done(action: Action, owner: Reference) -> None:
        if memory.refusals.forget(action, owner):
            parts.add(Key(PASS, owner.namespace, owner.name))

    written = WriteHooks(
        memory.put,
        refused=refused,
        taken=memory.taken.remember,
        gone=memory.gone,
        statuses=memory.statuses,
        done=done,
    )
    return Applier(cluster, parts.recorder, written, parts.turns)


_STANDINGS = (
    KeyState(
        PASS,
        IN_ROLLOUT,
        "lws_disaggregatedsets_in_rollout",
        "DisaggregatedSets that are being moved to another revision.",
    ),
    KeyState(
        PASS,
        STALLED,
        "lws_disaggregatedsets_stalled",
        "DisaggregatedSets without progress for longer than their progressDeadlineSeconds.",
    ),
)

_ROLES = (
    (status.DESIRED, "groups_desired", "Groups that a role is to have, over all slices."),
    (status.EXISTING, "groups", "Groups that a role has, over all slices and revisions."),
    (status.READY, "groups_ready", "Groups of a role that are ready."),
    (status.UPDATED, "groups_updated", "Groups of a role that are on the target revision."),
)

_SERIES = (
    *(
        WorkloadSeries(KIND, word, f"lws_disaggregatedset_{name}", documentation, label="role")
        for word, name, documentation in _ROLES
    ),
    *series_of_rollouts(KIND),
    WorkloadSeries(
        KIND,
        status.STUCK,
        "lws_disaggregatedset_stalled",
        "1 while a DisaggregatedSet has been without progress for longer than its progressDeadlineSeconds.",
    ),
)

REGISTRATION = Registration(
    workload=DISAGGREGATED_SET,
    reporter=PASS,
    build=_build,
    endpoints=ENDPOINTS,
    handlers=handlers,
    reads=TABLES,
    is_optional=True,
    standings=_STANDINGS,
    series=_SERIES,
)
