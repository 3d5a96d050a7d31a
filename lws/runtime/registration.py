"""What the manager needs to know about one kind of workload.

Registrations drive streams, store, queue, Events and webhooks. A new registration adds a kind of workload.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from lws.config import Settings
from lws.runtime.actions import Action, Key, Reference, Route
from lws.runtime.apply import Applier, OwnerLocks, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource, Workload
from lws.runtime.endpoints.health import Check
from lws.runtime.endpoints.metrics import KeyState
from lws.runtime.endpoints.workloads import WorkloadSeries
from lws.runtime.errors import ApiError
from lws.runtime.events import EventRecorder
from lws.runtime.informer import Source
from lws.runtime.leadership.election import Scope
from lws.runtime.loop import Kind, Term
from lws.runtime.recent_writes import RecentWrites
from lws.runtime.store import Store
from lws.runtime.stored_fields import StoredFields
from lws.runtime.webhooks.handlers import Handler


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is built from. Each engine builds its controllers again.

    source: what all streams share. add, resync: functions that enqueue one key, or all keys. locks: the owner
    locks of all controllers of the engine, because one controller may delete an owner while another creates
    objects for it. start: a function that runs a coroutine in the background.
    """

    settings: Settings
    source: Source
    store: Store
    recorder: EventRecorder
    add: Callable[[Key], None]
    resync: Callable[[], None]
    locks: OwnerLocks
    start: Callable[[Coroutine[Any, Any, None]], object]


async def _return_at_once() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Controller:
    """One kind of workload in one engine.

    begin: a function that creates passes and routes for one term. It receives a connection that rejects
    writes outside of the term. keys: a function that returns all keys in some namespaces. tasks: background
    tasks by name. known: a function that waits until passes may begin. refresh: a function that waits until
    everything that was stored before the call is known, apart from the streams of the registration. It raises
    ClusterError. checks: checks for the liveness probe, by name.
    """

    begin: Callable[[Cluster], Term]
    keys: Callable[[Scope], Iterable[Key]]
    tasks: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    known: Callable[[], Awaitable[object]] = _return_at_once
    refresh: Callable[[], Awaitable[None]] = _return_at_once
    checks: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """A kind of workload.

    reporter: the controller named in its Events. build: a function that builds its controller for one engine.
    endpoints: the reviewed resource by handler id. handlers: a function that returns the handlers of all
    endpoints, by handler id. reads: the fields that its passes read, by kind. Several workloads may read
    objects of one kind. is_optional: whether it is served only while its CRDs are installed. standings:
    gauges that count its keys by state. series: metrics of each workload.
    """

    workload: Workload
    reporter: str
    build: Callable[[Parts], Controller]
    endpoints: Mapping[str, Resource] = field(default_factory=dict)
    handlers: Callable[[Settings, Store, Cluster], Mapping[str, Handler]] = lambda *_: {}
    reads: tuple[StoredFields, ...] = ()
    is_optional: bool = False
    standings: tuple[KeyState, ...] = ()
    series: tuple[WorkloadSeries, ...] = ()


def applier_of(
    parts: Parts, writes: RecentWrites[Any], cluster: Cluster, keys: str, hooks: WriteHooks
) -> Applier:
    """Build the executor of the plans of one kind of workload.

    It enqueues a workload to report that a write is rejected or succeeds again. keys: the kind of its keys.
    hooks: those that concern only this kind.
    """

    def rejected(action: Action, error: ApiError, owner: Reference) -> None:
        writes.refusals.record(action, error, owner)
        parts.add(Key(keys, owner.namespace, owner.name))

    def succeeded(action: Action, owner: Reference) -> None:
        if writes.refusals.forget(action, owner):
            parts.add(Key(keys, owner.namespace, owner.name))

    all_hooks = replace(
        hooks,
        rejected=rejected,
        succeeded=succeeded,
        name_taken=writes.taken.record,
        statuses=writes.statuses,
    )
    return Applier(cluster, parts.recorder, all_hooks, parts.locks)


def merge_terms(terms: Sequence[Term]) -> Term:
    """Merge the terms of all controllers. Raises ValueError if two of them use the same kind of key."""
    passes: dict[str, Kind] = {}
    routes: defaultdict[str, list[Route]] = defaultdict(list)
    for term in terms:
        if shared := passes.keys() & term.passes.keys():
            raise ValueError(f"two kinds of workload have passes over the same keys: {sorted(shared)}")
        passes.update(term.passes)
        for kind, route in term.routes.items():
            routes[kind].append(route)
    all_routes = {
        kind: of_kind[0] if len(of_kind) == 1 else _chain_routes(of_kind) for kind, of_kind in routes.items()
    }
    return Term(passes, all_routes, tuple(chain.from_iterable(term.forget for term in terms)))


def _chain_routes(routes: Sequence[Route]) -> Route:
    return lambda before, after: chain.from_iterable(route(before, after) for route in routes)
