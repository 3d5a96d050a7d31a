"""Keep credentials current: load new ones before they expire, and after the API server rejects them.

In: a coroutine that loads them into a configuration of the kubernetes client. Out: the hook that the client
calls for each request.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubernetes.aio.client.configuration import Configuration

from lws import timing
from lws.runtime.errors import Unreachable

log = logging.getLogger(__name__)

# Early by as much as the kubernetes client, but never by more than a fifth of what is left.
_EARLY_SHARE = 0.2


class UserConfiguration(Configuration):
    """Of a kubeconfig. impersonation: headers that ask for the rights of somebody else."""

    impersonation: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lifetime:
    """look: seconds until there may be newer ones. left: seconds until these end."""

    look: float = math.inf
    left: float = math.inf

    @classmethod
    def ending_in(cls, seconds: float) -> Lifetime:
        """Of credentials that say when they end."""
        return cls(seconds - min(timing.CREDENTIALS_EARLY_SECONDS, seconds * _EARLY_SHARE), seconds)


Load = Callable[[Configuration], Awaitable[Lifetime]]


class Renewal:
    """`refresh_api_key_hook` of one configuration.

    The hooks of the kubernetes client run within the request that needs them. Ours renews beside the requests
    while the credentials at hand are good: a Lease is lost after ten seconds, a plugin may take longer.
    """

    def __init__(self, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._look_at = self._end_at = math.inf
        self._tried_at = -math.inf
        self._failure: str | None = None
        self._running: asyncio.Task[None] | None = None

    async def begin(self, configuration: Configuration) -> None:
        """Load for the first time, and be the hook from then on. Raises what loading raises."""
        self._remember(await self._load(configuration))
        # The client sets None in its constructor, from which the type of the attribute is read.
        configuration.refresh_api_key_hook = self  # type: ignore[assignment]

    async def __call__(self, configuration: Configuration) -> None:
        """Before each request. Raises Unreachable if the credentials have ended and there are no new ones."""
        now = self._clock()
        if now < self._look_at:
            return
        renewal = self._renew(configuration)
        if now >= self._end_at:
            await asyncio.shield(renewal)
            if self._failure is not None:
                raise Unreachable(f"no credentials for the API server: {self._failure}")

    async def after_refusal(self, configuration: Configuration) -> None:
        """The API server does not take what we have (401): load anew, however long it should be good."""
        if self._clock() >= self._tried_at + timing.CREDENTIALS_RETRY_SECONDS or self._running is not None:
            await asyncio.shield(self._renew(configuration))

    def _renew(self, configuration: Configuration) -> asyncio.Task[None]:
        """One at a time, for all callers."""
        if self._running is None:
            self._tried_at = self._clock()
            self._running = asyncio.get_running_loop().create_task(self._load_again(configuration))
        return self._running

    async def _load_again(self, configuration: Configuration) -> None:
        try:
            async with asyncio.timeout(timing.CREDENTIALS_SECONDS):
                lifetime = await self._load(configuration)
            self._remember(lifetime)
            self._failure = None
        except Exception as error:
            # Files and plugins of others make the client library stumble in any way.
            is_late = isinstance(error, TimeoutError)
            late = f"no answer within {timing.CREDENTIALS_SECONDS:g} s" if is_late else ""
            self._failure = late or " ".join(str(error).split()) or type(error).__name__
            self._look_at = self._clock() + timing.CREDENTIALS_RETRY_SECONDS
            log.warning("credentials for the API server cannot be renewed: %s", self._failure)
        finally:
            self._running = None

    def _remember(self, lifetime: Lifetime) -> None:
        now = self._clock()
        self._look_at, self._end_at = now + max(lifetime.look, 1.0), now + lifetime.left
