"""Register DisaggregatedSets with the manager: passes, routes, reviews and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from lws.config import Settings
from lws.disaggregatedset import status
from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.routing import PASS, DisaggregatedRouting
from lws.disaggregatedset.status import IN_ROLLOUT
from lws.disaggregatedset.tables import DISAGGREGATED_SET, TABLES
from lws.kube.field_errors import FieldError
from lws.leaderworkerset.group.gangs import GangProvider
from lws.leaderworkerset.observe.gangs import gang_of, scheduler_of
from lws.leaderworkerset.scheduling import NO_SCHEDULER, Scheduler
from lws.leaderworkerset.status.problems import STALLED
from lws.runtime.actions import Object
from lws.runtime.apply import WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import DISAGGREGATED_SETS, Resource
from lws.runtime.endpoints.metrics import standings_of_rollouts
from lws.runtime.endpoints.workloads import WorkloadSeries, series_of_rollouts
from lws.runtime.loop import Kind, Term
from lws.runtime.registration import Controller, Parts, Registration, applier_of
from lws.runtime.store import Store
from lws.runtime.throttle import ActiveSets
from lws.runtime.webhooks.handlers import Handler, Siblings, siblings_of, validator
from lws_api.disaggregatedset.v1 import KIND

VALIDATE_SET = "validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"

ENDPOINTS: Mapping[str, Resource] = MappingProxyType({VALIDATE_SET: DISAGGREGATED_SETS})
"""Handler id (the URL path without its slash) → reviewed resource."""


def handlers(settings: Settings, store: Store, cluster: Cluster) -> Mapping[str, Handler]:
    return handlers_with(siblings_of(store, KIND), gang_of(settings), partial(scheduler_of, settings, store))


def handlers_with(
    siblings: Siblings, gang: GangProvider | None, scheduler: Callable[[], Scheduler] = lambda: NO_SCHEDULER
) -> Mapping[str, Handler]:
    """Return the handlers of all `ENDPOINTS`; `gang` is None if no gang scheduler is configured."""

    def errors(new: Object, old: Object | None, others: Iterable[Object]) -> list[FieldError]:
        return errors_in(new, old, others, scheduler())

    return {VALIDATE_SET: validator(partial(warnings_in, gang=gang), errors, siblings)}


def _begin(parts: Parts, active: ActiveSets, cluster: Cluster) -> Term:
    memory = DisaggregatedMemory(parts.store, parts.source.clock, active)
    observer = DisaggregatedObserver(cluster, parts.store, memory)
    hooks = WriteHooks(memory.put, deleted=lambda target, answer: memory.drop(target))
    applier = applier_of(parts, memory, cluster, PASS, hooks)
    return Term(
        {
            PASS: Kind(
                observer.observe, plan, applier.apply, PASS, memory.due, owner=lambda snapshot: snapshot.obj
            )
        },
        DisaggregatedRouting(parts.store, memory.is_ours).routes,
        (memory.forget, observer.forget, applier.forget),
    )


_ROLES = (
    (status.DESIRED, "groups_desired", "Desired groups of a role, over all slices."),
    (status.EXISTING, "groups", "Groups of a role, over all slices and revisions."),
    (status.READY, "groups_ready", "Ready groups of a role."),
    (status.UPDATED, "groups_updated", "Groups of a role on the target revision."),
)

_SERIES = (
    *(
        WorkloadSeries(KIND, word, f"lws_disaggregatedset_{name}", documentation, label="role")
        for word, name, documentation in _ROLES
    ),
    *series_of_rollouts(KIND, status.STUCK),
)

REGISTRATION = Registration(
    workload=DISAGGREGATED_SET,
    reporter=PASS,
    build=lambda parts: Controller(
        partial(_begin, parts, ActiveSets()), DisaggregatedRouting(parts.store).keys
    ),
    endpoints=ENDPOINTS,
    handlers=handlers,
    reads=TABLES,
    is_optional=True,
    standings=standings_of_rollouts(PASS, KIND, IN_ROLLOUT, STALLED),
    series=_SERIES,
)
