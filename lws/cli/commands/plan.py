"""`lws plan`: what an apply of a manifest would do to the sets that run, before it is done.

In: a manifest. Out: for each set in it, which groups restart and why, or that no pod is restarted; the steps
of the rollout if asked for. Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

import click

from lws.actions import Object, Reference
from lws.cli.arguments.options import EXIT_CODES, cluster_options, output_option
from lws.cli.facts.creation import as_stored, update_from_rest
from lws.cli.facts.impact import impact
from lws.cli.facts.kubectl_apply import apply_patch
from lws.cli.facts.lookup import all_of
from lws.cli.facts.manifests import sets_in
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, connected, worded
from lws.cli.views.plan import SetPlan, plan_blocks, plan_data
from lws.cli.views.screen import dump, show, warn
from lws.cli.writing import changed, print_names
from lws.cluster.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from lws.leaderworkerset.rollout.simulation import simulate
from lws_api.leaderworkerset.v1 import KIND

_WORDS = {"created": "would be created", "configured": "would be changed", "unchanged": "unchanged"}


@dataclass(frozen=True, slots=True)
class Manner:
    """How it would be applied, and whether its steps are asked for."""

    steps: bool = False
    server_side: bool = False
    force_conflicts: bool = False


@click.command(short_help="Show what `kubectl apply` would do to sets.", epilog=EXIT_CODES)
@click.option(
    "-f", "--filename", type=click.File("r"), required=True, help="Manifest (YAML or JSON), or - for stdin."
)
@click.option("--steps", is_flag=True, help="Show the steps of the rollout.")
@click.option("--server-side", is_flag=True, help="Plan `kubectl apply --server-side`.")
@click.option("--force-conflicts", is_flag=True, help="Take fields from other managers (with --server-side).")
@output_option("json", "yaml", "name")
@cluster_options
def plan(filename: TextIO, steps: bool, output: str | None, target: Target, **manner: bool) -> int:
    """Show what `kubectl apply` of a manifest would do to the sets in it.

    Nothing is changed: the API server gets a dry run. Without a cluster, plan shows what would be created,
    and --steps shows a later update of all groups.
    """
    how = Manner(steps=steps, **manner)
    if how.force_conflicts and not how.server_side:
        raise click.UsageError("--force-conflicts requires --server-side")
    manifests = list(sets_in(filename))
    if not manifests:
        raise Refusal(f"{filename.name} holds no {KIND}")
    try:
        plans = asyncio.run(connected(target, lambda session: _plan_all(session, manifests, how)))
    except Unreachable as error:
        if target.is_explicit:
            raise worded(error) from error
        warn(f"{error.message}: without a cluster only creation can be planned")
        plans = [_without_cluster(manifest, steps) for manifest in manifests]
    except ClusterError as error:
        raise worded(error) from error
    _print(plans, output)
    return 0


def _print(plans: Sequence[SetPlan], output: str | None) -> None:
    if output == "name":
        print_names(each.lws for each in plans)
    elif output is not None:
        dump({"items": [plan_data(each) for each in plans]}, output)
    else:
        for each in plans:
            show([changed(each.lws, _WORDS[each.action]), *plan_blocks(each)])


async def _plan_all(
    session: Session, manifests: Iterable[dict[str, Any]], manner: Manner
) -> Sequence[SetPlan]:
    return [await _planned(session, _placed(manifest, session), manner) for manifest in manifests]


async def _planned(session: Session, manifest: Object, manner: Manner) -> SetPlan:
    try:
        stored = await session.cluster.get(KIND, manifest["metadata"]["namespace"], _name_of(manifest))
    except NotFound:
        return _new(await _tried(session, manifest, None, manner), session.now, manner.steps)
    after = await _tried(session, manifest, stored, manner)
    objects = await all_of(session, stored)
    effect = impact(objects.snapshot, objects.groups, after)
    action = "unchanged" if after["spec"] == stored["spec"] else "configured"
    return SetPlan(after, action, effect, simulate(effect.after.rollout) if manner.steps else None)


def _new(lws: Object, now: datetime, steps: bool) -> SetPlan:
    return SetPlan(lws, "created", None, simulate(update_from_rest(lws, now)) if steps else None)


async def _tried(session: Session, manifest: Object, stored: Object | None, manner: Manner) -> dict[str, Any]:
    """The set as the server would store it."""
    try:
        if manner.server_side:
            return await session.cluster.try_apply(manifest, force=manner.force_conflicts)
        if stored is None:
            return await session.cluster.try_create(manifest)
        return await session.cluster.try_merge(Reference.to(stored), apply_patch(manifest, stored))
    except NotFound as error:
        raise Refusal(
            f"the server does not take it: {error.message.strip()}; is the chart installed, and is there a "
            f"namespace {manifest['metadata']['namespace']}?"
        ) from error
    except Conflict as error:
        raise Refusal(f"{error.message} (--force-conflicts takes the fields)") from error
    except Forbidden as error:
        # RBAC says who may not do what; that is for `worded`.
        if " cannot " in error.message:
            raise
        raise Refusal(f"it would be refused: {error.message}") from error


def _without_cluster(manifest: dict[str, Any], steps: bool) -> SetPlan:
    _name_of(manifest)
    return _new(as_stored(manifest), datetime.now(UTC), steps)


def _placed(manifest: dict[str, Any], session: Session) -> dict[str, Any]:
    """The manifest with its namespace. Raises Refusal where -n says another one, as kubectl does."""
    name, written = _name_of(manifest), manifest["metadata"].get("namespace")
    if written is not None and session.explicit_namespace not in (None, written):
        raise Refusal(
            f"set {name} is for namespace {written} by its manifest, and -n says {session.explicit_namespace}"
        )
    namespace = written or session.namespace
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _name_of(manifest: Object) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise Refusal("a set in the manifest has no metadata.name: plan needs to know which one is meant")
    return name
