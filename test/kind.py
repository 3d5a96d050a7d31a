"""Create and delete a kind cluster, and find the address of this machine that its API server can call.

Needs Docker, kind and pytest-kind.
"""

from __future__ import annotations

import importlib
import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAME = "lws-test"
_NETWORK = "KIND_EXPERIMENTAL_DOCKER_NETWORK"
_INSTALL = "python -m pip install --require-hashes -r requirements/kind.txt"


class KindError(RuntimeError):
    """There is no kind cluster to be had; the message says what is missing or went wrong."""


@contextmanager
def kind_cluster(directory: Path) -> Iterator[tuple[Path, str]]:
    """A kind cluster for the time of the block: its kubeconfig, in `directory`, and `host_address`.

    $KIND_IMAGE is the image of its node. Raises KindError.
    """
    _require("docker")
    kind = _require("kind")
    try:
        plugin = importlib.import_module("pytest_kind")
    except ImportError as error:
        raise KindError(f"it needs the plugin pytest-kind: {_INSTALL}") from error
    # Left to itself, the plugin fetches a kind of 2022, whose Kubernetes is too old.
    image = os.environ.get("KIND_IMAGE") or None
    cluster = plugin.KindCluster(NAME, directory / "kubeconfig", image=image, kind_path=kind)
    with _told():
        # Left behind by a run that was killed, it would be taken for ours, without its kubeconfig.
        cluster.delete()
        cluster.create()
    try:
        yield Path(cluster.kubeconfig_path).resolve(), host_address()
    finally:
        with _told():
            cluster.delete()


def host_address(environment: Mapping[str, str] = os.environ) -> str:
    """Return the IPv4 gateway of the network that kind's nodes are in; on Linux, that is this machine."""
    network = environment.get(_NETWORK) or "kind"
    command = ["docker", "network", "inspect", network]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KindError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    for gateway in _gateways(json.loads(done.stdout)):
        if ipaddress.ip_address(gateway).version == 4:
            return gateway
    raise KindError(
        f"the Docker network {network} has no IPv4 gateway, so its nodes cannot call this machine"
    )


def _gateways(networks: list[dict[str, Any]]) -> Iterator[str]:
    for network in networks:
        for block in network["IPAM"]["Config"] or []:
            if gateway := block.get("Gateway"):
                yield gateway


def _require(program: str) -> Path:
    found = shutil.which(program)
    if found is None:
        raise KindError(f"it needs {program} on the PATH")
    return Path(found)


@contextmanager
def _told() -> Iterator[None]:
    """Have a command that fails say which it was; its own words are on the terminal."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        raise KindError(f"{' '.join(map(str, error.cmd))} ended with {error.returncode}") from error
