"""The path and default of every field of a LeaderWorkerSet that decisions read.

The set may have been stored under any version of the CRD: fields may be missing, null or of the wrong type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from lws.kube.metadata import is_mapping
from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy
from lws_api.leaderworkerset.v1 import (
    PodTerminationPolicy,
    RestartPolicy,
    RolloutStrategyType,
    StartupPolicy,
    SubdomainPolicy,
    SubGroupPolicyType,
)


def value_at(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; None if any part of the path is missing, null or no object."""
    value: Any = raw
    for part in path:
        # The first check saves a call: passes read hundreds of fields.
        if type(value) is not dict and not is_mapping(value):
            return None
        value = value.get(part)
    return value


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a set. default: the value if the field is absent; None if there is no default."""

    path: tuple[str, ...]
    default: Any = None
    name: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.path[-1])

    def __str__(self) -> str:
        return ".".join(self.path)

    def field(self, name: str, default: Any = None) -> Field:
        """A field of the object in this one."""
        return Field((*self.path, name), default)

    @property
    def stored_default(self) -> Any:
        """The default as JSON has it."""
        return self.default.value if isinstance(self.default, StrEnum) else self.default

    def of(self, raw: Mapping[str, Any]) -> Any:
        """The value of the field in a set; None if it is not set."""
        return value_at(raw, self.path)


SPEC = Field(("spec",))
REPLICAS = SPEC.field("replicas", 1)
STARTUP_POLICY = SPEC.field("startupPolicy", StartupPolicy.LEADER_CREATED)
POD_TERMINATION = SPEC.field("podTerminationPolicy", PodTerminationPolicy.DEFAULT)
HISTORY_LIMIT = SPEC.field("revisionHistoryLimit", 10)
PROGRESS_DEADLINE = SPEC.field("progressDeadlineSeconds")
MAX_GROUP_RESTARTS = SPEC.field("maxGroupRestarts")
START_STRATEGY = SPEC.field("startStrategy")
SEED_GROUPS = START_STRATEGY.field("seedGroups", 1)
GROWTH_FACTOR = START_STRATEGY.field("growthFactor", 2)
GROUP_IDENTITY = SPEC.field("groupIdentity", GroupIdentity.ORDINAL)
GROUP_REPLACEMENT = SPEC.field("groupReplacementPolicy", GroupReplacementPolicy.POST_TERMINATION)
SCHEDULING = SPEC.field("scheduling")
MANAGED_BY = SPEC.field("managedBy")
LEADER_SERVICE = SPEC.field("leaderService")

TEMPLATE = SPEC.field("leaderWorkerTemplate")
LEADER_TEMPLATE = TEMPLATE.field("leaderTemplate")
WORKER_TEMPLATE = TEMPLATE.field("workerTemplate")
SIZE = TEMPLATE.field("size", 1)
RESTART_POLICY = TEMPLATE.field("restartPolicy", RestartPolicy.RECREATE_GROUP_ON_POD_RESTART)
RESTART_BUDGET = TEMPLATE.field("maxGroupRestarts")
RESTART_BACKOFF = TEMPLATE.field("restartBackoff")
BACKOFF_BASE = RESTART_BACKOFF.field("baseSeconds", 10)
BACKOFF_CAP = RESTART_BACKOFF.field("capSeconds", 300)
CLAIMS = TEMPLATE.field("volumeClaimTemplates")
CLAIM_RETENTION = TEMPLATE.field("persistentVolumeClaimRetentionPolicy")
SUBGROUP = TEMPLATE.field("subGroupPolicy")
SUBGROUP_SIZE = SUBGROUP.field("subGroupSize")
SUBGROUP_TYPE = SUBGROUP.field("subGroupPolicyType", SubGroupPolicyType.LEADER_WORKER)

STRATEGY = SPEC.field("rolloutStrategy")
STRATEGY_TYPE = STRATEGY.field("type", RolloutStrategyType.ROLLING_UPDATE)
PAUSED = STRATEGY.field("paused")
PREWARM = STRATEGY.field("prewarm")
PREWARM_DEADLINE = PREWARM.field("deadlineSeconds", 600)
PREWARM_PARALLELISM = PREWARM.field("parallelism", 10)
PREWARM_COMMAND = PREWARM.field("command")
ROLLING_UPDATE = STRATEGY.field("rollingUpdateConfiguration")
PARTITION = ROLLING_UPDATE.field("partition", 0)
MAX_UNAVAILABLE = ROLLING_UPDATE.field("maxUnavailable", 1)
MAX_SURGE = ROLLING_UPDATE.field("maxSurge", 0)

NETWORK = SPEC.field("networkConfig")
SUBDOMAIN_POLICY = NETWORK.field("subdomainPolicy", SubdomainPolicy.SHARED)

DISRUPTION_BUDGET = SPEC.field("podDisruptionBudget")
MAX_UNAVAILABLE_GROUPS = DISRUPTION_BUDGET.field("maxUnavailableGroups")

MOST_REPLICAS = 1_000_000
"""The most groups that a set may have."""
