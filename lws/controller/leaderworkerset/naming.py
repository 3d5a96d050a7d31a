"""Which set, group and revision does a pass look at? For the debug log.

In: snapshots. Out: fields.
"""

from __future__ import annotations

from lws.controller.endpoints.pass_log import Fields
from lws.group.snapshot import GroupSnapshot
from lws.kube.metadata import is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import REVISION_LABEL


def of_set(snapshot: SetSnapshot) -> Fields:
    """revision: the key that all groups are to have; empty where nothing is decided about the set."""
    lws = snapshot.lws
    is_left_alone = why_left_alone(lws, snapshot.is_covered, snapshot.fault) is not None
    key = "" if is_left_alone or is_terminating(lws) else assess(snapshot).target.key
    return {"set": lws["metadata"]["name"], "revision": key}


def of_group(snapshot: GroupSnapshot) -> Fields:
    """revision: the key that the leader was made from; empty where nothing shows it."""
    leader = snapshot.leader
    return {
        "set": snapshot.lws["metadata"]["name"],
        "group": parent_and_ordinal(leader["metadata"]["name"])[1],
        "revision": labels_of(leader).get(REVISION_LABEL, ""),
    }
