"""What is reported while the API server cannot be used, and that the manager continues once it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lws import timing
from lws.runtime.preconditions import Definitions, Preconditions
from lws.runtime.registration import Registration
from test.unit import fleet
from test.unit.fake_api import Answer, FakeApi, answer_json, failure, plain, reset, serving
from test.unit.fake_time import in_fake_time, now


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        pytest.param(lambda: failure(401, "Unauthorized", "Unauthorized"), "cannot check whether", id="401"),
        pytest.param(lambda: failure(403, "Forbidden", "may not get"), "x-k8s.io/v1: may not get", id="403"),
        pytest.param(lambda: plain(503, "<html>no backend"), "x-k8s.io/v1: <html>no backend", id="503"),
        pytest.param(reset, "is the API server up", id="no answer"),
        pytest.param(lambda: failure(404), "install the CustomResourceDefinition", id="no definition"),
    ],
)
@in_fake_time
async def test_missing_crds_are_reported_and_awaited(trouble: Callable[[], Answer], words: str) -> None:
    async with serving() as api:
        api.will(*[trouble() for _ in range(200)], answer_json({"kind": "APIResourceList"}))
        cluster = api.cluster()
        try:
            preconditions = Preconditions(cluster, ["leaderworkerset.x-k8s.io/v1"])
            waiting = asyncio.create_task(preconditions.wait())
            await asyncio.sleep(60.0)
            assert words in (preconditions.missing() or "")
            assert not waiting.done()
            await asyncio.sleep(3600.0)
            assert waiting.done() and preconditions.missing() is None
            assert len(api.requests) == 201
        finally:
            await cluster.close()


@in_fake_time
async def test_every_kind_of_workload_is_waited_for() -> None:
    async with serving() as api:
        served = answer_json({"kind": "APIResourceList"})
        api.will(served, failure(404), served, served)
        cluster = api.cluster()
        try:
            preconditions = Preconditions(cluster, ["one.example.com/v1", "two.example.com/v1"])
            await preconditions.wait()
            assert [seen.path for seen in api.requests] == 2 * [
                "/apis/one.example.com/v1",
                "/apis/two.example.com/v1",
            ]
        finally:
            await cluster.close()


NEEDED = fleet.REGISTRATION
OPTIONAL = replace(NEEDED, is_optional=True)
BOTH = (NEEDED, OPTIONAL)
SERVED = answer_json({"kind": "FleetList", "items": []})
REFUSED = failure(403, "Forbidden", "may not list")


@asynccontextmanager
async def definitions(
    registrations: tuple[Registration, ...], *answers: Answer
) -> AsyncIterator[tuple[Definitions, FakeApi]]:
    async with serving() as api:
        api.will(*answers)
        cluster = api.cluster()
        try:
            yield Definitions(cluster, registrations), api
        finally:
            await cluster.close()


@pytest.mark.parametrize(
    ("answer", "before", "expected"),
    [
        pytest.param(SERVED, (), BOTH, id="served"),
        pytest.param(failure(404), BOTH, (NEEDED,), id="not served"),
        pytest.param(REFUSED, BOTH, BOTH, id="forbidden, served before"),
        pytest.param(REFUSED, (), (NEEDED,), id="forbidden, not served before"),
        pytest.param(failure(500), BOTH, BOTH, id="no answer, served before"),
        pytest.param(failure(500), (), (NEEDED,), id="no answer, not served before"),
    ],
)
async def test_an_optional_kind_is_served_as_long_as_its_crd_exists(
    answer: Answer, before: tuple[Registration, ...], expected: tuple[Registration, ...]
) -> None:
    async with definitions(BOTH, answer) as (looking, api):
        assert await looking.served(before) == expected
        assert [(seen.path, seen.query["limit"]) for seen in api.requests] == [
            ("/apis/example.com/v1/fleets", "1")
        ]


@in_fake_time
async def test_an_added_or_removed_crd_is_noticed() -> None:
    async with definitions(BOTH, failure(404), failure(500), SERVED, SERVED, failure(404)) as (looking, api):
        await looking.changed((NEEDED,))
        assert len(api.requests) == 3
        await looking.changed(BOTH)
        assert len(api.requests) == 5


@in_fake_time
async def test_a_kind_forbidden_for_a_while_stays_served() -> None:
    lasting = [REFUSED] * 9
    async with definitions(BOTH, *lasting, SERVED, *lasting, SERVED, failure(404)) as (looking, api):
        await looking.changed(BOTH)
        assert len(api.requests) == 21


@in_fake_time
async def test_a_kind_forbidden_permanently_becomes_unserved() -> None:
    async with definitions(BOTH, *[REFUSED] * 100) as (looking, _):
        began = now()
        await looking.changed(BOTH)
        assert now() - began == timing.DENIED_KIND_SECONDS
        assert await looking.served(before=(NEEDED,)) == (NEEDED,)


@in_fake_time
async def test_without_optional_kinds_nothing_is_checked() -> None:
    async with definitions((NEEDED,)) as (looking, api):
        assert await looking.served() == (NEEDED,)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(looking.changed((NEEDED,)), 3600.0)
        assert not api.requests
