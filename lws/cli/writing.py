"""Report that a command changed a set, as kubectl does."""

from __future__ import annotations

from collections.abc import Iterable

import click

from lws.cli.arguments.set_name import TYPES
from lws.cli.blocks import Text
from lws.cli.views.screen import dump, show
from lws.runtime.actions import Object

_RESOURCES = {set_type.resource.kind: set_type.resource for set_type in TYPES}


def full_name(lws: Object) -> str:
    """`leaderworkerset.leaderworkerset.x-k8s.io/demo`, as `kubectl get -o name` prints it."""
    kind = _RESOURCES[lws["kind"]]
    return f"{kind.singular}.{kind.group}/{lws['metadata']['name']}"


def changed(lws: Object, what: str, dry_run: bool = False) -> Text:
    """`leaderworkerset.leaderworkerset.x-k8s.io/demo paused`."""
    return Text(f"{full_name(lws)} {what}{' (server dry run)' if dry_run else ''}")


def print_names(sets: Iterable[Object]) -> None:
    """What `-o name` prints."""
    for lws in sets:
        click.echo(full_name(lws))


def report(lws: Object, output: str | None, lines: Iterable[Text]) -> None:
    """Print these lines, or with `-o` the name of the set or the set as it is now.

    As kubectl does, without managedFields.
    """
    if output is None:
        show(lines)
    elif output == "name":
        print_names([lws])
    else:
        metadata = {key: value for key, value in lws["metadata"].items() if key != "managedFields"}
        dump({**lws, "metadata": metadata}, output)
