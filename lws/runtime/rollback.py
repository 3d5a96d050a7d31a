"""Detect that the cluster went back to an older state, as it does when etcd is restored from a backup.

In: resourceVersions of consistent reads, and the newest ones seen before they began. Out: an error for an
older read, and a flag that stays set. A watch, or a list from a cache, may lag behind on any of several API
servers; a read of one object, or a list without a resourceVersion, never does.
"""

from __future__ import annotations

import asyncio

from lws.kube.metadata import version_number
from lws.runtime.errors import ClusterError


class RolledBack(ClusterError):
    """A consistent read was older than what was seen before: what is in memory may never have happened."""


class Rollback:
    """Records whether a rollback was detected. One per engine, discarded with it."""

    def __init__(self) -> None:
        self._noticed = asyncio.Event()
        self._error = RolledBack("")

    @property
    def is_noticed(self) -> bool:
        """Nothing that was read so far may be acted on."""
        return self._noticed.is_set()

    async def wait(self) -> None:
        """Raises RolledBack once a rollback is detected."""
        await self._noticed.wait()
        raise self._error

    def compare(self, what: str, version: str, read: int, known: int) -> None:
        """An object of a consistent list as of `version`: its version there, and the newest one known of it.

        Raises RolledBack where the list must have the known one and does not: a restored etcd may count
        its revisions on from where they were, and the objects still go back.
        """
        if read < known <= version_number(version):
            self._notice(what, read, known)

    def check(self, what: str, version: str, newest: int) -> int:
        """The resourceVersion of a consistent read as a number; 0 for one that is no number.

        newest: the newest one of this resource that was seen before the read began. Raises RolledBack.
        """
        read = version_number(version)
        if 0 < read < newest:
            self._notice(what, read, newest)
        return read

    def _notice(self, what: str, read: int, newest: int) -> None:
        self._noticed.set()
        self._error = RolledBack(
            f"{what}: the API server shows resourceVersion {read} after {newest}: etcd was restored from "
            "a backup, and nothing is written before everything is listed anew"
        )
        raise self._error
