"""The probes over HTTP: what makes them fail, and the reason that they return."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from lws.runtime.endpoints.health import Check, HealthServer, split_address
from test.unit.fake_time import in_fake_time


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        (":8081", None, 8081),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("localhost:0", "localhost", 0),
        ("[::1]:8081", "::1", 8081),
        ("[::]:65535", "::", 65535),
    ],
)
def test_addresses(address: str, host: str | None, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize("address", ["", "8081", "localhost", "host:", "host:port", ":-1", ":65536", ":8 1"])
def test_invalid_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address of the form host:port"):
        split_address(address)


@dataclass
class _Probes:
    """Answers of a server whose checks report the failures in `wrong`."""

    wrong: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def check(self, name: str) -> Check:
        return lambda: self.wrong.get(name)

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return response.status, await response.text()


@asynccontextmanager
async def _probes() -> AsyncIterator[_Probes]:
    probes = _Probes()
    names: Mapping[str, tuple[str, ...]] = {"/healthz": ("pods", "services"), "/readyz": ("webhooks",)}
    endpoints = {path: {name: probes.check(name) for name in of} for path, of in names.items()}
    server = HealthServer("127.0.0.1:0", endpoints)
    await server.start()
    probes.url = f"http://127.0.0.1:{server.port}"
    try:
        yield probes
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("path", "wrong", "status", "text"),
    [
        pytest.param("/healthz", {}, 200, "ok", id="fine"),
        pytest.param("/readyz", {}, 200, "ok", id="ready"),
        pytest.param(
            "/healthz", {"webhooks": "x"}, 200, "ok", id="checks-of-the-other-endpoint-do-not-count"
        ),
        pytest.param(
            "/healthz?verbose",
            {},
            200,
            "[+]pods ok\n[+]services ok\nhealthz check passed\n",
            id="verbose",
        ),
        pytest.param(
            "/healthz",
            {"pods": "nothing received for 300 s"},
            500,
            "[-]pods failed: nothing received for 300 s\n[+]services ok\nhealthz check failed\n",
            id="failing",
        ),
        pytest.param("/healthz/pods", {}, 200, "ok", id="one-check"),
        pytest.param("/healthz/services", {"pods": "x"}, 200, "ok", id="another-check"),
        pytest.param(
            "/healthz/pods",
            {"pods": "x"},
            500,
            "[-]pods failed: x\nhealthz/pods check failed\n",
            id="one-failing-check",
        ),
        pytest.param("/healthz/healthz", {"pods": "x"}, 200, "ok", id="only-that-it-answers"),
        pytest.param("/readyz/readyz", {"webhooks": "x"}, 200, "ok", id="only-that-it-answers-elsewhere"),
        pytest.param("/healthz/secrets", {}, 404, "404: Not Found", id="no-such-check"),
        pytest.param("/livez", {}, 404, "404: Not Found", id="no-such-endpoint"),
    ],
)
@in_fake_time
async def test_probes(path: str, wrong: dict[str, str], status: int, text: str) -> None:
    async with _probes() as probes:
        probes.wrong.update(wrong)
        assert await probes.get(path) == (status, text)


@in_fake_time
async def test_a_check_runs_on_each_request() -> None:
    async with _probes() as probes:
        statuses = []
        for wrong in ({}, {"pods": "x"}, {}):
            probes.wrong = wrong
            statuses.append((await probes.get("/healthz"))[0])
    assert statuses == [200, 500, 200]


@in_fake_time
async def test_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="lws")
    async with _probes() as probes:
        for wrong in ({"pods": "x"}, {"pods": "x"}, {"pods": "x", "services": "y"}, {}, {"pods": "z"}):
            probes.wrong = wrong
            await probes.get("/healthz")
    assert caplog.messages == [
        "/healthz fails: pods: x",
        "/healthz fails: services: y",
        "/healthz fails: pods: z",
    ]


@in_fake_time
async def test_the_port_is_closed_at_the_end() -> None:
    async with _probes() as probes:
        pass
    with pytest.raises(aiohttp.ClientConnectorError):
        await probes.get("/healthz")


@in_fake_time
async def test_a_port_in_use() -> None:
    async with _probes() as probes:
        second = HealthServer(probes.url.removeprefix("http://"), {})
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            await second.start()
        await second.close()
