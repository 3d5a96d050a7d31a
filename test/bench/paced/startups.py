"""Distributions of how long pods take to become ready, the same in every run.

A distribution is an annotation for the nodes of the local cluster. Only the name of a pod decides its
seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ANNOTATION = "localcluster/ready-after"

_SEED = 17
_PLACES = 65521


@dataclass(frozen=True)
class Startup:
    """A distribution of start times.

    seconds: the possible times, of which the name of a pod selects one. Pods start at once if it is empty.
    """

    name: str
    about: str
    seconds: tuple[float, ...] = ()

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations of a pod template."""
        return {ANNOTATION: ",".join(f"{delay:g}s" for delay in self.seconds)} if self.seconds else {}

    def of(self, pod: str) -> float:
        """Return the seconds of a pod of this name, by the same rule as tools/localcluster/stages.yaml."""
        if not self.seconds:
            return 0.0
        index = 0
        for letter in pod:
            index = (index * 31 + ord(letter)) % _PLACES
        return self.seconds[index % len(self.seconds)]


def _shuffled(*seconds: float) -> tuple[float, ...]:
    """Shuffle the times, so that neighbouring groups do not have neighbouring times."""
    mixed = list(seconds)
    random.Random(_SEED).shuffle(mixed)
    return tuple(mixed)


INSTANT = Startup("instant", "at once")
FIXED = Startup("fixed", "12 s each", (12.0,))
UNIFORM = Startup("uniform", "8 to 16 s", _shuffled(*(8 + index / 4 for index in range(33))))
TAIL = Startup("tail", "12 s, one in twenty 60 s", (*[12.0] * 19, 60.0))

STARTUPS = {startup.name: startup for startup in (INSTANT, FIXED, UNIFORM, TAIL)}
