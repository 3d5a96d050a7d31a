"""`lws restart`: every group anew, by one rollout.

In: the name of a set. Out: the set with an annotation in its pod templates, that of `kubectl rollout
restart`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from lws.actions import Object, Reference
from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.facts.lookup import find_set
from lws.cli.facts.retry import write_unless_changed
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.writing import changed, report
from lws.kube.conditions import timestamp
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.spec import SetSpec

RESTARTED_AT_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
FIELD_MANAGER = "lws-restart"


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def restart(name: str, output: str | None, target: Target) -> int:
    """Restart all groups of a set in a rollout within its limits."""
    return run(target, lambda session: _restart(session, name, output))


async def _restart(session: Session, name: str, output: str | None) -> int:
    lws = await find_set(session, name)
    patch = restart_patch(lws, session.now)
    after = await write_unless_changed(
        session,
        lws,
        lambda read: session.cluster.merge_patch(Reference.to(read), patch, FIELD_MANAGER),
    )
    report(after, output, [changed(after, "restarted")])
    return 0


def restart_patch(lws: Object, now: datetime) -> dict[str, Any]:
    """The merge patch that starts the rollout. Raises Refusal where it would start none."""
    name = lws["metadata"]["name"]
    if problem := why_left_alone(lws, is_covered=True):
        raise Refusal(f"set {name} would not be restarted: {problem.message}")
    if SetSpec.of(lws).paused:
        raise Refusal(f"set {name} is paused: let it go on first (resume {name}), then restart it")
    templates = lws["spec"]["leaderWorkerTemplate"]
    parts = [part for part in ("leaderTemplate", "workerTemplate") if templates.get(part) is not None]
    moment = timestamp(now)
    if all(_restarted_at(templates[part]) == moment for part in parts):
        raise Refusal(f"set {name} was restarted within this second: wait a moment")
    annotated = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: moment}}}
    return {"spec": {"leaderWorkerTemplate": dict.fromkeys(parts, annotated)}}


def _restarted_at(template: Object) -> str | None:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    moment: str | None = annotations.get(RESTARTED_AT_ANNOTATION)
    return moment
