"""Run an HTTP proxy on loopback that opens and records CONNECT tunnels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class ConnectProxy:
    """A CONNECT proxy.

    port: the loopback port at the end of every tunnel. asked: the host and port of each request.
    """

    port: int
    url: str = ""
    asked: list[str] = field(default_factory=list)
    _pumps: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.splitlines()[0].split(" ")
        assert method == "CONNECT", head
        self.asked.append(target)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._pumps.add(asyncio.create_task(_pump(source, sink)))

    async def stop(self) -> None:
        """Close every tunnel."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


@asynccontextmanager
async def proxying(port: int) -> AsyncIterator[ConnectProxy]:
    """Run a proxy whose tunnels all lead to `port`."""
    proxy = ConnectProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
