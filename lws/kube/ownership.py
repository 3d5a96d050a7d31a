"""By the ControllerRef rules, decide whether to write, adopt or leave alone an object with a child's name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import Any

from lws.kube.metadata import controller_of, is_terminating, metadata_of


class Ownership(Enum):
    """Relation of an existing object to the owner that needs its name."""

    ABSENT = auto()
    OURS = auto()
    TERMINATING = auto()
    """Is terminating, or has an owner that is gone or being replaced: will be deleted without our action."""
    ORPHAN = auto()
    """Has no controller and is like a child of ours: may be adopted."""
    SUFFICIENT = auto()
    """Has no controller and serves the same purpose: left alone, and no child is needed."""
    NAME_CLASH = auto()
    """Has another controller, or has none but is not like a child of ours: left alone."""


def ownership_of(
    obj: Mapping[str, Any] | None,
    owner_uid: str,
    is_like_ours: Callable[[Mapping[str, Any]], bool],
    owners_alive: Collection[str],
) -> Ownership:
    """Return the relation of `obj` to the owner with `owner_uid`. owners_alive: UIDs of live controllers.

    is_like_ours: reports whether an object without a controller is like a child of ours.
    """
    if obj is None:
        return Ownership.ABSENT
    controller = controller_of(obj)
    if controller is not None and controller.get("uid") == owner_uid:
        return Ownership.TERMINATING if is_terminating(obj) else Ownership.OURS
    if controller is not None:
        alive = controller.get("uid") in owners_alive
        return Ownership.NAME_CLASH if alive and not is_terminating(obj) else Ownership.TERMINATING
    if is_terminating(obj):
        return Ownership.TERMINATING
    return Ownership.ORPHAN if is_like_ours(obj) else Ownership.NAME_CLASH


def may_adopt(owner: Mapping[str, Any], reread: Mapping[str, Any] | None) -> bool:
    """Return whether the reread owner is the same and stays. Its deletion would delete what it adopts."""
    if reread is None or is_terminating(reread):
        return False
    return bool(metadata_of(reread).get("uid") == metadata_of(owner).get("uid"))


def owners_with(obj: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the owner references of an object with `reference` in place of any other to the same owner."""
    return [*owners_without(obj, reference), reference]


def owners_without(obj: Mapping[str, Any], reference: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the owner references of an object except those to the owner in `reference`."""
    owners = metadata_of(obj).get("ownerReferences") or ()
    return [owner for owner in owners if owner.get("uid") != reference["uid"]]


def existing_note(obj: Mapping[str, Any]) -> str:
    """Return the start of a sentence that names the existing object and its controller."""
    controller = controller_of(obj)
    owner = "not controlled by anything"
    if controller is not None:
        owner = f"controlled by {controller['kind']} {controller['name']}"
    return f"{obj['kind']} {obj['metadata']['name']} exists and is {owner}"


def name_clash_note(obj: Mapping[str, Any], owner_kind: str, owner_name: str) -> str:
    """Return a sentence for users that names both objects and the remedy."""
    return (
        f"{existing_note(obj)}: {owner_kind} {owner_name} needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )
