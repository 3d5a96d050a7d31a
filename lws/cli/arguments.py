"""Arguments and options that commands share, named as in kubectl, and their completion in a shell.

Candidates for completion are read from the cluster that the command line names. If the cluster does not
answer, there are none.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lws import timing
from lws.cli.session import ClusterOptions, Session, connected
from lws.cli.sets import KINDS, NamedSet, SetKind
from lws.kube.metadata import name_of
from lws.runtime.client.kubeconfig import context_names
from lws.runtime.errors import ClusterError

_USE = "use NAME, lws/NAME or disaggregatedset/NAME"


class SetName(click.ParamType[NamedSet]):
    """The type of an argument that names a set: `demo`, `lws/demo`, `leaderworkerset/demo` or `dset/llm`."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NamedSet:
        if isinstance(value, NamedSet):
            return value
        prefix, name = split_set_name(value)
        kind = kind_named(prefix)
        if kind is None:
            self.fail(f"{value!r} is no LeaderWorkerSet or DisaggregatedSet: {_USE}", param, ctx)
        if not name or "/" in name:
            self.fail(f"{value!r} does not have a single type and name: {_USE}", param, ctx)
        return NamedSet(name, kind)


def kind_named(prefix: str) -> SetKind | None:
    """Return the kind for a type prefix such as `lws/`, which may be empty; None for an unknown type."""
    if not prefix:
        return KINDS[0]
    word = prefix.removesuffix("/").lower()
    return next((kind for kind in KINDS if word in kind.words), None)


def split_set_name(word: str) -> tuple[str, str]:
    """Split `lws/demo` into `lws/` and `demo`. The prefix of a bare name is empty."""
    prefix, slash, name = word.partition("/")
    return (f"{prefix}/", name) if slash else ("", word)


def complete_sets(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a set in the namespace, after its type if one is typed."""
    prefix, _ = split_set_name(incomplete)
    kind = kind_named(prefix)
    if kind is None:
        return []
    resource = kind.resource
    sets = _read(context, lambda session: session.cluster.listed(resource.kind, session.namespace))
    return _starting(incomplete, [CompletionItem(f"{prefix}{name_of(obj)}") for obj in sets])


def complete_namespaces(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    namespaces = _read(context, lambda session: session.cluster.listed("Namespace", ""))
    return _starting(incomplete, [CompletionItem(name_of(namespace)) for namespace in namespaces])


def complete_contexts(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    try:
        names = context_names(context.params.get("kubeconfig"), os.environ)
    except ClusterError:
        return []
    return _starting(incomplete, map(CompletionItem, names))


def complete_revisions(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the number of a revision of the named set."""
    # If the completed option comes last, click has not parsed the arguments yet.
    typed = context.params.get("name") or next(iter(context.args), "")
    prefix, name = split_set_name(typed)
    kind = typed.kind if isinstance(typed, NamedSet) else kind_named(prefix)
    if kind is None or not name:
        return []
    selector, owner_kind = f"{kind.label}={name}", kind.resource.kind
    revisions = _read(
        context, lambda session: session.cluster.listed("ControllerRevision", session.namespace, selector)
    )
    own = [
        revision
        for revision in revisions
        if any(owner["kind"] == owner_kind for owner in revision["metadata"].get("ownerReferences") or ())
    ]
    numbers = [CompletionItem(str(revision["revision"]), help=name_of(revision)) for revision in own]
    return _starting(incomplete, numbers)


def _read(
    context: click.Context, listed: Callable[[Session], Awaitable[list[dict[str, Any]]]]
) -> list[dict[str, Any]]:
    typed = context.params
    target = ClusterOptions(typed.get("namespace"), typed.get("context"), typed.get("kubeconfig"))
    try:
        return asyncio.run(asyncio.wait_for(connected(target, listed), timing.COMPLETION_SECONDS))
    except (ClusterError, TimeoutError, OSError):
        return []


def _starting(incomplete: str, items: Iterable[CompletionItem]) -> list[CompletionItem]:
    return [item for item in items if item.value.startswith(incomplete)]


RESULT = TypeVar("RESULT")

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OBJECT_FORMATS = ("json", "yaml", "name")
"""Output formats of commands that change a set: the changed set, or only its name."""

EXIT_CODES = "Exit codes: 0 success, 1 error, 2 wrong usage."


def set_argument(*, required: bool = True) -> _Decorator:
    """Add the argument `NAME` or `TYPE/NAME`."""
    return click.argument("name", type=SetName(), required=required, shell_complete=complete_sets)


def revision_option(*names: str, lowest: int = 1, help: str) -> _Decorator:
    """Add an option for the number of a revision."""
    return click.option(
        *names,
        type=click.IntRange(min=lowest),
        metavar="N",
        shell_complete=complete_revisions,
        help=help,
    )


def output_option(*formats: str) -> _Decorator:
    """Add the option `-o`."""
    return click.option("-o", "--output", type=click.Choice(formats), help="Output format.")


all_namespaces_option: _Decorator = click.option(
    "-A", "--all-namespaces", is_flag=True, help="List the sets of all namespaces."
)
"""Adds the option `-A`. The command gets its value within `target`."""


def cluster_options(command: Callable[..., RESULT]) -> Callable[..., RESULT]:
    """Add the options for cluster and namespace. The command gets their values as one argument, `target`."""

    @click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        shell_complete=complete_namespaces,
        help="Namespace (default: from context).",
    )
    @click.option(
        "--context",
        metavar="NAME",
        shell_complete=complete_contexts,
        help="Context of the kubeconfig (default: the current context).",
    )
    @click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(),
        help="Path to the kubeconfig file (default: $KUBECONFIG, then ~/.kube/config).",
    )
    @functools.wraps(command)
    def with_target(
        *arguments: Any, namespace: str | None, context: str | None, kubeconfig: str | None, **options: Any
    ) -> RESULT:
        everywhere = options.pop("all_namespaces", False)
        return command(
            *arguments, target=ClusterOptions(namespace, context, kubeconfig, everywhere), **options
        )

    return with_target
