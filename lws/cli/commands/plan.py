"""`lws plan`: what an apply of a manifest would do to the sets that run, before it is done.

In: a manifest. Out: for each set in it, which groups restart and why, or that no pod is restarted; the steps
of the rollout if asked for. Nothing is written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

import click

from lws.cli.arguments.options import EXIT_CODES, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.facts.manifests import sets_in, title_of
from lws.cli.kinds.kind import Planned
from lws.cli.kinds.registry import RESOURCES, kind_of, kind_of_object
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, connected, run, worded
from lws.cli.views.screen import dump, show, warn
from lws.cli.writing import changed, print_names
from lws.kube.metadata import annotations_of
from lws.runtime.actions import Object, Reference
from lws.runtime.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable

_WORDS = {"created": "would be created", "configured": "would be changed", "unchanged": "unchanged"}


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How it would be applied, and whether its steps are asked for."""

    steps: bool = False
    server_side: bool = False
    force_conflicts: bool = False


@click.command(
    short_help="Show what `kubectl apply` would do to sets, or what a set is about to do.", epilog=EXIT_CODES
)
@set_argument(required=False)
@click.option("-f", "--filename", type=click.File("rb"), help="Manifest (YAML or JSON), or - for stdin.")
@click.option("--steps", is_flag=True, help="Show the steps of the rollout.")
@click.option("--server-side", is_flag=True, help="Plan `kubectl apply --server-side`.")
@click.option("--force-conflicts", is_flag=True, help="Take fields from other managers (with --server-side).")
@output_option("json", "yaml", "name")
@cluster_options
def plan(
    name: NamedSet | None,
    filename: BinaryIO | None,
    steps: bool,
    output: str | None,
    target: Target,
    **manner: bool,
) -> int:
    """Show what `kubectl apply` of a manifest would do to the sets in it, or what is ahead of a set as it is.

    Nothing is changed: the API server gets a dry run. Without a cluster, plan shows what would be created,
    and --steps shows a later update of all groups.
    """
    how = PlanOptions(steps=steps, **manner)
    if (name is None) == (filename is None):
        raise click.UsageError("either NAME or '-f' / '--filename' is required")
    if how.server_side and filename is None:
        raise click.UsageError("--server-side requires '-f' / '--filename'")
    if how.force_conflicts and not how.server_side:
        raise click.UsageError("--force-conflicts requires --server-side")
    if name is not None:
        _print([run(target, lambda session: _ahead(session, name, steps))], output)
    elif filename is not None:
        _print(_of_manifest(filename, how, target), output)
    return 0


def _of_manifest(filename: BinaryIO, manner: PlanOptions, target: Target) -> Sequence[Planned]:
    manifests = list(sets_in(filename, RESOURCES))
    if not manifests:
        raise Refusal(
            f"{title_of(filename)} holds no {' and no '.join(resource.kind for resource in RESOURCES)}"
        )
    try:
        return asyncio.run(connected(target, lambda session: _plan_all(session, manifests, manner)))
    except Unreachable as error:
        if target.is_explicit:
            raise worded(error) from error
        warn(f"{error.message}: without a cluster only creation can be planned")
        return [_without_cluster(manifest, manner.steps) for manifest in manifests]
    except ClusterError as error:
        raise worded(error) from error


def _print(plans: Sequence[Planned], output: str | None) -> None:
    if output == "name":
        print_names(planned.obj for planned in plans)
    elif output is not None:
        dump({"items": [planned.data for planned in plans]}, output)
    else:
        for planned in plans:
            show([changed(planned.obj, _WORDS[planned.action]), *planned.blocks])


async def _ahead(session: Session, name: NamedSet, steps: bool) -> Planned:
    kind = kind_of(name)
    obj = await kind.find(session, name)
    return await kind.changed(session, obj, obj, steps)


async def _plan_all(
    session: Session, manifests: Iterable[dict[str, Any]], manner: PlanOptions
) -> Sequence[Planned]:
    return [await _planned(session, _placed(manifest, session), manner) for manifest in manifests]


async def _planned(session: Session, manifest: Object, manner: PlanOptions) -> Planned:
    kind = kind_of_object(manifest)
    try:
        stored = await session.cluster.get(
            kind.resource.kind, manifest["metadata"]["namespace"], _name_of(manifest)
        )
    except NotFound:
        tried = await _tried(session, manifest, None, manner)
        return kind.created(tried, session.now, manner.steps)
    after = await _tried(session, manifest, stored, manner)
    return await kind.changed(session, stored, after, manner.steps)


async def _tried(
    session: Session, manifest: Object, stored: Object | None, manner: PlanOptions
) -> dict[str, Any]:
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


def _without_cluster(manifest: dict[str, Any], steps: bool) -> Planned:
    _name_of(manifest)
    kind = kind_of_object(manifest)
    return kind.created(kind.as_stored(manifest), datetime.now(UTC), steps)


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


LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def apply_patch(manifest: Object, stored: Object) -> dict[str, Any]:
    """What the manifest says and is not so; and, as null, what it said when it was last applied and says no
    more. What others have set, a default say, stays. Lists are replaced as wholes (RFC 7386).
    """
    metadata = manifest["metadata"]
    # kubectl's own record is an annotation too: there are always some.
    wanted = {**manifest, "metadata": {**metadata, "annotations": metadata.get("annotations") or {}}}
    return _merge(last_applied(stored), wanted, stored)


def last_applied(stored: Object) -> Mapping[str, Any]:
    """The manifest that was applied last; empty if none was, or not by kubectl."""
    text = annotations_of(stored).get(LAST_APPLIED_ANNOTATION)
    try:
        manifest = json.loads(text) if text else {}
    except ValueError:
        # kubectl would refuse; whose error tells more.
        return {}
    return manifest if isinstance(manifest, Mapping) else {}


def _merge(original: Any, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    before: Mapping[str, Any] = original if isinstance(original, Mapping) else {}
    patch: dict[str, Any] = {}
    for key, value in wanted.items():
        actual = stored.get(key)
        if isinstance(value, Mapping) and isinstance(actual, Mapping):
            below = _merge(before.get(key), value, actual)
            if below:
                patch[key] = below
        elif value != actual:
            patch[key] = value
    for key in before:
        if wanted.get(key) is None and stored.get(key) is not None:
            patch[key] = None
    return patch
