"""How kopf is run: everything that it would write is off. test_watch.py tests what it receives."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Sized
from pathlib import Path
from typing import Never, cast

import kopf
import pytest
from kopf._cogs.aiokits.aiotasks import create_guarded_task

from lws.config import Settings, load
from lws.leaderworkerset.registration import ENDPOINTS
from lws.leaderworkerset.tables import TABLES
from lws.registrations import REGISTRATIONS
from lws.runtime.client.connection import Cluster
from lws.runtime.operator import build_registry, build_settings, run_operator
from lws.runtime.store import Store
from lws.runtime.webhooks.server import AdmissionServer

SERVER = cast(AdmissionServer, object())
SETTINGS = load(None, {}, {}, namespace_file=Path("there-is-none"))


def registry_of(reviewing: Settings | None = SETTINGS) -> kopf.OperatorRegistry:
    store = Store(lambda before, after: None, TABLES)
    return build_registry(cast(Cluster, object()), store, REGISTRATIONS, reviewing)


def test_kopf_does_not_cache_idle_sets() -> None:
    assert 0 < build_settings(SERVER).queueing.idle_timeout <= 1


def test_kopf_writes_nothing_of_its_own() -> None:
    settings = build_settings(SERVER)
    assert not settings.posting.enabled, "Events are ours"
    assert settings.peering.standalone, "the Lease decides, not a peering object"
    assert settings.scanning.disabled, "it would watch all CustomResourceDefinitions and namespaces"
    assert settings.admission.managed is None, "webhook configurations are the chart's"
    assert settings.admission.server is SERVER


def test_kopf_does_not_copy_objects() -> None:
    class Uncopied(dict[str, str]):
        def __deepcopy__(self, _: object) -> Never:
            pytest.fail("kopf copies it")

    raw = {"metadata": {"name": "demo", "annotations": {}}, "spec": Uncopied(size="2")}
    storage = build_settings(SERVER).persistence.diffbase_storage
    body = kopf.Body(cast(kopf.RawBody, raw))
    assert storage.fetch(body=body) is None and storage.build(body=body) == {}


def test_kopf_retries_requests_without_limit() -> None:
    """Otherwise kopf would end the process, and the webhooks with it."""
    backoffs = build_settings(SERVER).networking.error_backoffs
    assert not isinstance(backoffs, Sized), "kopf takes a length for the number of attempts"
    assert isinstance(backoffs, Iterable)
    for _ in range(2):
        seconds = list(itertools.islice(backoffs, 1000))
        assert seconds == sorted(seconds)
        assert 0.1 <= seconds[0] <= 1.0 and seconds[-1] <= 5.0


def test_no_server_runs_without_webhooks() -> None:
    assert build_settings(None).admission.server is None
    assert list(registry_of(reviewing=None)._webhooks.get_all_handlers()) == []


def test_the_settings_of_kopf() -> None:
    registry = registry_of()
    assert len(list(registry._webhooks.get_all_handlers())) >= len(ENDPOINTS)
    assert len(list(registry._watching.get_all_handlers())) == len(REGISTRATIONS) == 2
    for writing in (registry._changing, registry._spawning, registry._indexing):
        assert list(writing.get_all_handlers()) == []


async def test_tasks_of_kopf_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the stream of one kind fails, kopf leaves the streams of other kinds running."""
    streams: list[asyncio.Task[None]] = []

    async def stream() -> None:
        await asyncio.Event().wait()

    async def spawned(**_: object) -> list[asyncio.Task[None]]:
        streams.append(create_guarded_task(stream(), name="watcher for sets", flag=None))
        return []

    async def failing(*_: object, **__: object) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("the stream of another kind has failed")

    monkeypatch.setattr(kopf, "spawn_tasks", spawned)
    monkeypatch.setattr(kopf, "run_tasks", failing)
    ours = asyncio.create_task(stream())
    with pytest.raises(RuntimeError, match="another kind"):
        await run_operator(registry_of(), build_settings(None), asyncio.Event(), lambda: None)
    assert [stream.done() for stream in streams] == [True]
    assert not ours.done(), "passes go on"
    ours.cancel()


async def test_log_filters_do_not_accumulate(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> list[asyncio.Task[None]]:
        return []

    monkeypatch.setattr(kopf, "spawn_tasks", nothing)
    monkeypatch.setattr(kopf, "run_tasks", nothing)
    filters = logging.getLogger("kopf.objects").filters
    counts = []
    for _ in range(3):
        await run_operator(registry_of(), build_settings(None), asyncio.Event(), lambda: None)
        counts.append(len(filters))
    assert counts[0] == counts[-1]
