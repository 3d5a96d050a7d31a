"""What changed from one revision to another?

In: two of them, as a set asks for them or as they are recorded. Out: a line for each change.
"""

from __future__ import annotations

from lws.kube.differences.comparison import explain
from lws.leaderworkerset.revisions.encoding import equality_tree
from lws.leaderworkerset.revisions.history import Record, Recorded

_WORDS = {
    "leaderTemplate": "leader template",
    "leaderWorkerTemplate": "",
    "networkConfig": "",
    "volumeClaimTemplates": "claim template",
    "workerTemplate": "worker template",
}


def describe(old: Record | Recorded, new: Record | Recorded) -> list[str]:
    """What changed from one to the other, a line each: `worker template container main image: a:1 → a:2`."""
    before, after = (
        {**equality_tree(each.spec), "metadata": {"annotations": each.topology or {}}} for each in (old, new)
    )
    return explain(before, after, _WORDS)
