"""lws.runtime.engine: passes start only once everything is listed, and never after the Lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lws import timing
from lws.config import load
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Key
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.engine import Engine, Surroundings
from lws.runtime.informer import RolledBack
from lws.runtime.leadership.election import Unelected, everywhere
from lws.runtime.queue import Again
from lws.runtime.webhooks.serving import Serving
from test.unit.fake_api import FakeApi, serving, silence
from test.unit.fake_time import in_fake_time, now

ALONE = load(None, {"leader-elect": False}, {}, namespace_file=Path("there-is-none"))
A_SET = Key("set", "ns", "a")


@asynccontextmanager
async def an_engine(api: FakeApi | None = None) -> AsyncIterator[Engine]:
    cluster, metrics = (api or FakeApi("http://127.0.0.1:1")).cluster(), Metrics()
    serving = Serving(ALONE, cluster, metrics, {})
    yield Engine(Surroundings(ALONE, cluster, metrics, serving, "one", lambda: None, REGISTRATIONS))
    await cluster.close()


@in_fake_time
async def test_no_pass_runs_before_the_lists_after_acquisition() -> None:
    async with an_engine() as engine:
        assert engine._acts_on(A_SET)
        engine._takeover.gain(everywhere)
        assert not engine._acts_on(A_SET)


@in_fake_time
async def test_the_store_is_current_while_every_stream_is_alive() -> None:
    async with an_engine() as engine:
        assert not engine._store.is_current(), "nothing is listed yet"
        for stream in engine._streams().values():
            stream.listed.set()
        assert engine._store.is_current()
        next(iter(engine._informers.values()))._read_at -= timing.SILENT_WATCH_SECONDS + 1
        assert not engine._store.is_current(), "its data may be outdated"


@in_fake_time
async def test_gauges_exist_before_any_workload() -> None:
    async with an_engine() as engine:
        lines = engine._surroundings.metrics.text().decode().splitlines()
        assert {"lws_disaggregatedsets_in_rollout 0.0", "lws_disaggregatedsets_stalled 0.0"} <= {*lines}


@in_fake_time
async def test_no_write_after_a_rollback_of_the_cluster() -> None:
    async with an_engine() as engine:
        assert engine._may_write("ns")
        engine.start()
        ending = asyncio.create_task(engine.wait_for_end())
        with pytest.raises(RolledBack):
            engine._rollback.check("lease lws", "7", 100)
        assert not engine._may_write("ns")
        await ending
        await engine.shut_down()


@in_fake_time
async def test_a_stopped_engine_writes_nothing() -> None:
    async with an_engine() as engine:
        assert engine._may_write("ns")
        await engine.shut_down()
        assert not engine._may_write("ns")


class _Holder(Unelected):
    """An election that holds a Lease until it is released."""

    def __init__(self) -> None:
        super().__init__("lws", lambda name, leads: None)
        self.released_at: list[float] = []

    def time_left(self, namespace: str) -> float:
        return 14.0

    async def release(self) -> None:
        self.released_at.append(now())


@pytest.mark.parametrize("seconds", [1.0, 3600.0])
@in_fake_time
async def test_the_lease_expires_while_a_pass_does_not_end(seconds: float) -> None:
    async with an_engine() as engine:
        engine._election = holder = _Holder()

        async def work(key: Key) -> Again:
            await asyncio.sleep(seconds)
            assert seconds > timing.DRAIN_SECONDS or not holder.released_at
            return Again()

        engine._loop.work = work  # type: ignore[method-assign]
        engine._queue.open()
        engine._queue.add(A_SET)
        await asyncio.sleep(0.1)
        await engine.shut_down()
        assert bool(holder.released_at) is (seconds < timing.DRAIN_SECONDS)


@in_fake_time
async def test_the_lease_expires_while_a_write_is_unanswered() -> None:
    async with serving() as api, an_engine(api) as engine:
        engine._election = holder = _Holder()
        api.will(silence(3600))
        acting = engine._surroundings.cluster.fenced(engine._may_write, holder.time_left)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(acting.create({"kind": "Pod", "metadata": {"namespace": "ns"}}), 1.0)
        assert not engine._is_idle(everywhere)
        await engine.shut_down()
        assert not holder.released_at
        await asyncio.sleep(14.0)
        assert engine._is_idle(everywhere)
        await engine.shut_down()
        assert holder.released_at


@in_fake_time
async def test_caches_are_cleared_when_the_lease_is_lost() -> None:
    """Passes of the next term reach nothing of a former one, except what all terms share."""
    async with an_engine() as engine:
        assert engine._terms.passes_over("ns") == {}, "no manager is active"
        engine._gain(everywhere)
        former = engine._terms.passes_over("ns")
        assert set(former) == {"set", "group", "disaggregatedset"}
        engine._lose(everywhere)
        assert engine._terms.passes_over("ns") == {}
        engine._gain(everywhere)
        passes = engine._terms.passes_over("ns")
        for kind, pass_ in passes.items():
            for current, previous in (
                (pass_.observe, former[kind].observe),
                (pass_.apply, former[kind].apply),
            ):
                assert current.__self__ is not previous.__self__


@in_fake_time
async def test_only_caches_of_the_lost_shard_are_cleared() -> None:
    def of_one(namespace: str) -> bool:
        return namespace == "one"

    def of_two(namespace: str) -> bool:
        return namespace == "two"

    async with an_engine() as engine:
        engine._gain(of_one)
        engine._gain(of_two)
        first, second = map(engine._terms.passes_over, ("one", "two"))
        assert first is not second and engine._terms.passes_over("three") == {}
        engine._lose(of_one)
        engine._gain(of_one)
        assert engine._terms.passes_over("two") is second
        assert engine._terms.passes_over("one") not in (first, {})


@in_fake_time
async def test_background_tasks_end_with_the_engine_and_log_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    async def broken() -> None:
        raise ValueError("unreadable")

    async with an_engine() as engine:
        engine._start_background(endless())
        engine._start_background(broken())
        await asyncio.sleep(0.1)
        assert "a background task has failed" in caplog.text and "unreadable" in caplog.text
        (waiting,) = engine._background
        await engine.shut_down()
        assert waiting.cancelled() and not engine._background
