"""Judge an object that has the name a create needs: the very object that was to be created, or an obstacle.

For each set it also remembers names that its revisions cannot have. No stream shows objects without our
labels, so nothing else would tell the plan.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator

from lws.kube.metadata import controller_of, is_controlled_by, is_terminating, labels_of, missing_labels
from lws.runtime.actions import Create, Object, Verbatim
from lws.runtime.store import Store

_SETS = 4096


def is_as_made(existing: Object, intent: Object) -> bool:
    """Whether what exists is what was to be made: the create counts as done.

    It has the same controller by UID, is not going, carries the labels, and holds the data that were to be
    written byte for byte. Anything else is in the way, and for the next plan to see.
    """
    controller = controller_of(intent)
    if controller is None or not is_controlled_by(existing, controller["uid"]) or is_terminating(existing):
        return False
    if missing_labels(existing, labels_of(intent), labels_of(intent)):
        return False
    verbatim = {field: value.text for field, value in intent.items() if isinstance(value, Verbatim)}
    return all(existing.get(field) == json.loads(text) for field, text in verbatim.items())


class TakenNames:
    """Names of ControllerRevisions that creates of ours met, for as long as the store has what was met.

    Objects of every other kind have one name, which is looked at in each pass.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By UID of the set: namespace and name.
        self._taken: OrderedDict[str, set[tuple[str, str]]] = OrderedDict()

    def remember(self, action: Create) -> None:
        """Take in that the name is taken; what has it is in the store."""
        intent, owner = action.intent, controller_of(action.intent)
        if intent["kind"] != "ControllerRevision" or owner is None:
            return
        place = (intent["metadata"]["namespace"], intent["metadata"]["name"])
        self._taken.setdefault(owner["uid"], set()).add(place)
        self._taken.move_to_end(owner["uid"])
        if len(self._taken) > _SETS:
            self._taken.popitem(last=False)

    def forget(self, uid: str) -> None:
        """There is no set with this UID any more."""
        self._taken.pop(uid, None)

    def of_set(self, uid: str) -> tuple[Object, ...]:
        """What has names that revisions of the set with this UID were to get, and is not its own."""
        return tuple(each for each in self._there(uid) if not is_controlled_by(each, uid))

    def _there(self, uid: str) -> Iterator[Object]:
        for place in sorted(self._taken.get(uid, ())):
            found = self._store.get("ControllerRevision", *place)
            if found is not None:
                yield found
