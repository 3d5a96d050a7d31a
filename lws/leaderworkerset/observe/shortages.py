"""Which StatefulSets of a set cannot get their pods made, and why.

In: StatefulSets, pass by pass, and the Events of their controller, read where one is short of pods for a
while. Out: what its controller was told, and when. Nothing is read for a set whose pods are there, and no
pass waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lws import timing
from lws.kube.conditions import Obstruction
from lws.kube.statefulsets import is_short
from lws.leaderworkerset.observe.failed_creates import FailedCreates
from lws.runtime.actions import Object

# Groups of one set lack their pods for one reason; to report it for each of a thousand would help nobody.
_MOST_REPORTED = 3


@dataclass(slots=True)
class _Short:
    """One StatefulSet that is short of pods. checked: when its Events were last asked for."""

    since: datetime
    checked: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """look_again: seconds until there may be more to know, None where no pod is missing. refused_at: when a
    pod was last refused to each StatefulSet that is short for a while, by UID.
    """

    obstructions: tuple[Obstruction, ...] = ()
    look_again: float | None = None
    refused_at: Mapping[str, datetime] = field(default_factory=dict)


class Shortages:
    """What it knows is found again after a restart."""

    def __init__(self, failed: FailedCreates) -> None:
        self._failed = failed
        self._sets: dict[tuple[str, str], dict[str, _Short]] = {}

    def of_set(self, namespace: str, name: str, statefulsets: Iterable[Object], now: datetime) -> Shortage:
        """statefulsets: of the set's leaders and workers, the leaders' first."""
        short = {each["metadata"]["uid"]: each for each in statefulsets if is_short(each)}
        if not short:
            self._sets.pop((namespace, name), None)
            return Shortage()
        known = self._sets.get((namespace, name), {})
        watched = self._sets[namespace, name] = {uid: known.get(uid, _Short(now)) for uid in short}
        lasting = [uid for uid, each in watched.items() if now - each.since >= timing.SHORT_OF_PODS_FOR]
        reported = list(short.items())[:_MOST_REPORTED]
        due = [watched[uid] for uid, _ in reported if _due(watched[uid], now) <= 0]
        if due:
            for each in due:
                each.checked = now
            self._failed.ask(namespace, name, lasting, now)
        found = tuple(
            Obstruction(f"StatefulSet {each['metadata']['name']} is short of pods", words)
            for uid, each in reported
            if watched[uid].checked is not None and (words := self._failed.about(namespace, uid, now))
        )
        look_again = max(1.0, min(_due(watched[uid], now) for uid, _ in reported))
        # One read of Events has told it of all StatefulSets of the namespace.
        last = ((uid, self._failed.last_about(namespace, uid, now)) for uid in lasting)
        return Shortage(found, look_again, {uid: moment for uid, moment in last if moment is not None})

    def forget(self, namespace: str, name: str) -> None:
        """There is no set of this name any more."""
        self._sets.pop((namespace, name), None)


def _due(short: _Short, now: datetime) -> float:
    """Seconds until its Events are to be read."""
    if short.checked is None:
        return (short.since + timing.SHORT_OF_PODS_FOR - now).total_seconds()
    return (short.checked + timing.FAILED_CREATES_READ_AGAIN - now).total_seconds()
