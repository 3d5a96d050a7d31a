"""Play the Service through which the API server reaches the webhooks of several managers.

It is a port of this host that forwards to the first manager that answers, in the given order, without
changing any bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import TracebackType

from tools.deployment import ManagerProcess

_START_SECONDS = 10.0
_HOST = "127.0.0.1"


class Endpoint:
    """A context manager for the port.

    managers: may be replaced at any time. latency: seconds that bytes take in each direction, by default 0.
    """

    def __init__(self, managers: Sequence[ManagerProcess] = ()) -> None:
        self.managers = managers
        self.latency = 0.0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Endpoint:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for manager in self.managers:
                try:
                    streams = await asyncio.open_connection(_HOST, manager.webhook_port)
                except OSError:
                    continue
                await self._join(reader, writer, *streams)
                return
        except asyncio.CancelledError:
            # The loop is ending; asyncio would report a connection that is cancelled.
            return
        finally:
            # Close instead of abort, so that buffered bytes still arrive.
            writer.close()

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Forward in both directions until one end closes, then close both."""
        ways = {
            asyncio.ensure_future(self._pass_on(reader, far_writer)),
            asyncio.ensure_future(self._pass_on(far_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ways:
                task.cancel()
            far_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(2**16):
                await asyncio.sleep(self.latency)
                writer.write(chunk)
                await writer.drain()
        except OSError:
            return
