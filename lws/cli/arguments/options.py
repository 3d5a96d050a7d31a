"""The arguments and options that commands share, under kubectl's names.

In: a command. Out: the command with `name`, `output` and `target` among its parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lws.cli.arguments.candidates import complete_contexts, complete_namespaces, complete_sets
from lws.cli.arguments.set_name import SetName
from lws.cli.session import Target

RESULT = TypeVar("RESULT")

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OBJECT_FORMATS = ("json", "yaml", "name")
"""Of commands that change a set: the set as it is then, or its name."""

EXIT_CODES = "Exit codes: 0 success, 1 error, 2 wrong usage."


def set_argument(*, required: bool = True) -> _Decorator:
    """Adds the set that is meant: `NAME` or `TYPE/NAME`."""
    return click.argument("name", type=SetName(), required=required, shell_complete=complete_sets)


def output_option(*formats: str) -> _Decorator:
    """Adds `-o`."""
    return click.option("-o", "--output", type=click.Choice(formats), help="Output format.")


all_namespaces_option: _Decorator = click.option(
    "-A", "--all-namespaces", is_flag=True, help="List the sets of all namespaces."
)
"""Adds `-A`; the command gets it within `target`."""


def cluster_options(command: Callable[..., RESULT]) -> Callable[..., RESULT]:
    """Adds what says which cluster and namespace are meant; the command gets it as one argument, `target`."""

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
        return command(*arguments, target=Target(namespace, context, kubeconfig, everywhere), **options)

    return with_target
