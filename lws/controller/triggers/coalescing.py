"""Which changes can wait a moment, so that several of them make one pass?

In: a change that concerns a group, its leader pod, and the StatefulSet that has the name of its workers', as
they are known now. Out: seconds. Nothing waits that a next step waits for.
"""

from __future__ import annotations

from lws import timing
from lws.actions import Object
from lws.cluster.cache.fields import Wakes
from lws.cluster.cache.pod_start import is_undisturbed
from lws.cluster.cache.tables import wakes
from lws.kube.metadata import is_controlled_by, is_terminating


def delay_of(before: Object | None, after: Object | None, leader: Object, workers: Object | None) -> float:
    """Seconds that the pass over the group can be put off."""
    if is_terminating(leader):
        return timing.ENDING_SECONDS
    if after is None or is_terminating(after):
        return timing.AT_ONCE if _has_failed(before, after) else 0.0
    uid = leader["metadata"]["uid"]
    is_leader = after["metadata"]["uid"] == uid
    if _has_failed(before, after) or (is_leader and before is None):
        return timing.AT_ONCE
    if before is not None:
        has_workers = workers is not None and is_controlled_by(workers, uid)
        can_wait = is_leader and has_workers and wakes(before, after) <= Wakes.LATER
        return timing.STARTING_SECONDS if can_wait else 0.0
    is_new_worker = after["kind"] == "Pod" and not is_leader and is_undisturbed(after)
    return timing.STARTING_SECONDS if is_new_worker or is_controlled_by(after, uid) else 0.0


def _has_failed(before: Object | None, after: Object | None) -> bool:
    """A pod of the group, by its state or by somebody who deletes it: once each, however many follow."""
    if before is None or after is None or after["kind"] != "Pod":
        return False
    if is_terminating(after):
        return not is_terminating(before)
    return is_undisturbed(before) and not is_undisturbed(after)
