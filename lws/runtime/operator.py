"""The bridge to kopf, which streams workloads and calls the handlers of admission reviews.

Every feature of kopf that writes to the cluster is turned off. Children come from `informer`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import kopf

from lws import timing
from lws.config import Settings
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource
from lws.runtime.lifecycle import cancel
from lws.runtime.registration import Registration
from lws.runtime.store import Store
from lws.runtime.webhooks import handlers

# kopf logs these words at ERROR when an admission handler rejects an object, which is not an error.
_REFUSAL = "failed permanently"
_KOPF = Path(kopf.__file__).parent


class _Backoffs:
    """The seconds between attempts of a kopf request, without end.

    After the last value of its own list, kopf would end the process, although a restart does not help.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(timing.KOPF_BACKOFF_SECONDS, itertools.repeat(timing.KOPF_BACKOFF_SECONDS[-1]))


class _NoMemory(kopf.DiffBaseStorage):
    """Disables kopf's record of the last handled state, because no handler asks what has changed since.

    kopf's own storage copies the object several times per event: 0.26 ms for a template of one container.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


def build_settings(server: kopf.WebhookServerProtocol | None) -> kopf.OperatorSettings:
    """Build settings that turn off kopf's Events, peering, annotations, scanning and webhook setup."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.queueing.idle_timeout = timing.KOPF_IDLE_SECONDS
    settings.admission.server = server
    settings.admission.managed = None
    settings.networking.enforce_retry_after = True
    settings.networking.error_backoffs = _Backoffs()
    settings.process.ultimate_exiting_timeout = None
    settings.persistence.diffbase_storage = _NoMemory()
    return settings


def build_registry(
    cluster: Cluster, store: Store, registrations: Iterable[Registration], reviewing: Settings | None
) -> kopf.OperatorRegistry:
    """Register every handler of the process with kopf; those of reviews only if `reviewing` is given."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # kopf supports no TLS server name, and keeps the token and CA for as long as the session.
        server = cluster.configuration.host
        return kopf.AiohttpSession(server=server, aiohttp_session=cluster.session_of_another_client())

    for registration in registrations:
        register_stream(registry, store, registration.workload.resource)
        if reviewing is not None:
            answers = registration.handlers(reviewing, store, cluster)
            handlers.register(registry, registration.endpoints, answers)
    return registry


def register_stream(registry: kopf.OperatorRegistry, store: Store, resource: Resource) -> None:
    """Let kopf put the objects of a kind of workload into the store.

    Only `on.event` is used, because kopf's other handlers write annotations and finalizers to users' objects.
    """

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def take(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] == "DELETED":
            store.drop(event["object"])
        else:
            store.put(event["object"])


async def run_operator(
    registry: kopf.OperatorRegistry,
    settings: kopf.OperatorSettings,
    stop: asyncio.Event,
    on_start: Callable[[], None],
) -> None:
    """Run kopf until `stop` is set. Raises its fatal errors. No task is left, so that it can be run again.

    on_start: called once kopf runs. From then on kopf handles SIGINT and SIGTERM, so the caller installs its
    own handlers again here.
    """
    # kopf logs every event of every object at DEBUG, which would bury our lines.
    logging.getLogger("kopf").setLevel(max(logging.INFO, logging.getLogger().level))
    objects = logging.getLogger("kopf.objects")
    objects.setLevel(logging.WARNING)
    objects.addFilter(_is_no_refusal)
    tasks = await kopf.spawn_tasks(
        registry=registry, settings=settings, standalone=True, clusterwide=True, stop_flag=stop
    )
    on_start()
    try:
        await kopf.run_tasks(tasks, ignored=cast(Any, _Everything()))
    finally:
        await cancel(_streams_of_kopf())


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Return whether a record is not about a rejected object. A logger adds the same filter only once."""
    return _REFUSAL not in record.getMessage()


def _streams_of_kopf() -> list[asyncio.Task[Any]]:
    """Return the tasks that outlive kopf.

    If one stream of kopf fails, its others continue and would feed the store in addition to those of the next
    run. Pause waiters are left out: they end with their streams, and a stream whose waiter ends first forgets
    that it was cancelled.
    """
    return [
        task
        for task in asyncio.all_tasks() - {asyncio.current_task()}
        if _is_of_kopf(task) and not task.get_name().startswith("pause-waiter")
    ]


def _is_of_kopf(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(code.co_filename).is_relative_to(_KOPF)


class _Everything:
    """A collection that contains every object, which is all that kopf asks of it.

    kopf takes each task that started after its own tasks for one of its own and would cancel it at the end:
    passes, and connections of clients.
    """

    def __contains__(self, task: object) -> bool:
        return True
