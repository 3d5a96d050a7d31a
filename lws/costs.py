"""What a step, a status write and a pass cost, and the minimum interval between two of a kind.

In: the number of groups. Out: seconds. Nothing is delayed longer than its cost justifies: delays of a set of
40 groups are not noticeable.

Figures are CPU seconds of the control plane and of the manager, measured by sixty writes in a row to a set at
rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from lws import timing

LOOK_SHARE = 0.02
"""Of a core, for the passes over one key: they run in our one thread, and reviews of pods wait for them."""

LOOKS_SHARE = 0.04
"""Of a core, for the passes over all sets: from there on each rests longer. Ten sets of 500 groups, all of
them moving, would take 0.2 of a core otherwise, as much as everything that is done for their groups. Now they
take 0.07, a hundred 0.15.
"""

READ_SHARE = 0.05
"""Of the time, for reads of the Events of one namespace, which the API server goes through one by one. In a
cluster with much to do, where pods take long to be made, one took 0.7 s: every 4 s, it had still more to do.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds: of one, and on top for each group that the set has. share: of a core that those of one set
    may take in the long run.
    """

    fixed: float
    per_group: float
    share: float

    def pace(self, groups: int) -> float:
        """Seconds between two, in the long run; however large the set is, people want to see it move."""
        cost = self.fixed + self.per_group * max(0, groups)
        return min(cost / self.share, timing.LONGEST_PACE_SECONDS)


STEP = Cost(0.022, 0.00006, share=0.025)
"""The checkpoint in the set's status, the apply of its StatefulSet, that controller's look at all leaders and
its report, and our passes: 24 ms for 40 groups, 46 ms for 400, where to replace one group of four pods takes
300 ms. Slots of the budget are idle while a step waits, so it may take more than a status.
"""

STATUS = Cost(0.010, 0.00004, share=0.007)
"""The write, what the API server sends to those who watch the set, and our pass: 12 ms for 40 groups, 26 ms
for 400, each of which it names. Nobody waits for it but those who read.
"""


def step_pace(groups: int) -> float:
    """Seconds between two small steps of a rollout, in the long run."""
    return STEP.pace(groups)


def status_pause(groups: int) -> float:
    """Seconds between two statuses that say only how far a set is.

    Of a set of one group, a status costs a tenth of all that a rollout does to it: no group is told of more
    often than every 5 s on average.
    """
    return max(STATUS.pace(groups), timing.LONGEST_PACE_SECONDS / max(1, groups))


def read_pause(read: float) -> timedelta:
    """From a read of Events that took so many seconds to the next one, and no longer than between two looks
    at one StatefulSet.
    """
    pause = max(timing.FAILED_CREATES_FRESH, timedelta(seconds=read / READ_SHARE))
    return min(pause, timing.FAILED_CREATES_READ_AGAIN)


def rest_after(look: float) -> float:
    """Seconds from the beginning of a pass that took so many until events may start the next one."""
    return look / LOOK_SHARE


class Looks:
    """Durations of recent passes over whole sets, and the delay that each of them causes."""

    def __init__(self) -> None:
        self._taken = 0.0
        self._at = 0.0

    def rest_after(self, look: float, now: float) -> float:
        """Seconds, as the function of this name says, or longer where sets are many. now: by any clock."""
        self._taken = self._taken * math.exp((self._at - now) / timing.LOOKS_SECONDS) + look
        self._at = now
        crowding = max(1.0, self._taken / timing.LOOKS_SECONDS / LOOKS_SHARE)
        # Squared: they take less for it, so that in proportion thirty sets would still take four times that.
        return rest_after(look) * crowding**2
