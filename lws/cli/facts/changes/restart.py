"""Build the merge patch that restarts every group of a set in one rollout.

It sets the annotation of `kubectl rollout restart` in the pod templates; a `Refusal` if that is not possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lws.cli.refusal import Refusal
from lws.disaggregatedset.spec import parse
from lws.kube.conditions import timestamp
from lws.kube.differences.patches import with_merged
from lws.leaderworkerset import fields
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object

RESTARTED_AT_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
_TEMPLATE = fields.TEMPLATE.name
_PODS = (fields.LEADER_TEMPLATE.name, fields.WORKER_TEMPLATE.name)


def of_set(lws: Object, now: datetime) -> dict[str, Any]:
    """Of a LeaderWorkerSet."""
    name = lws["metadata"]["name"]
    if problem := why_left_alone(lws, is_covered=True):
        raise Refusal(f"set {name} would not be restarted: {problem.message}")
    if SetSpec.of(lws).paused:
        raise _paused(name, name)
    _check_moment(name, [lws["spec"]], now)
    return {"spec": _annotated(lws["spec"], now)}


def of_roles(obj: Object, now: datetime) -> dict[str, Any]:
    """Of all roles of a DisaggregatedSet: one of them alone would be out of step with the others."""
    name, roles = obj["metadata"]["name"], obj["spec"]["roles"]
    if parse(obj).paused:
        raise _paused(name, f"disaggregatedset/{name}")
    _check_moment(name, [role["spec"] for role in roles], now)
    # A merge patch takes a list as a whole.
    return {"spec": {"roles": [with_merged(role, {"spec": _annotated(role["spec"], now)}) for role in roles]}}


def _paused(name: str, typed: str) -> Refusal:
    return Refusal(f"set {name} is paused: let it go on first (resume {typed}), then restart it")


def _annotated(spec: Object, now: datetime) -> dict[str, Any]:
    """The patch of the spec of a LeaderWorkerSet."""
    annotated = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: timestamp(now)}}}
    parts = [part for part in _PODS if spec[_TEMPLATE].get(part) is not None]
    return {_TEMPLATE: dict.fromkeys(parts, annotated)}


def _check_moment(name: str, specs: Iterable[Object], now: datetime) -> None:
    templates = [spec[_TEMPLATE][part] for spec in specs for part in _PODS if spec[_TEMPLATE].get(part)]
    if all(_restarted_at(template) == timestamp(now) for template in templates):
        raise Refusal(f"set {name} was restarted within this second: wait a moment")


def _restarted_at(template: Object) -> str | None:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    moment: str | None = annotations.get(RESTARTED_AT_ANNOTATION)
    return moment
