"""Which StatefulSets of a set cannot get their pods made, and why?

In: StatefulSets, pass by pass, and the Events of their controller, read live where one is short of pods for a
while. Out: what its controller was told. Nothing is read for a set whose pods are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from lws import timing
from lws.actions import Object
from lws.cluster.client.connection import Cluster
from lws.cluster.observe.failed_creates import FailedCreates
from lws.kube.refusals import Obstruction
from lws.kube.statefulsets import is_short

# Groups of one set lack their pods for one reason; to ask about each of a thousand would help nobody.
_MOST_ASKED = 3


@dataclass(slots=True)
class _Short:
    """One StatefulSet that is short of pods.

    checked: when its Events were last listed. words: what they say.
    """

    since: datetime
    checked: datetime | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """look_again: seconds until there may be more to know, None where no pod is missing."""

    obstructions: tuple[Obstruction, ...] = ()
    look_again: float | None = None


class Shortages:
    """One per process; what it knows is found again after a restart."""

    def __init__(self, cluster: Cluster) -> None:
        self._failed = FailedCreates(cluster)
        self._sets: dict[tuple[str, str], dict[str, _Short]] = {}

    async def of_set(
        self, namespace: str, name: str, statefulsets: Iterable[Object], now: datetime
    ) -> Shortage:
        """statefulsets: of the set's leaders and workers, the leaders' first."""
        short = [each for each in statefulsets if is_short(each)][:_MOST_ASKED]
        if not short:
            self._sets.pop((namespace, name), None)
            return Shortage()
        known = self._sets.get((namespace, name), {})
        watched = {each["metadata"]["uid"]: known.get(each["metadata"]["uid"], _Short(now)) for each in short}
        self._sets[namespace, name] = watched
        for each in short:
            await self._ask(each, watched[each["metadata"]["uid"]], now)
        found = tuple(
            Obstruction(f"StatefulSet {each['metadata']['name']} is short of pods", words)
            for each in short
            if (words := watched[each["metadata"]["uid"]].words)
        )
        return Shortage(found, max(1.0, min(_due(each, now) for each in watched.values())))

    def forget(self, namespace: str, name: str) -> None:
        """There is no set of this name any more."""
        self._sets.pop((namespace, name), None)

    async def _ask(self, statefulset: Object, short: _Short, now: datetime) -> None:
        if _due(short, now) <= 0:
            metadata = statefulset["metadata"]
            short.checked = now
            short.words = await self._failed.words_about(metadata["namespace"], metadata["uid"], now)


def _due(short: _Short, now: datetime) -> float:
    """Seconds until its Events are to be read."""
    if short.checked is None:
        return (short.since + timing.SHORT_OF_PODS_FOR - now).total_seconds()
    return (short.checked + timing.FAILED_CREATES_READ_AGAIN - now).total_seconds()
