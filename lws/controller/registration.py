"""What the manager is given of a kind of workload: all that it knows of it.

In: nothing. Out: types. The plumbing, that is streams, store, queue, Events and webhooks, is driven by
registrations; a kind of workload is added by making one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from lws.cluster.cache.fields import StoredFields
from lws.cluster.cache.informer import Source
from lws.cluster.cache.store import Store
from lws.cluster.client.connection import Cluster
from lws.cluster.client.resources import Resource
from lws.cluster.workloads import Workload
from lws.cluster.write.apply import Recorder
from lws.cluster.write.owner_locks import Turns
from lws.config import Settings
from lws.controller.election.election import Scope
from lws.controller.endpoints.health import Check
from lws.controller.endpoints.metrics import KeyState
from lws.controller.endpoints.workloads import WorkloadSeries
from lws.controller.loop import Kind, Term
from lws.controller.triggers.keys import Key, Route
from lws.controller.webhooks.handlers import Handler


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is built from, anew in each engine.

    source: for streams. recorder: of Events. add: puts a key into the queue; resync: puts all keys there.
    turns: of all controllers of the engine; one may delete what another makes things for. start: has work
    done beside the passes.
    """

    settings: Settings
    source: Source
    store: Store
    recorder: Recorder
    add: Callable[[Key], None]
    resync: Callable[[], None]
    turns: Turns
    start: Callable[[Coroutine[Any, Any, None]], object]


async def _at_once() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Controller:
    """A kind of workload at work in one engine.

    begin: makes its passes and routes for one term, with a connection whose writes are refused in any other;
    what they remember is made with them. keys: of all that there is in some namespaces.
    tasks: what runs beside the passes, by name. known: returns once passes may begin. refresh: returns once
    all is known that was stored before the call, beside the streams of the registration; raises ClusterError.
    checks: for the liveness probe, by name.
    """

    begin: Callable[[Cluster], Term]
    keys: Callable[[Scope], Iterable[Key]]
    tasks: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    known: Callable[[], Awaitable[object]] = _at_once
    refresh: Callable[[], Awaitable[None]] = _at_once
    checks: Mapping[str, Check] = field(default_factory=dict)


def _unreviewed(settings: Settings, store: Store) -> Mapping[str, Handler]:
    return {}


@dataclass(frozen=True, slots=True)
class Registration:
    """A kind of workload. reporter: the controller that its Events name. endpoints: handler id → what it
    reviews; handlers: those of all endpoints. reads: fields that its passes read of kinds that passes over
    sets and groups read too. is_optional: its definitions need not be there; as long as they are not, it is
    not served. standings: what metrics count its keys by. series: what they show of each workload.
    """

    workload: Workload
    reporter: str
    build: Callable[[Parts], Controller]
    endpoints: Mapping[str, Resource] = field(default_factory=dict)
    handlers: Callable[[Settings, Store], Mapping[str, Handler]] = _unreviewed
    reads: tuple[StoredFields, ...] = ()
    is_optional: bool = False
    standings: tuple[KeyState, ...] = ()
    series: tuple[WorkloadSeries, ...] = ()


def together(terms: Sequence[Term]) -> Term:
    """One for all controllers. Raises ValueError where two share a kind of key."""
    passes: dict[str, Kind] = {}
    routes: defaultdict[str, list[Route]] = defaultdict(list)
    for term in terms:
        if shared := passes.keys() & term.passes.keys():
            raise ValueError(f"two kinds of workload have passes over the same keys: {sorted(shared)}")
        passes.update(term.passes)
        for kind, route in term.routes.items():
            routes[kind].append(route)
    all_routes = {kind: each[0] if len(each) == 1 else _all_of(each) for kind, each in routes.items()}
    return Term(passes, all_routes, tuple(chain.from_iterable(term.forget for term in terms)))


def _all_of(routes: Sequence[Route]) -> Route:
    return lambda before, after: chain.from_iterable(route(before, after) for route in routes)
