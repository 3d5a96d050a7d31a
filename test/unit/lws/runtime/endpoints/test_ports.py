"""A port that cannot be opened is reported before anything else starts, under the user's name for it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lws.config import Settings, load
from lws.runtime.endpoints.health import check_ports
from lws_api.config.v1alpha1 import Webhook

LOOPBACK = "127.0.0.1"


def settings(webhook: int = 0, health: str = "0", metrics: str = "0") -> Settings:
    flags = {"health-probe-bind-address": health, "metrics-bind-address": metrics}
    loaded = load(None, flags, {}, Path("nowhere"))
    # Validation would replace port 0.
    webhook_settings = Webhook().model_copy(update={"host": LOOPBACK, "port": webhook})
    return replace(
        loaded, configuration=loaded.configuration.model_copy(update={"webhook": webhook_settings})
    )


async def test_free_ports_are_free_afterwards() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    await check_ports(settings(port, f"{LOOPBACK}:0", f"{LOOPBACK}:0"))
    socket.create_server((LOOPBACK, port)).close()


@pytest.mark.parametrize("setting", ["webhook.port", "health.healthProbeBindAddress", "metrics.bindAddress"])
async def test_a_port_in_use(setting: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        by_setting = {
            "webhook.port": settings(webhook=port),
            "health.healthProbeBindAddress": settings(health=f"{LOOPBACK}:{port}"),
            "metrics.bindAddress": settings(metrics=f"{LOOPBACK}:{port}"),
        }
        with pytest.raises(OSError) as refusal:
            await check_ports(by_setting[setting])
    assert str(refusal.value) == (
        f"{setting}: cannot listen on {LOOPBACK} port {port}: address already in use; "
        "set another address, or stop the process that uses this one"
    )


async def test_an_address_of_another_host() -> None:
    with pytest.raises(OSError, match=r"^metrics\.bindAddress: cannot listen on 192\.0\.2\.1 port 1: "):
        await check_ports(settings(metrics="192.0.2.1:1"))


async def test_disabled_webhooks_need_no_port() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        configured = settings(webhook=server.getsockname()[1])
        await check_ports(replace(configured, serves_webhooks=False))
