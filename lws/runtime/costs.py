"""Costs of a step, a status write and a pass, and the minimum seconds between two of the same type.

They grow with the number of groups. No delay is longer than its cost justifies: delays of a set of 40 groups
are not noticeable.

Figures are CPU seconds of the control plane and the manager, measured by sixty writes in a row to a settled
set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from lws import timing

PASS_SHARE = 0.02
"""Share of a core for the passes over one key. Reviews of pods wait for passes: there is only one thread."""

ALL_PASSES_SHARE = 0.04
"""Share of a core for the passes over all sets. If it is exceeded, each key is delayed longer.

Otherwise ten sets of 500 groups in a rollout would take 0.2 of a core, as much as all the work for their
groups. Now they take 0.07, and a hundred sets take 0.15.
"""

READ_SHARE = 0.05
"""Share of the time for reads of the Events of one namespace, which the API server filters one by one.

On a busy cluster, where pods are created slowly, a read took 0.7 s. Such a read every 4 s added to the load.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU seconds of one write: a fixed part, and a part for each group of the set.

    share: the share of a core that the writes of one set may take in the long run.
    """

    fixed: float
    per_group: float
    share: float

    def pace(self, groups: int) -> float:
        """Return the seconds between two writes in the long run, limited so that large sets show progress."""
        cost = self.fixed + self.per_group * max(0, groups)
        return min(cost / self.share, timing.LONGEST_PACE_SECONDS)


STEP = Cost(0.022, 0.00006, share=0.025)
"""Cost of a step: the checkpoint in the set's status, the apply of its StatefulSet, the StatefulSet
controller's reconcile of all leaders and its status, and our passes.

A step takes 24 ms for 40 groups and 46 ms for 400; replacing one group of four pods takes 300 ms. Groups that
may restart are idle while a step waits, so a step may take more than a status.
"""

STATUS = Cost(0.010, 0.00004, share=0.007)
"""Cost of a status: the write, what the API server sends to the set's watchers, and our pass.

A status names each group, and takes 12 ms for 40 groups and 26 ms for 400. Only readers of the status wait
for it.
"""


def status_pause(groups: int) -> float:
    """Return the seconds between two statuses that only report progress.

    For a set of one group, a status costs a tenth of its rollout. So no group is reported more often than
    every 5 s on average.
    """
    return max(STATUS.pace(groups), timing.LONGEST_PACE_SECONDS / max(1, groups))


def read_pause(read: float) -> timedelta:
    """Return the time until the next read of Events, by the seconds that the last one took.

    It is at most the interval of reads for one StatefulSet.
    """
    pause = max(timing.FAILED_CREATES_FRESH, timedelta(seconds=read / READ_SHARE))
    return min(pause, timing.FAILED_CREATES_READ_AGAIN)


def delay_after(duration: float) -> float:
    """Return the seconds from the beginning of a pass of this duration until events may start the next."""
    return duration / PASS_SHARE


class PassLoad:
    """Durations of recent passes over whole sets, and the delay that each of them causes."""

    def __init__(self) -> None:
        self._taken = 0.0
        self._at = 0.0

    def delay_after(self, duration: float, now: float) -> float:
        """Return `delay_after`, or more if passes over all sets exceed their share. now: by any clock."""
        self._taken = self._taken * math.exp((self._at - now) / timing.PASS_LOAD_SECONDS) + duration
        self._at = now
        excess = max(1.0, self._taken / timing.PASS_LOAD_SECONDS / ALL_PASSES_SHARE)
        # Squared: with a proportional delay, thirty sets would still take four times their share.
        return delay_after(duration) * excess**2
