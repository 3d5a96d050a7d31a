"""Simulate nodes on our cluster or beside the nodes of another: kwok starts pods, our kubelet ends them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tools.linux import require_linux
from tools.localcluster.access import read_access
from tools.localcluster.api import Api, tolerating
from tools.localcluster.build import find_kwok
from tools.localcluster.component import Blueprint, Component, Guard, Supervisor, wait_until
from tools.localcluster.components import Options, kwok_flags, kwok_health
from tools.localcluster.nodes import SIMULATED_LABEL, STORAGE_CLASS, build_node, is_ready, is_simulated
from tools.localcluster.ports import pick_ports
from tools.localcluster.progress import LinePrinter, Report

KUBELET = "kubelet"
STAGES = Path(__file__).with_name("stages.yaml")

_REPOSITORY = Path(__file__).resolve().parents[2]
_NODES = "/api/v1/nodes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_CORDONED = "localcluster/cordoned"
_START_SECONDS = 240.0
_NOT_FOUND = 404


def kubelet_blueprint(kubeconfig: Path, logs: Path) -> Blueprint:
    """Return how the process runs that ends pods of simulated nodes."""
    command = [sys.executable, "-m", "tools.localcluster.kubelet", str(kubeconfig)]
    return Blueprint(KUBELET, command, logs / f"{KUBELET}.log", directory=_REPOSITORY)


def add_nodes(api: Api, options: Options) -> None:
    """Create the nodes, and where their volumes come from; returns when pods can be placed on all of them."""
    api.create(_CLASSES, STORAGE_CLASS)
    nodes = [build_node(index, options.zones, options.nodes_per_pool) for index in range(options.nodes)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda node: api.create(_NODES, node), nodes):
            pass

    def all_are_ready() -> bool:
        return all(is_ready(node) for node in api.get(_NODES)["items"] if is_simulated(node))

    wait_until(all_are_ready, "the simulated nodes do not get ready", _START_SECONDS)


@contextmanager
def simulated_nodes(
    kubeconfig: Path, options: Options | None = None, report: Report | None = None
) -> Iterator[None]:
    """Simulated nodes beside those of a running cluster, for the time of the block.

    Meanwhile the others are cordoned, so that what is made in the block comes to the simulated ones. Raises
    ApiError, BuildError, ComponentError, NoGoError or NotLinuxError; nothing is left then.
    """
    require_linux()
    kwok, access = find_kwok(report or LinePrinter()), read_access(kubeconfig.read_text())
    with ExitStack() as undo:
        state = Path(tempfile.mkdtemp(prefix="localcluster-"))
        guard = Guard(state)
        undo.callback(guard.close)
        api = undo.enter_context(closing(Api(access.server, access.ca, access.token)))
        components = [Component(each, guard) for each in _blueprints(state, kwok, kubeconfig)]
        for each in components:
            undo.callback(each.stop)
            each.start()
            each.wait_healthy(_START_SECONDS)
        supervisor = Supervisor(components)
        supervisor.start()
        undo.callback(supervisor.stop)
        undo.enter_context(_others_cordoned(api))
        undo.callback(_remove, api)
        # Those of a run that was killed.
        _remove(api)
        add_nodes(api, options or Options())
        yield


def _blueprints(state: Path, kwok: Path, kubeconfig: Path) -> Iterator[Blueprint]:
    """The guard knows processes by the state directory on their command lines."""
    stages, admin, (port,) = state / "kwok.yaml", state / "kubeconfig.yaml", pick_ports(1)
    shutil.copyfile(STAGES, stages)
    admin.touch(mode=0o600)
    admin.write_text(kubeconfig.read_text())
    command = [str(kwok), *kwok_flags(stages, admin, port)]
    yield Blueprint("kwok", command, state / "kwok.log", kwok_health(port))
    yield kubelet_blueprint(admin, state)


@contextmanager
def _others_cordoned(api: Api) -> Iterator[None]:
    """Have no pod placed on nodes that are not simulated; those that were cordoned before stay so afterwards.

    An annotation tells nodes that a killed run of ours has cordoned from those that somebody else has.
    """
    names = []
    for node in api.get(_NODES)["items"]:
        by_us = _CORDONED in node["metadata"].get("annotations", {})
        if not is_simulated(node) and (by_us or not node["spec"].get("unschedulable")):
            names.append(node["metadata"]["name"])
    _cordon(api, names, True, "")
    try:
        yield
    finally:
        _cordon(api, names, None, None)


def _cordon(api: Api, names: list[str], unschedulable: bool | None, mark: str | None) -> None:
    patch = {"metadata": {"annotations": {_CORDONED: mark}}, "spec": {"unschedulable": unschedulable}}
    for name in names:
        api.merge(f"{_NODES}/{name}", patch)


def _remove(api: Api) -> None:
    """What still runs there ends too: Kubernetes deletes pods whose node is gone."""
    found = api.get(f"{_NODES}?labelSelector={SIMULATED_LABEL}")["items"]
    paths = [f"{_NODES}/{node['metadata']['name']}" for node in found]
    for path in (*paths, f"{_CLASSES}/{STORAGE_CLASS['metadata']['name']}"):
        with tolerating(_NOT_FOUND):
            api.delete(path)
