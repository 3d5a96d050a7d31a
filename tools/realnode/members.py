"""Ask the process in a pod what it was given, and have it fail. See go/member/main.go."""

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
    """What a process got when it started."""

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    """Name and value, in the order in which the process has them."""
    hostname: str
    resolved: Mapping[str, tuple[str, ...]]
    """Name -> addresses, as the process found them when it started: before its pod was ready."""

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.environment)

    @property
    def names(self) -> list[str]:
        """The names of the variables in order."""
        return [name for name, _ in self.environment]


def given_to(pod: Mapping[str, Any], port: int = PORT) -> Given:
    """Ask the process in a running pod. OSError where it does not answer."""
    said = json.loads(_ask(pod, "GET", "/", port))
    return Given(
        tuple(said["arguments"]),
        tuple((name, value) for name, _, value in (each.partition("=") for each in said["environment"])),
        said["hostname"],
        {name: tuple(addresses) for name, addresses in said["resolved"].items()},
    )


def addresses_of(pod: Mapping[str, Any], name: str) -> list[str]:
    """The addresses that the process in `pod` finds for `name` now; none where there are none."""
    try:
        return list(json.loads(_ask(pod, "GET", f"/resolve?name={name}")))
    except urllib.error.HTTPError as error:
        error.close()
        return []


def end(pod: Mapping[str, Any], code: int, port: int = PORT) -> None:
    """Have the process end with an exit code."""
    _tell(pod, f"/exit?code={code}", port)


def sicken(pod: Mapping[str, Any], port: int = PORT) -> None:
    """Have its health be bad from now on."""
    _tell(pod, "/sicken", port)


def devour(pod: Mapping[str, Any], port: int = PORT) -> None:
    """Have it take memory until it is killed."""
    _tell(pod, "/devour", port)


def fill(pod: Mapping[str, Any], megabytes: int) -> None:
    """Have it write so much into its own file system; returns when that is on the disk."""
    _ask(pod, "POST", f"/fill?megabytes={megabytes}")


def _tell(pod: Mapping[str, Any], path: str, port: int) -> None:
    try:
        _ask(pod, "POST", path, port)
    except (http.client.HTTPException, ConnectionError):
        # It ended before it could answer, as it was told.
        return
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ConnectionError):
            raise


def _ask(pod: Mapping[str, Any], method: str, path: str, port: int = PORT) -> str:
    request = urllib.request.Request(f"http://{pod['status']['podIP']}:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
        return str(answer.read().decode())
