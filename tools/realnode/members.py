"""Ask the process in a pod for its environment, and make it fail. See go/member/main.go."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PORT = 8080
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Given:
    """The data that a process received when it started."""

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    """Name and value of each variable, in the order in which the process has them."""
    hostname: str
    resolved: Mapping[str, tuple[str, ...]]
    """Name → addresses that the process found when it started, before its pod was ready."""

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.environment)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.environment]


def given_to(pod: Mapping[str, Any], port: int = PORT) -> Given:
    """Ask the process in a running pod; raises OSError if it does not answer."""
    answer = json.loads(_ask(pod, "GET", "/", port))
    return Given(
        tuple(answer["arguments"]),
        tuple((name, value) for name, _, value in (entry.partition("=") for entry in answer["environment"])),
        answer["hostname"],
        {name: tuple(addresses) for name, addresses in answer["resolved"].items()},
    )


def addresses_of(pod: Mapping[str, Any], name: str) -> list[str]:
    """Return the addresses to which the process in `pod` resolves `name` now; empty if there are none."""
    try:
        return list(json.loads(_ask(pod, "GET", f"/resolve?name={name}")))
    except urllib.error.HTTPError as error:
        error.close()
        return []


def end(pod: Mapping[str, Any], code: int, port: int = PORT) -> None:
    """Make the process end with this exit code."""
    _tell(pod, f"/exit?code={code}", port)


def sicken(pod: Mapping[str, Any], port: int = PORT) -> None:
    """Make the process report bad health from now on."""
    _tell(pod, "/sicken", port)


def devour(pod: Mapping[str, Any], port: int = PORT) -> None:
    """Make the process allocate memory until it is killed."""
    _tell(pod, "/devour", port)


def fill(pod: Mapping[str, Any], megabytes: int) -> None:
    """Make the process write this many megabytes to its own file system; return when they are on the disk."""
    _ask(pod, "POST", f"/fill?megabytes={megabytes}")


def _tell(pod: Mapping[str, Any], path: str, port: int) -> None:
    try:
        _ask(pod, "POST", path, port)
    except (http.client.HTTPException, ConnectionError):
        # The process has ended before it could answer, as requested.
        return
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ConnectionError):
            raise


def _ask(pod: Mapping[str, Any], method: str, path: str, port: int = PORT) -> str:
    request = urllib.request.Request(f"http://{pod['status']['podIP']}:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
        return str(answer.read().decode())
