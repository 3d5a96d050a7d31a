"""Which changes can wait a moment, so that several of them make one pass?

In: a change that concerns a group, its leader pod, and the StatefulSet that has the name of its workers', as
they are known now. Out: seconds. Nothing waits that a next step waits for.
"""

from __future__ import annotations

from lws.actions import Object
from lws.cluster.cache.fields import Wakes
from lws.cluster.cache.pod_start import is_undisturbed
from lws.cluster.cache.tables import wakes
from lws.kube.metadata import is_controlled_by, is_terminating

# All that is decided about a group on its way out is whether a lost node holds it, for which its pods get
# more than their grace period.
_ENDING_SECONDS = 2.0
# A group that is being made brings several changes for each of its pods. The pass notes who its workers
# are, and whether they are others than they were; that one of them goes is never put off.
_STARTING_SECONDS = 1.0


def delay_of(before: Object | None, after: Object | None, leader: Object, workers: Object | None) -> float:
    """Seconds that the pass over the group can be put off."""
    if is_terminating(leader):
        return _ENDING_SECONDS
    if after is None or is_terminating(after):
        return 0.0
    uid = leader["metadata"]["uid"]
    is_leader = after["metadata"]["uid"] == uid
    if before is not None:
        has_workers = workers is not None and is_controlled_by(workers, uid)
        can_wait = is_leader and has_workers and wakes(before, after) <= Wakes.LATER
        return _STARTING_SECONDS if can_wait else 0.0
    is_new_worker = after["kind"] == "Pod" and not is_leader and is_undisturbed(after)
    return _STARTING_SECONDS if is_new_worker or is_controlled_by(after, uid) else 0.0
