"""When may an engine act on what it remembers? Once it is listed, and never on what was taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lws import timing
from lws.cluster.cache.rollback import RolledBack
from lws.config import load
from lws.controller.election.election import Unelected, everywhere
from lws.controller.endpoints.metrics import Metrics
from lws.controller.engine import Engine, Surroundings
from lws.controller.manager import REGISTRATIONS
from lws.controller.queue import Again
from lws.controller.triggers.keys import Key
from lws.controller.webhooks.serving import Serving
from test.unit.fake_api import FakeApi, serving, silence
from test.unit.fake_time import in_fake_time, now

ALONE = load(None, {}, {}, namespace_file=Path("there-is-none"))
ALONE = replace(ALONE, leader_election=replace(ALONE.leader_election, enabled=False))
A_SET = Key("set", "ns", "a")


@asynccontextmanager
async def an_engine(api: FakeApi | None = None) -> AsyncIterator[Engine]:
    cluster, metrics = (api or FakeApi("http://127.0.0.1:1")).cluster(), Metrics()
    serving = Serving(ALONE, cluster, metrics, {})
    yield Engine(Surroundings(ALONE, cluster, metrics, serving, "one", lambda: None, REGISTRATIONS))
    await cluster.close()


@in_fake_time
async def test_no_pass_is_made_between_the_lease_and_the_lists_that_follow_it() -> None:
    async with an_engine() as engine:
        assert engine._acts_on(A_SET)
        engine._takeover.gain(everywhere)
        assert not engine._acts_on(A_SET)


@in_fake_time
async def test_gauges_of_kinds_of_workload_are_there_before_anything_is() -> None:
    async with an_engine() as engine:
        lines = engine._within.metrics.text().decode().splitlines()
        assert {"lws_disaggregatedsets_in_rollout 0.0", "lws_disaggregatedsets_stalled 0.0"} <= {*lines}


@in_fake_time
async def test_nothing_is_written_once_the_cluster_has_gone_back_and_the_engine_ends() -> None:
    async with an_engine() as engine:
        assert engine._may_write("ns")
        engine.start()
        ending = asyncio.create_task(engine.ended())
        with pytest.raises(RolledBack):
            engine._rollback.check("lease lws", "7", 100)
        assert not engine._may_write("ns")
        await ending
        await engine.take_down()


@in_fake_time
async def test_nothing_is_written_by_what_is_left_of_an_engine_that_was_taken_down() -> None:
    async with an_engine() as engine:
        assert engine._may_write("ns")
        await engine.take_down()
        assert not engine._may_write("ns")


class _Holder(Unelected):
    """Holds a Lease until it is released."""

    def __init__(self) -> None:
        super().__init__("lws", lambda name, leads: None)
        self.released_at: list[float] = []

    def time_left(self, namespace: str) -> float:
        return 14.0

    async def release(self) -> None:
        self.released_at.append(now())


@pytest.mark.parametrize("seconds", [1.0, 3600.0])
@in_fake_time
async def test_the_lease_runs_out_where_a_pass_does_not_come_to_its_end(seconds: float) -> None:
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
        await engine.take_down()
        assert bool(holder.released_at) is (seconds < timing.DRAIN_SECONDS)


@in_fake_time
async def test_the_lease_runs_out_where_a_write_without_an_answer_may_still_arrive() -> None:
    async with serving() as api, an_engine(api) as engine:
        engine._election = holder = _Holder()
        api.will(silence(3600))
        acting = engine._within.cluster.fenced(engine._may_write, holder.time_left)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(acting.create({"kind": "Pod", "metadata": {"namespace": "ns"}}), 1.0)
        assert not engine._is_idle(everywhere)
        await engine.take_down()
        assert not holder.released_at
        await asyncio.sleep(14.0)
        assert engine._is_idle(everywhere)
        await engine.take_down()
        assert holder.released_at
