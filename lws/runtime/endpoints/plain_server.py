"""Serve an application over plain HTTP at a configured address."""

from __future__ import annotations

from aiohttp import web

from lws import timing


def split_address(address: str) -> tuple[str | None, int]:
    """Split `host:port` as Go programs write it: an empty host means every interface.

    Raises ValueError for any other form.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.strip("[]") or None, int(port)


class PlainServer:
    """Serves an application."""

    def __init__(self, address: str, application: web.Application) -> None:
        self._host, self._port = split_address(address)
        grace = timing.ENDPOINTS_GRACE_SECONDS
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=grace)

    async def start(self) -> None:
        """Open the port. Raises OSError if that fails."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    @property
    def port(self) -> int:
        """The open port."""
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()
