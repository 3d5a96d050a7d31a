"""`lws plan`: what an apply of a manifest would do to the sets that run, before it is done.

In: a manifest. Out: for each set in it, which groups restart and why, or that no pod is restarted; the steps
of the rollout if asked for. Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

import click

from lws.actions import Object, Reference
from lws.cli.arguments.options import EXIT_CODES, cluster_options
from lws.cli.facts.creation import as_stored, creation, update_from_rest
from lws.cli.facts.impact import impact, impact_lines
from lws.cli.facts.kubectl_apply import apply_patch
from lws.cli.facts.lookup import all_of
from lws.cli.facts.manifests import sets_in
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, connected, worded
from lws.cli.views.blocks import Block, Text
from lws.cli.views.screen import show, warn
from lws.cli.views.steps import steps_blocks
from lws.cli.writing import changed
from lws.cluster.client.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from lws.leaderworkerset.rollout.simulation import simulate
from lws.leaderworkerset.rollout.state import RolloutState
from lws_api.leaderworkerset.v1 import KIND


@dataclass(frozen=True, slots=True)
class Manner:
    """How it would be applied."""

    server_side: bool = False
    force_conflicts: bool = False


@click.command(epilog=EXIT_CODES)
@click.option(
    "-f", "--filename", type=click.File("r"), required=True, help="Manifest (YAML or JSON), or - for stdin."
)
@click.option("--steps", is_flag=True, help="Show the steps of the rollout.")
@click.option("--server-side", is_flag=True, help="Plan `kubectl apply --server-side`.")
@click.option("--force-conflicts", is_flag=True, help="Take fields from other managers (with --server-side).")
@cluster_options
def plan(filename: TextIO, steps: bool, server_side: bool, force_conflicts: bool, target: Target) -> int:
    """Show what `kubectl apply` of a manifest would do to the sets in it.

    Nothing is changed: the API server gets a dry run. Without a cluster, plan shows what would be created,
    and --steps shows a later update of all groups.
    """
    if force_conflicts and not server_side:
        raise click.UsageError("--force-conflicts requires --server-side")
    manifests = list(sets_in(filename))
    if not manifests:
        raise Refusal(f"{filename.name} holds no {KIND}")
    manner = Manner(server_side, force_conflicts)
    try:
        asyncio.run(connected(target, lambda session: _plan_all(session, manifests, manner, steps)))
    except Unreachable as error:
        if target.is_explicit:
            raise worded(error) from error
        warn(f"{error.message}: without a cluster only creation can be planned")
        for manifest in manifests:
            show(_without_cluster(manifest, steps))
    except ClusterError as error:
        raise worded(error) from error
    return 0


async def _plan_all(
    session: Session, manifests: Iterable[dict[str, Any]], manner: Manner, steps: bool
) -> None:
    for manifest in manifests:
        show(await _planned(session, _placed(manifest, session), manner, steps))


async def _planned(session: Session, manifest: Object, manner: Manner, steps: bool) -> list[Block]:
    try:
        stored = await session.cluster.get(KIND, manifest["metadata"]["namespace"], _name_of(manifest))
    except NotFound:
        after = await _tried(session, manifest, None, manner)
        now = session.now
        blocks = [changed(after, "would be created"), *creation(after)]
        return blocks + (_later_update(update_from_rest(after, now)) if steps else [])
    after = await _tried(session, manifest, stored, manner)
    found = await all_of(session, stored)
    effect = impact(found.snapshot, found.groups, after)
    is_same = after["spec"] == stored["spec"]
    blocks = [changed(stored, "unchanged" if is_same else "would be changed"), *impact_lines(effect)]
    return blocks + (list(steps_blocks(simulate(effect.after.rollout))) if steps else [])


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


def _without_cluster(manifest: dict[str, Any], steps: bool) -> list[Block]:
    _name_of(manifest)
    lws = as_stored(manifest)
    blocks: list[Block] = [changed(lws, "would be created"), *creation(lws)]
    return blocks + (_later_update(update_from_rest(lws, datetime.now(UTC))) if steps else [])


def _later_update(state: RolloutState) -> list[Block]:
    return [Text("a later update of all its groups:"), *steps_blocks(simulate(state))]


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
