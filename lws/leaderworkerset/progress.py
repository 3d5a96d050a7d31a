"""When did a set last come closer to what it asks for, and is that too long ago?

In: the stored status, and what this pass has found. Out: the moment to remember, and whether the set is
stalled. Losing that memory delays the verdict, nothing else; nothing follows from the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws.kube.conditions import Condition, moment_of, timestamp

STALLED = "Stalled"

LAST_PROGRESS = "lastProgressTime"
"""The field of the status that remembers."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a set is measured by.

    deadline: how long it may go without progress. is_progressing: groups are being created or replaced.
    was_progressing: so it was at the last write of the status. is_paused: the user has stopped the rollout.
    has_moved: something new is asked for, or the rollout goes a step further. settled: groups that are ready
    on the wanted revision.
    """

    deadline: timedelta
    now: datetime
    is_progressing: bool
    was_progressing: bool
    is_paused: bool
    has_moved: bool
    settled: int

    def last_progress(self, stored: Mapping[str, Any]) -> str | None:
        """The moment to remember (RFC 3339); None where nothing has happened yet.

        More settled groups than last time are progress, and so is whatever starts the clock anew: a step, a
        new wish, the first trouble after a time of rest.
        """
        known: str | None = stored.get(LAST_PROGRESS)
        groups = stored.get("groups")
        has_begun = self.is_progressing and (not self.was_progressing or self.has_moved or not known)
        is_better = groups is not None and self.settled > int((groups.get("counts") or {}).get("Ready") or 0)
        return timestamp(self.now) if has_begun or is_better else known

    def due_in(self, last: str | None) -> float | None:
        """Seconds until the set counts as stalled, 0 if it does; None where it is at rest or paused."""
        moment = moment_of(last)
        if not self.is_progressing or self.is_paused or moment is None:
            return None
        return max(0.0, (moment + self.deadline - self.now).total_seconds())


def stalled(pace: Pace, due_in: float | None, why: str) -> Condition:
    """The condition; why: which groups it waits for, and what they lack."""
    if due_in == 0:
        said = f"No progress for {pace.deadline.total_seconds():.0f} s; {why}"
        return Condition(STALLED, True, "ProgressDeadlineExceeded", said)
    if not pace.is_progressing:
        return Condition(STALLED, False, "AtRest", "No group is being created or replaced")
    if pace.is_paused:
        return Condition(STALLED, False, "RolloutPaused", "The rollout is paused")
    return Condition(STALLED, False, "Progressing", "Groups are being created or replaced, and it goes on")
