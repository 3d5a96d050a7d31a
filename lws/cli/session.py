"""How commands for people reach a cluster: the options that say which, and one connection per command.

In: -n, --context, --kubeconfig. Out: what the command's coroutine returned; whatever goes wrong between us
and the API server as a `Refusal`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from lws import __version__
from lws.cli.refusal import Refusal
from lws.cluster.client.errors import ClusterError, Forbidden, Unreachable
from lws.cluster.client.user_cluster import UserCluster
from lws.cluster.transport.kubeconfig import load_context

RESULT = TypeVar("RESULT")

# A patch that is refused comes back whole, between quotes, before the reason.
_DUMPED = re.compile(r' *"" is invalid: patch: Invalid value: "\{.*\}": ', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """What the user said about where; None where nothing was said."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    @property
    def is_explicit(self) -> bool:
        """The user named a cluster: then no other will do, nor none."""
        return self.context is not None or self.kubeconfig is not None


@dataclass(frozen=True, slots=True)
class Session:
    """A connection and the namespace that is meant. explicit_namespace: what -n said, if anything."""

    cluster: UserCluster
    namespace: str
    explicit_namespace: str | None = None

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)


def cluster_options(command: Callable[..., RESULT]) -> Callable[..., RESULT]:
    """Adds the options; the command gets them as one argument, `target`."""

    @click.option("-n", "--namespace", metavar="NAME", help="Namespace; that of the context without it.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig; the current one without it.")
    @click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(),
        help="Instead of $KUBECONFIG and ~/.kube/config.",
    )
    @functools.wraps(command)
    def with_target(
        *arguments: Any, namespace: str | None, context: str | None, kubeconfig: str | None, **options: Any
    ) -> RESULT:
        return command(*arguments, target=Target(namespace, context, kubeconfig), **options)

    return with_target


def run(target: Target, action: Callable[[Session], Awaitable[RESULT]]) -> RESULT:
    """Connect, do it, disconnect. Raises Refusal in the words of whoever refused."""
    try:
        return asyncio.run(connected(target, action))
    except ClusterError as error:
        raise worded(error) from error


def worded(error: ClusterError) -> Refusal:
    """What went wrong, for people: the sentence of the server without the object that it is about."""
    message = _DUMPED.sub("", error.message)
    if type(error) is Unreachable:
        return Refusal(f"no answer from the cluster: {message}")
    # Admission and quota refuse with the same status, and say themselves what to do.
    if isinstance(error, Forbidden) and " cannot " in message:
        return Refusal(
            f"{message}. Nothing was changed: ask whoever manages the cluster for the role view (to "
            f"look) or edit (to change) in this namespace"
        )
    return Refusal(message)


async def connected(target: Target, action: Callable[[Session], Awaitable[RESULT]]) -> RESULT:
    """Connect, do it, disconnect. Raises ClusterError."""
    context = await load_context(target.kubeconfig, target.context, os.environ)
    cluster = UserCluster(context.configuration, f"lws-cli/{__version__}")
    try:
        return await action(Session(cluster, target.namespace or context.namespace, target.namespace))
    finally:
        await cluster.close()
