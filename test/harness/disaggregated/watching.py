"""What happened to the DisaggregatedSets of a namespace, change by change?

In: a namespace, from the moment of making this. Out: steps, to be judged; and what children want
now, to wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from test.harness.disaggregated.promises import told, violations
from test.harness.disaggregated.scenes import Seen, Step, steps_of
from test.harness.disaggregated.standing import Counts, counts_in
from test.harness.following import Following
from test.harness.groups import labels_of
from test.harness.world import SET, World

_SELECTORS = {
    KIND: "",
    SCALER_KIND: NAME_LABEL,
    "ControllerRevision": f"{NAME_LABEL},!leaderworkerset.sigs.k8s.io/name",
    SET: NAME_LABEL,
    "Pod": NAME_LABEL,
}


class Watch:
    """Follows all that rollouts are judged by."""

    def __init__(self, world: World) -> None:
        self._streams = {
            kind: Following(world.api, world.path(kind), selector, world.ended)
            for kind, selector in _SELECTORS.items()
        }

    def counts(self, name: str) -> Counts:
        """What the children of a set want, as it was told last."""
        children = self._streams[SET].latest()
        return counts_in(each for each in children if labels_of(each).get(NAME_LABEL) == name)

    def steps(self, name: str) -> list[Step]:
        """All that has happened to a set until now."""
        order, seen = count(), []
        for kind, stream in self._streams.items():
            stream.catch_up()
            changes = stream.changes()
            begun, first = stream.beginning(), changes[0].at if changes else 0.0
            seen.append((begun.version, next(order), Seen(first, kind, begun.frame, is_whole=True)))
            seen += [
                (each.version, next(order), Seen(each.at, kind, {each.name: each.obj})) for each in changes
            ]
        return steps_of(name, (each for _, _, each in sorted(seen, key=lambda each: each[:2])))

    def judge(self, name: str, lost: Collection[str] = ()) -> list[Step]:
        """Fail if a promise about the set was broken. lost: children that the test has deleted."""
        steps = self.steps(name)
        broken = violations(steps, lost)
        if broken:
            first = min(each.position for each in broken)
            print(f"{name}, until the first promise was broken:", *told(steps[: first + 1]), sep="\n  ")
            pytest.fail("\n".join(["broken promises:", *(f"{name}: {each.what}" for each in broken)]))
        return steps
