"""Distributions of how long pods take to become ready, the same in every run.

A distribution is an annotation for the nodes of the local cluster; the name of a pod alone decides its
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
    """seconds: a pod takes the one at the place that its name leads to; none are waited for without any."""

    name: str
    about: str
    seconds: tuple[float, ...] = ()

    @property
    def annotations(self) -> dict[str, str]:
        """Of a pod template."""
        return {ANNOTATION: ",".join(f"{each:g}s" for each in self.seconds)} if self.seconds else {}

    def of(self, pod: str) -> float:
        """Seconds that a pod of this name takes; as tools/localcluster/stages.yaml has it."""
        if not self.seconds:
            return 0.0
        place = 0
        for letter in pod:
            place = (place * 31 + ord(letter)) % _PLACES
        return self.seconds[place % len(self.seconds)]


def _shuffled(*seconds: float) -> tuple[float, ...]:
    """Neighbours among groups are not to be neighbours in time."""
    mixed = list(seconds)
    random.Random(_SEED).shuffle(mixed)
    return tuple(mixed)


INSTANT = Startup("instant", "at once")
FIXED = Startup("fixed", "12 s each", (12.0,))
UNIFORM = Startup("uniform", "8 to 16 s", _shuffled(*(8 + index / 4 for index in range(33))))
TAIL = Startup("tail", "12 s, one in twenty 60 s", (*[12.0] * 19, 60.0))

STARTUPS = {each.name: each for each in (INSTANT, FIXED, UNIFORM, TAIL)}
