"""Which groups stay, although they are not ready, when a set is scaled down?

In: a set as it is to be stored, and as it was, with the status that the controller has written. Out: a
warning. The scale subresource calls no webhook: users who scale by it are told by an Event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import SetSpec

_DOWN = ("NotReady", "Broken")


def scaling_warnings(old: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> list[str]:
    """StatefulSets take the highest index first, ready or not."""
    if spec.replicas >= before.replicas:
        return []
    down = {index: name for name, index in _groups_that_are_down(old)}
    staying = [name for index, name in sorted(down.items()) if index < spec.replicas]
    if not staying or all(index in down for index in range(spec.replicas, before.replicas)):
        return []
    return [
        f"spec.replicas: {spec.replicas}: groups with the highest indices go, ready or not; not ready are "
        f"{', '.join(staying)}, which stay. A group is made anew when its leader pod is deleted"
    ]


def _groups_that_are_down(raw: Mapping[str, Any]) -> list[tuple[str, int]]:
    named = fields.value_at(raw, ("status", "groups", "unsettled"))
    told = [each for each in named if isinstance(each, Mapping)] if isinstance(named, list) else []
    names = [str(each.get("name")) for each in told if each.get("state") in _DOWN]
    return [(name, index) for name in names if (index := parent_and_ordinal(name)[1]) >= 0]
