"""Compare all objects of a namespace at two moments by UID, generation and resource version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from test.harness.groups import name_of
from test.harness.world import SET, World

KINDS = (SET, "StatefulSet", "Pod", "Service", "ControllerRevision")


class Identity(NamedTuple):
    """The identity of one object at one moment.

    generation: 0 if the kind has none.
    """

    uid: str
    generation: int
    version: str


Identities = Mapping[str, Identity]


def identities(world: World, *kinds: str) -> dict[str, Identity]:
    """Return the identities of all objects of these kinds; by default of all kinds of which a set
    consists.
    """
    return {
        f"{kind} {name_of(obj)}": Identity(
            obj["metadata"]["uid"],
            obj["metadata"].get("generation", 0),
            obj["metadata"]["resourceVersion"],
        )
        for kind in kinds or KINDS
        for obj in world.list(kind)
    }


def differences(before: Identities, after: Identities) -> list[str]:
    """Describe objects that are new, gone, replaced or were written in between; sorted."""
    changes = [f"{key} is new" for key in after.keys() - before.keys()]
    changes += [f"{key} is gone" for key in before.keys() - after.keys()]
    for key in before.keys() & after.keys():
        then, now = before[key], after[key]
        if then.uid != now.uid:
            changes.append(f"{key} was replaced")
        elif then.generation != now.generation:
            changes.append(f"{key} has a new spec")
        elif then.version != now.version:
            changes.append(f"{key} was written")
    return sorted(changes)


def specs(objects: Identities) -> dict[str, Identity]:
    """Keep UIDs and generations only, because the status of an object at rest may still be written."""
    return {key: identity._replace(version="") for key, identity in objects.items()}


def uids(objects: Identities) -> dict[str, str]:
    """Keep UIDs only, to ignore all writes to the objects."""
    return {key: identity.uid for key, identity in objects.items()}
