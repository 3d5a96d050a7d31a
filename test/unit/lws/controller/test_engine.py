"""When may an engine act on what it remembers? Once it is listed, and never on what was taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lws.cluster.cache.rollback import RolledBack
from lws.config import load
from lws.controller.election.election import everywhere
from lws.controller.endpoints.metrics import Metrics
from lws.controller.engine import Engine, Surroundings
from lws.controller.manager import REGISTRATIONS
from lws.controller.triggers.keys import Key
from lws.controller.webhooks.serving import Serving
from test.unit.fake_api import FakeApi
from test.unit.fake_time import in_fake_time

ALONE = load(None, {}, {}, namespace_file=Path("there-is-none"))
ALONE = replace(ALONE, leader_election=replace(ALONE.leader_election, enabled=False))
A_SET = Key("set", "ns", "a")


@asynccontextmanager
async def an_engine() -> AsyncIterator[Engine]:
    cluster, metrics = FakeApi("http://127.0.0.1:1").cluster(), Metrics()
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
