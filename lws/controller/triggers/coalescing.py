"""Which changes can wait a moment, so that several of them make one pass?

In: a change that concerns a group, its leader pod, and the StatefulSet that has the name of its workers', as
they are known now. Out: seconds. Nothing waits that a next step waits for.
"""

from __future__ import annotations

from lws.actions import Object
from lws.controller.triggers.predicates import comes_up, is_calm
from lws.kube.metadata import is_controlled_by, is_terminating

# All that is decided about a group on its way out is whether a lost node holds it, for which its pods get
# more than their grace period.
_GOING_SECONDS = 2.0
# A group that is being made brings several changes for each of its pods. The pass notes who its workers
# are, and whether they are others than they were; that one of them goes is never put off.
_COMING_SECONDS = 1.0


def patience(before: Object | None, after: Object | None, leader: Object, workers: Object | None) -> float:
    """Seconds that the pass over the group can be put off."""
    if is_terminating(leader):
        return _GOING_SECONDS
    if after is None or is_terminating(after):
        return 0.0
    uid = leader["metadata"]["uid"]
    is_leader = after["metadata"]["uid"] == uid
    if before is not None:
        has_workers = workers is not None and is_controlled_by(workers, uid)
        return _COMING_SECONDS if is_leader and has_workers and comes_up(before, after) else 0.0
    is_new_worker = after["kind"] == "Pod" and not is_leader and is_calm(after.get("status") or {})
    return _COMING_SECONDS if is_new_worker or is_controlled_by(after, uid) else 0.0
