"""What is written of revisions that are there already: of one that is wanted again, and of orphans?

In: decoded revisions, and the owner that may adopt them. Out: actions.
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.actions import Action, Merge, Object, SetOwner
from lws.history.names import HIGHEST_NUMBER, storable
from lws.history.order import Entry


def plan_reuse(known: Entry, newest: int, owner: Object | None) -> tuple[Action, ...]:
    """Adopt it if it is an orphan, make it the newest if it is not (Controller History); its key stays.

    newest: the highest number there is. owner: the reference that an orphan gets; None while none may be
    adopted.
    """
    patch: dict[str, object] = {}
    why = "an orphan of the set is adopted"
    if known.number < min(newest, HIGHEST_NUMBER):
        patch["revision"] = storable(newest + 1)
        why = f"the set asks again for what revision {known.number} holds"
    if known.is_orphan:
        # Nothing is written to what nobody controls but its owner.
        return (SetOwner(known.reference, owner, why, patch=patch),) if owner is not None else ()
    return (Merge(known.reference, patch, why=why),) if patch else ()


def plan_adoption(orphans: Iterable[Entry], owner: Object) -> tuple[Action, ...]:
    """An orphaned history comes along as a whole (ControllerRef rules)."""
    return tuple(
        SetOwner(each.reference, owner, why=f"revision {each.number} has no owner") for each in orphans
    )
