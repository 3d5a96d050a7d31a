"""Did anything change? Identities of all objects of a namespace, and what differs between two moments.

In: a namespace. Out: kind and name → UID, generation and resource version; differences in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from test.harness.groups import name_of
from test.harness.world import SET, World

KINDS = (SET, "StatefulSet", "Pod", "Service", "ControllerRevision")


class Identity(NamedTuple):
    """generation is 0 where the kind has none."""

    uid: str
    generation: int
    version: str


Identities = Mapping[str, Identity]


def identities(world: World, *kinds: str) -> dict[str, Identity]:
    """All objects of these kinds, by default of all kinds that a set consists of."""
    return {
        f"{kind} {name_of(each)}": Identity(
            each["metadata"]["uid"],
            each["metadata"].get("generation", 0),
            each["metadata"]["resourceVersion"],
        )
        for kind in kinds or KINDS
        for each in world.list(kind)
    }


def differences(before: Identities, after: Identities) -> list[str]:
    """What is new, gone, replaced or was written in between; sorted."""
    found = [f"{key} is new" for key in after.keys() - before.keys()]
    found += [f"{key} is gone" for key in before.keys() - after.keys()]
    for key in before.keys() & after.keys():
        then, now = before[key], after[key]
        if then.uid != now.uid:
            found.append(f"{key} was replaced")
        elif then.generation != now.generation:
            found.append(f"{key} has a new spec")
        elif then.version != now.version:
            found.append(f"{key} was written")
    return sorted(found)


def specs(found: Identities) -> dict[str, Identity]:
    """Who they are and which spec they have; a status may still be written of what is at rest."""
    return {key: each._replace(version="") for key, each in found.items()}


def uids(found: Identities) -> dict[str, str]:
    """Only who they are, whatever was written to them."""
    return {key: each.uid for key, each in found.items()}
