"""The candidates that shells offer for a word: names and numbers, read from the cluster that the line names.

In: the command line as far as it is typed. Out: candidates; none, and no complaint, if the cluster is silent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import click
from click.shell_completion import CompletionItem

from lws import timing
from lws.cli.arguments.set_name import NamedSet, split_set_name, type_of
from lws.cli.session import Session, Target, connected
from lws.runtime.client.kubeconfig import context_names
from lws.runtime.errors import ClusterError

_Ask = Callable[[Session], Awaitable[list[tuple[str, str]]]]


def complete_sets(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of sets in the namespace, after the type if one is typed."""
    prefix, _ = split_set_name(incomplete)
    meant = type_of(prefix)
    if meant is None:
        return []
    kind = meant.resource.kind

    async def names(session: Session) -> list[tuple[str, str]]:
        sets = await session.cluster.listed(kind, session.namespace)
        return [(f"{prefix}{obj['metadata']['name']}", "") for obj in sets]

    return _answered(context, incomplete, names)


def complete_namespaces(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of namespaces."""

    async def names(session: Session) -> list[tuple[str, str]]:
        return [
            (namespace["metadata"]["name"], "") for namespace in await session.cluster.listed("Namespace", "")
        ]

    return _answered(context, incomplete, names)


def complete_contexts(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Contexts of the kubeconfig."""
    try:
        names = context_names(context.params.get("kubeconfig"), os.environ)
    except ClusterError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_revisions(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of the revisions of the set that is named."""
    # Where the option that is being completed comes last, click has not come to the arguments yet.
    typed = context.params.get("name") or next(iter(context.args), "")
    prefix, name = split_set_name(typed)
    meant = typed.type if isinstance(typed, NamedSet) else type_of(prefix)
    if meant is None or not name:
        return []
    kind, label = meant.resource.kind, meant.label

    async def numbers(session: Session) -> list[tuple[str, str]]:
        selector = f"{label}={name}"
        revisions = await session.cluster.listed("ControllerRevision", session.namespace, selector)
        ours = [
            revision
            for revision in revisions
            if any(owner["kind"] == kind for owner in revision["metadata"].get("ownerReferences") or ())
        ]
        return [(str(revision["revision"]), revision["metadata"]["name"]) for revision in ours]

    return _answered(context, incomplete, numbers)


def _answered(context: click.Context, incomplete: str, ask: _Ask) -> list[CompletionItem]:
    typed = context.params
    target = Target(typed.get("namespace"), typed.get("context"), typed.get("kubeconfig"))
    try:
        candidates = asyncio.run(asyncio.wait_for(connected(target, ask), timing.COMPLETION_SECONDS))
    except (ClusterError, TimeoutError, OSError):
        return []
    return [
        CompletionItem(value, help=help or None) for value, help in candidates if value.startswith(incomplete)
    ]
