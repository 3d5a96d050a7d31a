"""Whose object is this: may we act on it, adopt it, wait for it, or is it in our way (ControllerRef rules).

In: an object that has a name we would give, the UID of the owner it should have, and what is known of other
owners. Out: its `Standing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

from lws.kube.metadata import controller_of, is_terminating, labels_of


class Standing(Enum):
    """What an object is to the owner that would like to have one of its name."""

    ABSENT = auto()
    OURS = auto()
    LEAVING = auto()
    """Being deleted, or its owner is gone or being replaced: it will go by itself."""
    ORPHAN = auto()
    """No controller, and the labels are those we would have given it: may be adopted."""
    CLASH = auto()
    """It belongs to somebody else, or to nobody and is not like ours: never touched."""


def standing_of(
    obj: Mapping[str, Any] | None,
    owner_uid: str,
    labels: Mapping[str, str],
    owners_alive: Collection[str],
) -> Standing:
    """The standing of `obj` towards the owner with `owner_uid`.

    labels: those that an object of ours carries at least. owners_alive: UIDs of other controllers known to
    live.
    """
    if obj is None:
        return Standing.ABSENT
    controller = controller_of(obj)
    if controller is not None and controller.get("uid") == owner_uid:
        return Standing.LEAVING if is_terminating(obj) else Standing.OURS
    if controller is not None:
        alive = controller.get("uid") in owners_alive
        return Standing.CLASH if alive and not is_terminating(obj) else Standing.LEAVING
    if is_terminating(obj):
        return Standing.LEAVING
    carried = labels_of(obj)
    is_like_ours = all(carried.get(key) == value for key, value in labels.items())
    return Standing.ORPHAN if is_like_ours else Standing.CLASH


def clash_note(obj: Mapping[str, Any], owner_kind: str, owner_name: str) -> str:
    """One sentence for users that names both objects and says what to do."""
    controller = controller_of(obj)
    owner = "not controlled by anything"
    if controller is not None:
        owner = f"controlled by {controller['kind']} {controller['name']}"
    kind, name = obj["kind"], obj["metadata"]["name"]
    return (
        f"{kind} {name} exists and is {owner}: {owner_kind} {owner_name} needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )
