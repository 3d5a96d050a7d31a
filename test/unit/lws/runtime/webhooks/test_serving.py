"""What must exist before webhooks are answered, and the host names for which they are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import kopf
import pytest

from lws.config import Settings, load
from lws.runtime.certificates.internal import SecretReference
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.client.connection import Cluster
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.webhooks import serving
from lws.runtime.webhooks.server import AdmissionServer
from lws.runtime.webhooks.serving import Serving
from lws_api.config.v1alpha1 import InternalCertManagement, Webhook

DEFAULTS = load(None, {}, {}, namespace_file=Path("there-is-none"))
NO_CERTIFICATE = "there is no valid serving certificate"
NO_PORT = "the webhook port is not open yet"


def settings_of(
    *, enabled: bool = True, internal: bool = True, host: str = "", directory: str = ""
) -> Settings:
    # Validation would replace port 0.
    sections = {
        "webhook": Webhook().model_copy(update={"host": host, "port": 0, "cert_dir": directory}),
        "internal_cert_management": InternalCertManagement(enable=internal),
    }
    configuration = DEFAULTS.configuration.model_copy(update=sections)
    return replace(DEFAULTS, configuration=configuration, serves_webhooks=enabled)


def serving_of(settings: Settings) -> Serving:
    return Serving(settings, cast(Cluster, object()), Metrics(), {})


async def review(*_: Any, **__: Any) -> Any:
    raise AssertionError("nobody asks for a review here")


async def open_port(parts: Serving) -> asyncio.Task[None]:
    """Start the server as kopf does, and wait until the port is open."""
    opened = asyncio.Event()

    async def serve() -> None:
        assert parts.server is not None
        port = asyncio.create_task(parts.server.run())
        try:
            await supply(parts.server)
        finally:
            port.cancel()
            await asyncio.gather(port, return_exceptions=True)

    async def supply(server: AdmissionServer) -> None:
        async for _configuration in server(cast(kopf.WebhookFn, review)):
            opened.set()

    task = asyncio.create_task(serve())
    await opened.wait()
    return task


@pytest.fixture
def directory(tmp_path: Path, certificates: Certificates) -> Iterator[str]:
    (tmp_path / "tls.crt").write_bytes(certificates.server.certificate)
    (tmp_path / "tls.key").write_bytes(certificates.server.key)
    yield str(tmp_path)


async def test_readiness_requires_a_certificate_and_an_open_port(directory: str) -> None:
    parts = serving_of(settings_of(internal=False, host="127.0.0.1", directory=directory))
    assert parts.not_ready() == NO_CERTIFICATE
    supplying = asyncio.create_task(parts.run())
    while parts.not_ready() == NO_CERTIFICATE:
        await asyncio.sleep(0)
    assert parts.not_ready() == NO_PORT
    serving_task = await open_port(parts)
    assert parts.not_ready() is None
    for task in (supplying, serving_task):
        task.cancel()
    await asyncio.gather(supplying, serving_task, return_exceptions=True)
    assert parts.not_ready() == NO_PORT


async def test_without_webhooks_the_certificate_is_still_managed(directory: str) -> None:
    parts = serving_of(settings_of(enabled=False, internal=False, directory=directory))
    assert parts.server is None
    assert parts.not_ready() == NO_CERTIFICATE
    supplying = asyncio.create_task(parts.run())
    while parts.not_ready() is not None:
        await asyncio.sleep(0)
    supplying.cancel()
    await asyncio.gather(supplying, return_exceptions=True)


@dataclass
class Supplier:
    """A stand-in for the supplier of certificates that talks to the API server."""

    cluster: Any
    secret: SecretReference
    install: Any
    clock: Any
    on_check: Any
    is_ready: bool = False


@pytest.mark.parametrize(
    ("host", "names"),
    [
        pytest.param("", (), id="every interface"),
        pytest.param("0.0.0.0", (), id="every IPv4 interface"),
        pytest.param("::", (), id="every IPv6 interface"),
        pytest.param("10.0.0.7", ("10.0.0.7",), id="an address"),
        pytest.param("webhook.example.com", ("webhook.example.com",), id="a name"),
    ],
)
async def test_names_of_our_own_certificate(
    host: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    suppliers: list[Supplier] = []

    def supply(*arguments: Any) -> Supplier:
        suppliers.append(Supplier(*arguments))
        return suppliers[-1]

    monkeypatch.setattr(serving, "InternalCertificates", supply)
    parts = serving_of(settings_of(host=host))
    (supplier,) = suppliers
    every = ("lws-webhook-service.lws-system.svc", *names)
    assert supplier.secret == SecretReference("lws-system", "lws-webhook-server-cert", every)
    assert supplier.clock().tzinfo is not None
    assert parts.not_ready() == NO_CERTIFICATE
    supplier.is_ready = True
    assert parts.not_ready() == NO_PORT
