"""`lws pause` and `lws resume`: stop a rollout where it is, and let it go on.

In: the name of a set. Out: `spec.rolloutStrategy.paused` set, or gone.
"""

from __future__ import annotations

import click

from lws.actions import Object, Reference
from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.facts.lookup import find_set
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.writing import changed, report
from lws.leaderworkerset.spec import SetSpec

FIELD_MANAGER = "lws-pause"


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def pause(name: str, output: str | None, target: Target) -> int:
    """Pause the rollout of a set: no further group is updated. Scaling and healing go on."""
    return run(target, lambda session: _set_paused(session, name, True, output))


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def resume(name: str, output: str | None, target: Target) -> int:
    """Resume the rollout of a paused set."""
    return run(target, lambda session: _set_paused(session, name, None, output))


async def _set_paused(session: Session, name: str, paused: bool | None, output: str | None) -> int:
    lws = await find_set(session, name)
    check(lws, bool(paused))
    # A field that is gone is the default, and costs those nothing who compare whole specs.
    patch = {"spec": {"rolloutStrategy": {"paused": paused}}}
    reference = Reference(lws["apiVersion"], lws["kind"], session.namespace, name)
    after = await session.cluster.merge_patch(reference, patch, FIELD_MANAGER)
    if SetSpec.of(after).paused != bool(paused):
        raise Refusal(
            "this cluster does not keep spec.rolloutStrategy.paused, so nothing was changed: its "
            "CustomResourceDefinition is older than this command; upgrade the chart"
        )
    report(after, output, [changed(after, "paused" if paused else "resumed")])
    return 0


def check(lws: Object, paused: bool) -> None:
    """Raises Refusal if the set is so already."""
    if SetSpec.of(lws).paused == paused:
        name = lws["metadata"]["name"]
        raise Refusal(f"set {name} is already paused" if paused else f"set {name} is not paused")
