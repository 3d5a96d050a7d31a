"""`lws restart`: restart all groups of a set in a rollout, by the annotation of `kubectl rollout restart`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import click

from lws.cli.arguments import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.screen import warn
from lws.cli.session import ClusterOptions, Refusal, Session, run
from lws.cli.sets import NamedSet, caution, changed, find, refuse_paused, report, write_unless_changed
from lws.kube.conditions import timestamp
from lws.kube.metadata import RESTARTED_AT_ANNOTATION, annotations_of
from lws.kube.patches import with_merged
from lws.leaderworkerset import fields
from lws.leaderworkerset.left_alone import scheduler_seen, why_left_alone
from lws.runtime.actions import Object, Reference
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.v1 import KIND

FIELD_MANAGER = "lws-restart"
_TEMPLATE = fields.LEADER_WORKER_TEMPLATE.name
_PODS = (fields.LEADER_TEMPLATE.name, fields.WORKER_TEMPLATE.name)


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def restart(name: NamedSet, output: str | None, target: ClusterOptions) -> int:
    """Restart all groups of a set in a rollout within its limits.

    The roles of a DisaggregatedSet are rolled in step, so all of them restart.
    """
    return run(target, lambda session: _restart(session, name, output))


async def _restart(session: Session, name: NamedSet, output: str | None) -> int:
    obj = await find(session, name)
    patch = restart_patch(obj, session.now)
    if message := caution(obj, "restart"):
        warn(message)
    after = await write_unless_changed(
        session, obj, lambda read: session.cluster.merge_patch(Reference.to(read), patch, FIELD_MANAGER)
    )
    report(after, output, [changed(after, "restarted")])
    return 0


def restart_patch(obj: Object, now: datetime) -> dict[str, Any]:
    """Return the merge patch that restarts every group. Raises a Refusal if it would restart none."""
    return _PATCHES[obj["kind"]](obj, now)


def _of_set(lws: Object, now: datetime) -> dict[str, Any]:
    name = lws["metadata"]["name"]
    if problem := why_left_alone(lws, True, scheduler_seen(lws)):
        raise Refusal(f"set {name} would not be restarted: {problem.message}")
    refuse_paused(lws, "restart it")
    _check_moment(name, [lws["spec"]], now)
    return {"spec": _annotated(lws["spec"], now)}


def _of_roles(obj: Object, now: datetime) -> dict[str, Any]:
    """Return the merge patch that restarts all roles. One role alone would be out of step with the others."""
    name, roles = obj["metadata"]["name"], obj["spec"]["roles"]
    refuse_paused(obj, "restart it")
    _check_moment(name, [role["spec"] for role in roles], now)
    # A merge patch replaces lists as a whole.
    return {"spec": {"roles": [with_merged(role, {"spec": _annotated(role["spec"], now)}) for role in roles]}}


_PATCHES: Mapping[str, Callable[[Object, datetime], dict[str, Any]]] = {KIND: _of_set, ROLES_KIND: _of_roles}


def _annotated(spec: Object, now: datetime) -> dict[str, Any]:
    annotated = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: timestamp(now)}}}
    parts = [part for part in _PODS if spec[_TEMPLATE].get(part) is not None]
    return {_TEMPLATE: dict.fromkeys(parts, annotated)}


def _check_moment(name: str, specs: Iterable[Object], now: datetime) -> None:
    templates = [spec[_TEMPLATE][part] for spec in specs for part in _PODS if spec[_TEMPLATE].get(part)]
    moments = {annotations_of(template).get(RESTARTED_AT_ANNOTATION) for template in templates}
    if moments == {timestamp(now)}:
        raise Refusal(f"set {name} was restarted within this second: wait a moment")
