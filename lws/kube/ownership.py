"""Whose object is this: may we act on it, adopt it, wait for it, or is it in our way (ControllerRef rules).

In: an object that has a name we would give, the UID of the owner it should have, and what is known of other
owners. Out: its `Ownership`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import Any

from lws.kube.metadata import controller_of, is_terminating, metadata_of


class Ownership(Enum):
    """Relation of an object to the owner that needs its name."""

    ABSENT = auto()
    OURS = auto()
    LEAVING = auto()
    """Being deleted, or its owner is gone or being replaced: it will go by itself."""
    ORPHAN = auto()
    """No controller, and it is like what we would have made: may be adopted."""
    SUFFICIENT = auto()
    """It belongs to somebody else and does what ours would do: never touched, and nothing is missing."""
    CLASH = auto()
    """It belongs to somebody else, or to nobody and is not like ours: never touched."""


def ownership_of(
    obj: Mapping[str, Any] | None,
    owner_uid: str,
    is_like_ours: Callable[[Mapping[str, Any]], bool],
    owners_alive: Collection[str],
) -> Ownership:
    """The relation of `obj` to the owner with `owner_uid`.

    is_like_ours: whether we could have made an object that nobody controls. owners_alive: UIDs of other
    controllers known to live.
    """
    if obj is None:
        return Ownership.ABSENT
    controller = controller_of(obj)
    if controller is not None and controller.get("uid") == owner_uid:
        return Ownership.LEAVING if is_terminating(obj) else Ownership.OURS
    if controller is not None:
        alive = controller.get("uid") in owners_alive
        return Ownership.CLASH if alive and not is_terminating(obj) else Ownership.LEAVING
    if is_terminating(obj):
        return Ownership.LEAVING
    return Ownership.ORPHAN if is_like_ours(obj) else Ownership.CLASH


def may_adopt(owner: Mapping[str, Any], reread: Mapping[str, Any] | None) -> bool:
    """Whether a read past every cache has shown the very owner, and it is not going.

    Otherwise an owner that is deleted already would take with it what it adopts.
    """
    if reread is None or is_terminating(reread):
        return False
    return bool(metadata_of(reread).get("uid") == metadata_of(owner).get("uid"))


def owners_with(obj: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The owners of an object, `reference` among them in place of any other to the same owner."""
    return [*owners_without(obj, reference), reference]


def owners_without(obj: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The owners of an object but the one that `reference` leads to."""
    owners = metadata_of(obj).get("ownerReferences") or ()
    return [owner for owner in owners if owner.get("uid") != reference["uid"]]


def existing_note(obj: Mapping[str, Any]) -> str:
    """The start of a sentence: the existing object and its owner."""
    controller = controller_of(obj)
    owner = "not controlled by anything"
    if controller is not None:
        owner = f"controlled by {controller['kind']} {controller['name']}"
    return f"{obj['kind']} {obj['metadata']['name']} exists and is {owner}"


def clash_note(obj: Mapping[str, Any], owner_kind: str, owner_name: str) -> str:
    """One sentence for users that names both objects and says what to do."""
    return (
        f"{existing_note(obj)}: {owner_kind} {owner_name} needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )
