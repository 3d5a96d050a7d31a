"""Report whether objects of a set are still to be created, recorded or adopted.

If so, the set is first read from the API server instead of the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lws.leaderworkerset.assessment.likeness import may_be_adopted
from lws.leaderworkerset.children.disruption_budget import wants_disruption_budget
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import SubdomainPolicy

Named = tuple[Object | None, Object | None, Object | None, Object | None]


def has_gaps(lws: Object, named: Named, revisions: Collection[Recorded]) -> bool:
    """Whether anything is still to be created, recorded or adopted.

    named: leader StatefulSet, Service, budget, Service of the leaders.
    """
    return is_incomplete(lws, *named) or not revisions or has_orphans(named, revisions)


def has_orphans(objects: Iterable[Object | None], revisions: Iterable[Recorded]) -> bool:
    """Whether the set may adopt any of these."""
    if any(obj is not None and may_be_adopted(obj) for obj in objects):
        return True
    return any(recorded.is_orphan for recorded in revisions)


def is_incomplete(
    lws: Object,
    leader: Object | None,
    service: Object | None,
    budget: Object | None,
    of_leaders: Object | None = None,
) -> bool:
    """Whether an object of the set is still to be created. of_leaders: the Service of its leaders."""
    spec = SetSpec.of(lws)
    needs_service = spec.subdomain_policy == SubdomainPolicy.SHARED
    lacks_budget = budget is None and wants_disruption_budget(spec)
    lacks_of_leaders = of_leaders is None and spec.leader_service is not None
    return leader is None or (service is None and needs_service) or lacks_budget or lacks_of_leaders
