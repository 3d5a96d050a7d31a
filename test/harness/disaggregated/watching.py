"""What happened to the DisaggregatedSets of a namespace, change by change?

In: a namespace, from the moment of making this. Out: steps, to be judged; and what children want
now, to wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, SCALER_KIND, SLICE_LABEL
from test.harness.disaggregated.promises import told, violations
from test.harness.disaggregated.scenes import Seen, Step, steps_of
from test.harness.disaggregated.standing import Counts, counts_in
from test.harness.following import Change, Following
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

    def emptied(self, name: str) -> dict[tuple[str, str], list[tuple[int, float]]]:
        """Slice and revision → when its children were told to have no groups any more, one after the other:
        version of the store, and seconds of a clock.
        """
        stream = self._streams[SET]
        stream.catch_up()
        begun, wanted = stream.beginning(), dict[str, int]()
        found: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for each in [
            *(Change(begun.version, 0.0, child, obj) for child, obj in begun.frame.items()),
            *stream.changes(),
        ]:
            labels = labels_of(each.obj) if each.obj is not None else {}
            if labels.get(NAME_LABEL) != name or each.obj is None:
                continue
            before, wanted[each.name] = wanted.get(each.name, 0), each.obj["spec"]["replicas"]
            if before and not wanted[each.name]:
                revision = labels.get(SLICE_LABEL, "0"), labels[REVISION_LABEL]
                found.setdefault(revision, []).append((each.version, each.at))
        return found

    def judge(self, name: str, lost: Collection[str] = ()) -> list[Step]:
        """Fail if a promise about the set was broken. lost: children that the test has deleted."""
        steps = self.steps(name)
        broken = violations(steps, lost)
        if broken:
            first = min(each.position for each in broken)
            print(f"{name}, until the first promise was broken:", *told(steps[: first + 1]), sep="\n  ")
            pytest.fail("\n".join(["broken promises:", *(f"{name}: {each.what}" for each in broken)]))
        return steps
