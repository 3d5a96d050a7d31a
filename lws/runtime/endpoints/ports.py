"""Check at startup that every configured port can be opened, so that the error names the setting. Each server
opens its port itself, later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from lws.config import Settings
from lws.runtime.endpoints.plain_server import split_address

Place = tuple[str, str | None, int]
"""(setting, host or None for every interface, port)"""


async def check_ports(settings: Settings) -> None:
    """Open and close every port that will be served. Raises OSError for the first that cannot be opened."""
    for setting, host, port in _places(settings):
        try:
            server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
        except OSError as error:
            # asyncio adds the address and its own words to the message of the system.
            number = error.errno or 0
            reason = os.strerror(number).lower() if number > 0 else str(error)
            raise OSError(
                f"{setting}: cannot listen on {host or 'every interface'} port {port}: {reason}; "
                "set another address, or stop what uses this one"
            ) from error
        server.close()
        await server.wait_closed()


def _places(settings: Settings) -> Iterator[Place]:
    webhook = settings.webhook
    if webhook.enabled:
        yield "webhook.port", webhook.host or None, webhook.port
    addresses = {
        "health.healthProbeBindAddress": settings.health_bind_address,
        "metrics.bindAddress": settings.metrics_bind_address,
        "debug.bindAddress": settings.debug_bind_address,
    }
    for setting, address in addresses.items():
        if address is not None:
            yield setting, *split_address(address)
