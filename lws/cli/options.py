"""The arguments and options that commands share, under kubectl's names.

In: a command. Out: the command with `name`, `output` and `target` among its parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lws.cli.candidates import complete_contexts, complete_namespaces, complete_sets
from lws.cli.session import Target
from lws.cli.set_name import SetName

RESULT = TypeVar("RESULT")

EXIT_CODES = "Exit codes: 0 success, 1 error, 2 wrong usage."


def set_argument(command: Callable[..., RESULT]) -> Callable[..., RESULT]:
    """Adds the set that is meant: `NAME` or `TYPE/NAME`."""
    return click.argument("name", type=SetName(), shell_complete=complete_sets)(command)


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
        return command(*arguments, target=Target(namespace, context, kubeconfig), **options)

    return with_target
