"""Connect a command, once, to the named cluster, and turn errors into `Refusal`s worded as in kubectl."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, TypeVar

import click

from lws import __version__
from lws.cli.screen import printable
from lws.runtime.client.kubeconfig import load_context
from lws.runtime.client.user_cluster import UserCluster
from lws.runtime.errors import ApiError, ClusterError, Forbidden, Unreachable

RESULT = TypeVar("RESULT")

# The API server quotes a rejected patch as a whole before the reason.
_DUMPED = re.compile(r' *"" is invalid: patch: Invalid value: "\{.*\}": ', re.DOTALL)


class Refusal(click.ClickException):
    """An error with exit code 1, before which nothing was changed. opening: the start of its message."""

    def __init__(self, message: str, opening: str = "error") -> None:
        super().__init__(message)
        self.opening = opening

    def show(self, file: IO[Any] | None = None) -> None:
        text = printable(f"{self.opening}: {self.message}", kept="\n")
        click.echo(text, file=file, err=file is None)


class Unreadable(Refusal):
    """A Refusal because no release of the controller could act on a set whose spec has this `fault`."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"set {name} cannot be read: {fault}; correct its spec")
        self.fault = fault


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster and the namespace on the command line; None for options that are not given."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    all_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A connection, and the namespace of the command; empty for all. explicit_namespace: the value of -n."""

    cluster: UserCluster
    namespace: str
    explicit_namespace: str | None = None

    @property
    def now(self) -> datetime:
        """The time of the API server, whatever the clock of this machine says."""
        return self.cluster.now


def run(target: ClusterOptions, action: Callable[[Session], Awaitable[RESULT]]) -> RESULT:
    """Connect, run the action and disconnect. Raises a Refusal for any error of the cluster."""
    try:
        return asyncio.run(connected(target, action))
    except ClusterError as error:
        raise worded(error) from error


def worded(error: ClusterError) -> Refusal:
    """Return an error as kubectl words it: with the server's message, but without a dump of the object."""
    message = _DUMPED.sub("", error.message)
    if isinstance(error, Unreachable):
        return Refusal(message, "Unable to connect to the server")
    if not isinstance(error, ApiError):
        return Refusal(message)
    # Admission and quota reject with the same status as RBAC, but their own messages suffice.
    if isinstance(error, Forbidden) and " cannot " in message:
        message = (
            f"{message}. Nothing was changed: ask an administrator of the cluster for the role view (to "
            f"look) or edit (to change) in this namespace"
        )
    return Refusal(message, from_server(error))


def from_server(error: ApiError) -> str:
    """Return the opening of a message, such as `Error from server (NotFound)`."""
    return f"Error from server ({error.reason})" if error.reason else "Error from server"


async def connected(target: ClusterOptions, action: Callable[[Session], Awaitable[RESULT]]) -> RESULT:
    """Connect, run the action and disconnect. Raises ClusterError."""
    context = await load_context(target.kubeconfig, target.context, os.environ)
    cluster = UserCluster(context.configuration, f"lws-cli/{__version__}")
    try:
        namespace = "" if target.all_namespaces else target.namespace or context.namespace
        return await action(Session(cluster, namespace, target.namespace))
    finally:
        await cluster.close()
