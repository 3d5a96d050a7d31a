"""Annotations of a LeaderWorkerSet that say where its groups run, in addition to upstream's.

Users set them on the set. The controller copies them to pod templates, and records them with revisions:
pods depend on them.
"""

from __future__ import annotations

from enum import StrEnum

from lws_api.leaderworkerset.v1 import LABEL_PREFIX

EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION = f"{LABEL_PREFIX}/exclusive-topology-scope"
"""Which other groups are kept out of an exclusive topology: one of `ExclusiveTopologyScope`."""

SHARED_TOPOLOGY_ANNOTATION = f"{LABEL_PREFIX}/shared-topology"
"""A node label: all pods of a group run on nodes with one value of it, which other groups may share."""

SUBGROUP_SHARED_TOPOLOGY_ANNOTATION = f"{LABEL_PREFIX}/subgroup-shared-topology"
"""The same for subgroups."""

GROUP_NODE_SELECTOR_ANNOTATION = f"{LABEL_PREFIX}/group-node-selector"
"""Labels that nodes of a group must have, such as `example.com/pool=pool-$(GROUP_INDEX)`, with commas
between them.
"""

GROUP_TOLERATIONS_ANNOTATION = f"{LABEL_PREFIX}/group-tolerations"
"""Taints that pods of a group tolerate, such as `example.com/group=$(GROUP_NAME):NoSchedule`, with commas
between them.
"""

NODE_RETURN_ANNOTATION = f"{LABEL_PREFIX}/node-return"
"""Whether recreated pods return to the nodes of the former pods of their names: one of `NodeReturn`. It
changes no template, and takes effect for pods that are created from then on.
"""

NODE_RETURN_EXCEPT_ANNOTATION = f"{LABEL_PREFIX}/node-return-except"
"""Names of nodes to which no pod returns, with commas between them."""

RETURNS_TO_ANNOTATION = f"{LABEL_PREFIX}/returns-to"
"""On a pod: the only node that it may run on (`NodeReturn.REQUIRED`)."""

PLACEMENT_GATE = f"{LABEL_PREFIX}/placement"
"""Scheduling gate of leaders that select nodes by their group, removed when the webhook sets it."""

GROUP_INDEX_REFERENCE = "$(GROUP_INDEX)"
"""Replaced by the index of the group."""

GROUP_NAME_REFERENCE = "$(GROUP_NAME)"
"""Replaced by the name of the group, which is that of its leader pod."""

NAMESPACE_REFERENCE = "$(NAMESPACE)"
"""Replaced by the namespace of the set."""


class NodeReturn(StrEnum):
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class ExclusiveTopologyScope(StrEnum):
    LEADER_WORKER_SET = "LeaderWorkerSet"
    NAMESPACE = "Namespace"
    CLUSTER = "Cluster"
