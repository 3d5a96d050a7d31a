"""Metrics over TLS, for callers that the API server authorizes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from lws import timing
from lws.config import TlsSettings
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.client.authorization import Authorizer
from lws.runtime.endpoints import metrics_server
from lws.runtime.endpoints.metrics import CONTENT_TYPE, Metrics
from lws.runtime.endpoints.metrics_server import MetricsServer


@dataclass
class FakeAuthorizer:
    """An authorizer that returns `verdict` and records its calls."""

    verdict: int = 200
    requests: list[tuple[str, str]] = field(default_factory=list)

    async def status(self, token: str, path: str) -> int:
        self.requests.append((token, path))
        return self.verdict


@dataclass
class Scraper:
    """A scraper that trusts one CA."""

    authority: bytes
    port: int

    async def get(self, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
        """Return status, content type and text."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(
                f"https://127.0.0.1:{self.port}{path}", headers=headers, server_hostname="webhook.test"
            ) as response,
        ):
            return response.status, response.headers["Content-Type"], await response.text()


@pytest.fixture
def directory(tmp_path: Path, certificates: Certificates) -> Path:
    """A directory that looks like a volume with a certificate from cert-manager."""
    (tmp_path / "tls.crt").write_bytes(certificates.server.certificate)
    (tmp_path / "tls.key").write_bytes(certificates.server.key)
    return tmp_path


def make_server(authorizer: FakeAuthorizer, address: str = "127.0.0.1:0") -> MetricsServer:
    metrics = Metrics()
    metrics.process.leading("lease-of-ours", True)
    return MetricsServer(address, TlsSettings(), metrics, cast(Authorizer, authorizer))


@asynccontextmanager
async def running(server: MetricsServer, directory: Path) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(server.run(directory))
    bound = asyncio.create_task(server.bound.wait())
    try:
        await asyncio.wait({task, bound}, return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        task.cancel()
        bound.cancel()
        await asyncio.gather(task, bound, return_exceptions=True)


@pytest.mark.parametrize(
    ("verdict", "expected_text"),
    [(200, 'leader_election_master_status{name="lease-of-ours"} 1.0'), (401, "Unauthorized")],
)
async def test_scrape(
    verdict: int,
    expected_text: str,
    directory: Path,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_server(FakeAuthorizer(verdict))
    caplog.set_level("INFO")
    async with running(server, directory):
        scraper = Scraper(certificates.authority.certificate, server.port)
        status, content_type, text = await scraper.get(Authorization="Bearer secret")
    assert status == verdict and expected_text in text
    (line,) = (record for record in caplog.records if record.name == "controller-runtime.metrics")
    assert line.getMessage().startswith("Serving metrics server")
    assert ("leader_election" in text) is (verdict == 200), "no metrics are returned without permission"
    assert content_type == (CONTENT_TYPE if verdict == 200 else "text/plain; charset=utf-8")


async def test_every_authorization_verdict_is_returned_to_the_scraper(
    directory: Path, certificates: Certificates
) -> None:
    authorizer = FakeAuthorizer()
    server = make_server(authorizer)
    async with running(server, directory):
        scraper = Scraper(certificates.authority.certificate, server.port)
        for verdict, text in ((403, "Forbidden"), (429, "Too Many Requests"), (500, "Error")):
            authorizer.verdict = verdict
            assert (await scraper.get())[::2] == (verdict, text)
        assert (await scraper.get("/other"))[0] == 404
    assert authorizer.requests == [("", "/metrics")] * 3


async def test_the_token_is_parsed_according_to_rfc_6750(directory: Path, certificates: Certificates) -> None:
    authorizer = FakeAuthorizer(401)
    server = make_server(authorizer)
    headers = ["Bearer one", "bearer  two ", "Basic dXNlcjpw", "three", "", "Bearer"]
    async with running(server, directory):
        scraper = Scraper(certificates.authority.certificate, server.port)
        for header in headers:
            await scraper.get(Authorization=header)
    assert [token for token, _ in authorizer.requests] == ["one", "two", "", "", "", ""]


async def test_plain_http_is_rejected(directory: Path) -> None:
    server = make_server(FakeAuthorizer())
    async with running(server, directory), aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{server.port}/metrics")


async def test_a_port_in_use_is_an_error(directory: Path) -> None:
    first = make_server(FakeAuthorizer())
    async with running(first, directory):
        second = make_server(FakeAuthorizer(), f"127.0.0.1:{first.port}")
        async with running(second, directory) as task:
            assert isinstance(task.exception(), OSError)


async def test_the_port_is_closed_in_the_end(directory: Path) -> None:
    server = make_server(FakeAuthorizer())
    async with running(server, directory):
        pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_certificate_is_created_and_renewed_if_none_is_configured(
    tmp_path: Path,
    certificates: Certificates,
    other_certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    next_ones = [(certificates, "none"), None, (other_certificates, "ends soon")]
    arguments: list[Certificates] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def renewed(stored: Certificates, names: tuple[str, ...], now: datetime) -> Any:
        assert names == ("localhost",) and now.tzinfo is not None
        arguments.append(stored)
        if not next_ones:
            loop.call_soon_threadsafe(done.set)
            return None
        return next_ones.pop(0)

    monkeypatch.setattr(metrics_server, "renewed", renewed)
    monkeypatch.setattr(timing, "METRICS_CERTIFICATE_SECONDS", 0.0)
    server = make_server(FakeAuthorizer())
    async with running(server, tmp_path):
        await done.wait()
        scraper = Scraper(other_certificates.authority.certificate, server.port)
        assert (await scraper.get(Authorization="Bearer x"))[0] == 200
    assert arguments[:4] == [Certificates(), certificates, certificates, other_certificates]


@pytest.mark.parametrize("address", ["", "8443", "host:", "host:x", "host:99999"])
def test_an_invalid_address_is_rejected_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address of the form host:port"):
        make_server(FakeAuthorizer(), address)
