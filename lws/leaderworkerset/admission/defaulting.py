"""Set defaults on a LeaderWorkerSet."""

from __future__ import annotations

from typing import Any

from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import completed_backoff
from lws_api.leaderworkerset.v1 import RestartPolicy, RolloutStrategyType

_UNSET = (None, "")
_BUDGETS = (fields.PARTITION, fields.MAX_UNAVAILABLE, fields.MAX_SURGE)


def default(raw: dict[str, Any]) -> None:
    """Set the defaults that upstream's webhook sets, in place; repeating it changes nothing. Fields that
    upstream's API lacks are never set: clients compare whole specs. The schema rejects wrong types.
    """
    spec = _object_in(raw, fields.SPEC)
    if spec is None:
        return
    _set(spec, fields.REPLICAS, (None,))
    for field in (fields.GROUP_IDENTITY, fields.GROUP_REPLACEMENT_POLICY):
        _set(spec, field, _UNSET)
    if (template := _object_in(spec, fields.LEADER_WORKER_TEMPLATE)) is not None:
        _set(template, fields.RESTART_POLICY, _UNSET)
        if template[fields.RESTART_POLICY.name] == RestartPolicy.DEFAULT:
            template[fields.RESTART_POLICY.name] = RestartPolicy.NONE.value
        backoff = template.get(fields.RESTART_BACKOFF.name)
        if isinstance(backoff, dict):
            template[fields.RESTART_BACKOFF.name] = completed_backoff(backoff)
    if (strategy := _object_in(spec, fields.ROLLOUT_STRATEGY)) is not None:
        _set(strategy, fields.ROLLOUT_STRATEGY_TYPE, _UNSET)
        is_rolling = strategy[fields.ROLLOUT_STRATEGY_TYPE.name] == RolloutStrategyType.ROLLING_UPDATE
        if is_rolling and strategy.get(fields.ROLLING_UPDATE_CONFIGURATION.name) is None:
            strategy[fields.ROLLING_UPDATE_CONFIGURATION.name] = {
                field.name: field.stored_default for field in _BUDGETS
            }
    if (network := _object_in(spec, fields.NETWORK_CONFIG)) is not None:
        _set(network, fields.SUBDOMAIN_POLICY, (None,))


def _set(parent: dict[str, Any], field: fields.Field, unset: tuple[object, ...]) -> None:
    if parent.get(field.name) in unset:
        parent[field.name] = field.stored_default


def _object_in(parent: dict[str, Any], field: fields.Field) -> dict[str, Any] | None:
    """Return the object in that field, created if missing or null; None if the value is not an object."""
    value = parent.get(field.name)
    if value is None:
        value = parent[field.name] = {}
    return value if isinstance(value, dict) else None
