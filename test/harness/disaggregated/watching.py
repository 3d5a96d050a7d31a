"""Follow the DisaggregatedSets of a namespace change by change, from the creation of a `Watch` on."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, SCALER_KIND, SLICE_LABEL
from test.harness.disaggregated.promises import described, violations
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
    """Follows all objects that are needed to judge rollouts."""

    def __init__(self, world: World) -> None:
        self._streams = {
            kind: Following(world.api, world.path(kind), selector, world.ended)
            for kind, selector in _SELECTORS.items()
        }

    def counts(self, name: str) -> Counts:
        """Return the desired groups of the children of a set, after the last change that has arrived."""
        children = self._streams[SET].latest()
        return counts_in(child for child in children if labels_of(child).get(NAME_LABEL) == name)

    def steps(self, name: str) -> list[Step]:
        """Return all changes of a set until now."""
        order, seen = count(), []
        for kind, stream in self._streams.items():
            stream.catch_up()
            changes = stream.changes()
            first, at = stream.beginning(), changes[0].at if changes else 0.0
            seen.append((first.version, next(order), Seen(at, kind, first.frame, is_whole=True)))
            seen += [
                (change.version, next(order), Seen(change.at, kind, {change.name: change.obj}))
                for change in changes
            ]
        return steps_of(name, (entry for _, _, entry in sorted(seen, key=lambda row: row[:2])))

    def emptied(self, name: str) -> dict[tuple[str, str], list[tuple[int, float]]]:
        """Return slice and revision → moments at which its children were scaled to 0, in order: the version
        of the store, and seconds of a monotonic clock.
        """
        stream = self._streams[SET]
        stream.catch_up()
        first, desired = stream.beginning(), dict[str, int]()
        emptied: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for change in [
            *(Change(first.version, 0.0, child, obj) for child, obj in first.frame.items()),
            *stream.changes(),
        ]:
            labels = labels_of(change.obj) if change.obj is not None else {}
            if labels.get(NAME_LABEL) != name or change.obj is None:
                continue
            before, desired[change.name] = desired.get(change.name, 0), change.obj["spec"]["replicas"]
            if before and not desired[change.name]:
                revision = labels.get(SLICE_LABEL, "0"), labels[REVISION_LABEL]
                emptied.setdefault(revision, []).append((change.version, change.at))
        return emptied

    def judge(self, name: str, lost: Collection[str] = ()) -> list[Step]:
        """Fail if a promise about the set was broken.

        lost: the children that the test has deleted.
        """
        steps = self.steps(name)
        broken = violations(steps, lost)
        if broken:
            first = min(violation.position for violation in broken)
            print(f"{name}, until the first promise was broken:", *described(steps[: first + 1]), sep="\n  ")
            pytest.fail(
                "\n".join(["broken promises:", *(f"{name}: {violation.what}" for violation in broken)])
            )
        return steps
