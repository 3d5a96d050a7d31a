"""The kinds of workload that are watched: which objects are made for one, and by which label they are found.

In: nothing. Out: what streams show, so that everything else knows where a read past them is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.runtime.client.resources import (
    CLAIMS,
    CONTROLLER_REVISIONS,
    DISAGGREGATED_SETS,
    LEADERWORKERSETS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_SCALERS,
    SERVICES,
    STATEFULSETS,
    Resource,
)
from lws_api.disaggregatedset.v1 import NAME_LABEL as DISAGGREGATED_NAME_LABEL
from lws_api.leaderworkerset.v1 import NAME_LABEL


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of workload and what is made for it.

    resource: the kind itself, watched as a whole. label: on all that is made for it, with the name of the
    workload as its value; what lacks it is not watched. children: the kinds that are made. owners: those of
    them that control others.
    """

    resource: Resource
    label: str
    children: tuple[Resource, ...]
    owners: frozenset[str] = frozenset()


LEADER_WORKER_SET = Workload(
    LEADERWORKERSETS,
    NAME_LABEL,
    (STATEFULSETS, PODS, SERVICES, CONTROLLER_REVISIONS, CLAIMS, POD_DISRUPTION_BUDGETS),
    frozenset({"StatefulSet", "Pod"}),
)

# What is made for its LeaderWorkerSets is theirs.
DISAGGREGATED_SET = Workload(
    DISAGGREGATED_SETS,
    DISAGGREGATED_NAME_LABEL,
    (LEADERWORKERSETS, SERVICES, CONTROLLER_REVISIONS, ROLE_SCALERS),
)
