"""What does a LeaderWorkerSet say that leaves something out?

In: the set as the API server decoded it. Out: defaults set in place.
"""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.v1 import RestartPolicy, RolloutStrategyType, SubdomainPolicy

_UNSET = (None, "")


def default(raw: dict[str, Any]) -> None:
    """Set, in place, the defaults that the CRD cannot carry; a second call changes nothing.

    Fields that the original controller's API does not have are never set: clients compare whole specs.
    Values of the wrong type stay as they are, for the schema to refuse.
    """
    spec = _object_in(raw, "spec")
    if spec is None:
        return
    template = _object_in(spec, "leaderWorkerTemplate")
    if template is not None:
        if template.get("restartPolicy") in _UNSET:
            template["restartPolicy"] = RestartPolicy.RECREATE_GROUP_ON_POD_RESTART.value
        elif template["restartPolicy"] == RestartPolicy.DEFAULT:
            template["restartPolicy"] = RestartPolicy.NONE.value
    strategy = _object_in(spec, "rolloutStrategy")
    if strategy is not None:
        if strategy.get("type") in _UNSET:
            strategy["type"] = RolloutStrategyType.ROLLING_UPDATE.value
        if (
            strategy["type"] == RolloutStrategyType.ROLLING_UPDATE
            and strategy.get("rollingUpdateConfiguration") is None
        ):
            strategy["rollingUpdateConfiguration"] = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    network = _object_in(spec, "networkConfig")
    if network is not None and network.get("subdomainPolicy") is None:
        network["subdomainPolicy"] = SubdomainPolicy.SHARED.value


def _object_in(parent: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The object at `key`, made if missing or null; None where something else is in its place."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value if isinstance(value, dict) else None
