"""`lws pause` and `lws resume`: pause the rollout of a set where it is, and resume it."""

from __future__ import annotations

import click

from lws.cli.arguments import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.session import ClusterOptions, Refusal, Session, run
from lws.cli.sets import NamedSet, changed, find, kind_of, refuse_pause_of_role, report
from lws.runtime.actions import Object, Reference

FIELD_MANAGER = "lws-pause"


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def pause(name: NamedSet, output: str | None, target: ClusterOptions) -> int:
    """Pause the rollout of a set: no further group is updated. Scaling and group restarts continue."""
    return run(target, lambda session: _set_paused(session, name, True, output))


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def resume(name: NamedSet, output: str | None, target: ClusterOptions) -> int:
    """Resume the rollout of a paused set."""
    return run(target, lambda session: _set_paused(session, name, None, output))


async def _set_paused(session: Session, name: NamedSet, paused: bool | None, output: str | None) -> int:
    obj = await find(session, name)
    check(obj, bool(paused))
    # Resuming removes the field, its default, so that tools that compare whole specs find no difference.
    patch = {"spec": {"rolloutStrategy": {"paused": paused}}}
    reference = Reference(obj["apiVersion"], obj["kind"], session.namespace, name)
    after = await session.cluster.merge_patch(reference, patch, FIELD_MANAGER)
    if name.kind.is_paused(after) != bool(paused):
        raise Refusal(
            "this cluster does not keep spec.rolloutStrategy.paused, so nothing was changed: its "
            "CustomResourceDefinition is older than this command; upgrade the chart"
        )
    report(after, output, [changed(after, "paused" if paused else "resumed")])
    return 0


def check(obj: Object, paused: bool) -> None:
    """Raise a Refusal if the set is already paused or resumed, or if a pause would stop nothing."""
    if kind_of(obj).is_paused(obj) == paused:
        name = obj["metadata"]["name"]
        raise Refusal(f"set {name} is already paused" if paused else f"set {name} is not paused")
    if paused:
        refuse_pause_of_role(obj)
