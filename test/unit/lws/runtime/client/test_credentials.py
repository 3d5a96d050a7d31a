"""lws.runtime.client.transport: when credentials are reloaded and which requests wait, in fake time."""

from __future__ import annotations

import asyncio
import math

import pytest
from kubernetes.aio.client.configuration import Configuration

from lws.runtime.client.transport import Lifetime, Renewal
from lws.runtime.errors import Unreachable
from test.unit.fake_time import in_fake_time, now


class Source:
    """A source of credentials.

    lifetime: the lifetime of the next credentials. seconds: how long loading them takes.
    """

    def __init__(self, lifetime: Lifetime, seconds: float = 0.0) -> None:
        self.lifetime, self.seconds = lifetime, seconds
        self.loads = 0

    async def __call__(self, configuration: Configuration) -> Lifetime:
        self.loads += 1
        await asyncio.sleep(self.seconds)
        configuration.api_key["BearerToken"] = str(self.loads)
        return self.lifetime


async def begun(source: Source) -> tuple[Renewal, Configuration]:
    configuration = Configuration()
    renewal = Renewal(source, clock=now)
    await renewal.begin(configuration)
    return renewal, configuration


@pytest.mark.parametrize(
    ("seconds", "look"), [(3600.0, 3300.0), (1000.0, 800.0), (60.0, 48.0), (0.0, 0.0), (math.inf, math.inf)]
)
def test_credentials_are_renewed_early_by_a_fifth_at_most(seconds: float, look: float) -> None:
    assert Lifetime.ending_in(seconds) == (Lifetime(look, seconds) if math.isfinite(seconds) else Lifetime())


@in_fake_time
async def test_requests_at_the_same_moment_share_one_load() -> None:
    source = Source(Lifetime.ending_in(10.0))
    renewal, configuration = await begun(source)
    source.seconds = 5.0
    await asyncio.sleep(11.0)
    await asyncio.gather(*(renewal(configuration) for _ in range(10)), renewal.after_refusal(configuration))
    assert source.loads == 2


@in_fake_time
async def test_a_cancelled_request_does_not_stop_the_load() -> None:
    source = Source(Lifetime.ending_in(10.0))
    renewal, configuration = await begun(source)
    source.seconds = 5.0
    await asyncio.sleep(11.0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(renewal(configuration), 1.0)
    await asyncio.sleep(5.0)
    assert configuration.api_key["BearerToken"] == "2"


@in_fake_time
async def test_a_hanging_plugin_times_out() -> None:
    source = Source(Lifetime.ending_in(10.0))
    renewal, configuration = await begun(source)
    source.seconds = math.inf
    await asyncio.sleep(11.0)
    with pytest.raises(Unreachable, match="no credentials for the API server: no answer within 60 s"):
        await renewal(configuration)


@in_fake_time
async def test_a_failed_load_is_retried_after_a_delay() -> None:
    source = Source(Lifetime.ending_in(1000.0))
    renewal, configuration = await begun(source)
    source.seconds = math.inf
    await asyncio.sleep(900.0)
    await renewal(configuration)
    await asyncio.sleep(61.0)
    source.seconds = 0.0
    for _ in range(10):
        await renewal(configuration)
        await asyncio.sleep(1.0)
    assert source.loads == 3 and configuration.api_key["BearerToken"] == "3"


@in_fake_time
async def test_many_rejections_cause_one_load() -> None:
    source = Source(Lifetime())
    renewal, configuration = await begun(source)
    for _ in range(100):
        await renewal.after_refusal(configuration)
        await asyncio.sleep(0.1)
    assert source.loads == 1 + 2
