"""`lws pause` and `lws resume`: stop a rollout where it is, and let it go on.

In: the name of a set. Out: `spec.rolloutStrategy.paused` set, or gone.
"""

from __future__ import annotations

import click

from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.facts.changes.role_of import check_pause
from lws.cli.kinds.kind import SetKind
from lws.cli.kinds.registry import kind_of
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.writing import changed, report
from lws.runtime.actions import Object, Reference

FIELD_MANAGER = "lws-pause"


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def pause(name: NamedSet, output: str | None, target: Target) -> int:
    """Pause the rollout of a set: no further group is updated. Scaling and healing go on."""
    return run(target, lambda session: _set_paused(session, name, True, output))


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def resume(name: NamedSet, output: str | None, target: Target) -> int:
    """Resume the rollout of a paused set."""
    return run(target, lambda session: _set_paused(session, name, None, output))


async def _set_paused(session: Session, name: NamedSet, paused: bool | None, output: str | None) -> int:
    kind = kind_of(name)
    obj = await kind.find(session, name)
    check(kind, obj, bool(paused))
    # A field that is gone is the default, and costs those nothing who compare whole specs.
    patch = {"spec": {"rolloutStrategy": {"paused": paused}}}
    reference = Reference(obj["apiVersion"], obj["kind"], session.namespace, name)
    after = await session.cluster.merge_patch(reference, patch, FIELD_MANAGER)
    if kind.is_paused(after) != bool(paused):
        raise Refusal(
            "this cluster does not keep spec.rolloutStrategy.paused, so nothing was changed: its "
            "CustomResourceDefinition is older than this command; upgrade the chart"
        )
    report(after, output, [changed(after, "paused" if paused else "resumed")])
    return 0


def check(kind: SetKind, obj: Object, paused: bool) -> None:
    """Raises Refusal if the set is so already, or if a pause would stop nothing."""
    if kind.is_paused(obj) == paused:
        name = obj["metadata"]["name"]
        raise Refusal(f"set {name} is already paused" if paused else f"set {name} is not paused")
    if paused:
        check_pause(obj)
