"""How kopf is run: which handlers, which settings, which credentials; everything that kopf would write is
off.

In: the store, the admission server, a connection. Out: one coroutine that ends when the stop flag is raised.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import kopf

from lws import timing
from lws.cluster.cache.store import Store
from lws.cluster.client.connection import Cluster
from lws.config import Settings
from lws.controller.lifecycle import cancel
from lws.controller.registration import Registration
from lws.controller.triggers import watch
from lws.controller.webhooks import handlers

# What kopf says at ERROR when an admission handler refuses an object: that is an answer, not an error.
_REFUSAL = "failed permanently"
_KOPF = Path(kopf.__file__).parent


class _Backoffs:
    """Seconds between the attempts of one request of kopf: without an end.

    After the last of its own it gives up, and the process ends with it; the next one would fare no better.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(timing.KOPF_BACKOFF_SECONDS, itertools.repeat(timing.KOPF_BACKOFF_SECONDS[-1]))


class _NoMemory(kopf.DiffBaseStorage):
    """Of the state of an object that handlers have seen before: nobody asks what has changed since. kopf's
    own copies the whole object several times for every event: 0.26 ms for a template of one container.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


def build_settings(server: kopf.WebhookServerProtocol | None) -> kopf.OperatorSettings:
    """kopf without its habits: no Events, no peering, no annotations, no scanning, no configuration of
    webhooks.
    """
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
    """Every handler of the process on an explicit registry. reviewing: the settings by which reviews are
    answered; None where webhooks are switched off.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # kopf knows no TLS name of a server, and keeps a token and a CA for as long as it keeps a session.
        server = cluster.configuration.host
        return kopf.AiohttpSession(server=server, aiohttp_session=cluster.session_of_another_client())

    for each in registrations:
        watch.register(registry, store, each.workload.resource)
        if reviewing is not None:
            handlers.register(registry, each.endpoints, each.handlers(reviewing, store))
    return registry


async def run_operator(
    registry: kopf.OperatorRegistry,
    settings: kopf.OperatorSettings,
    stop: asyncio.Event,
    on_start: Callable[[], None],
) -> None:
    """Run kopf until `stop` is set; raises what kopf could not live with. It may be run anew after that:
    nothing of kopf is left.

    on_start: called once kopf runs. It takes SIGINT and SIGTERM for itself then, so code that wants to end in
    an order of their own takes them back here.
    """
    # kopf logs every event of every object at DEBUG, in which nobody would find ours.
    logging.getLogger("kopf").setLevel(max(logging.INFO, logging.getLogger().level))
    objects = logging.getLogger("kopf.objects")
    objects.setLevel(logging.WARNING)
    objects.addFilter(_is_no_refusal)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=True,
        stop_flag=stop,
    )
    on_start()
    try:
        await kopf.run_tasks(tasks, ignored=_Everything())
    finally:
        await cancel(_streams_of_kopf())


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """One function for every run: a logger takes the same filter once."""
    return _REFUSAL not in record.getMessage()


def _streams_of_kopf() -> list[asyncio.Task[Any]]:
    """What outlives kopf: where one of its streams fails, the others go on, and would feed the store beside
    those of the next run. Its pause waiters end with its streams, which forget that they were cancelled if
    these end first.
    """
    return [
        task
        for task in asyncio.all_tasks() - {asyncio.current_task()}
        if _is_of_kopf(task) and not task.get_name().startswith("pause-waiter")
    ]


def _is_of_kopf(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(code.co_filename).is_relative_to(_KOPF)


class _Everything(Collection[Any]):
    """Contains whatever is looked for. kopf takes each task that began after its own for its own, and would
    cancel them all when it ends: passes, and connections of callers.
    """

    def __contains__(self, task: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0
