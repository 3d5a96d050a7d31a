"""Add simulated nodes to a cluster that is not ours while tests run there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tools.linux import require_linux
from tools.localcluster.access import read_access
from tools.localcluster.api import Api, tolerating
from tools.localcluster.build import find_kwok
from tools.localcluster.component import Blueprint, Component, Guard, Supervisor
from tools.localcluster.components import Options, kwok_flags, kwok_health
from tools.localcluster.nodes import SIMULATED_LABEL, STORAGE_CLASS, is_simulated
from tools.localcluster.ports import pick_ports
from tools.localcluster.progress import LinePrinter, Report
from tools.localcluster.simulation import CLASSES, NODES, STAGES, add_nodes, kubelet_blueprint

_CORDONED = "localcluster/cordoned"
_START_SECONDS = 240.0
_NOT_FOUND = 404


@contextmanager
def simulated_nodes(
    kubeconfig: Path, options: Options | None = None, report: Report | None = None
) -> Iterator[None]:
    """Add simulated nodes to a running cluster during the block.

    All other nodes are cordoned meanwhile, so that pods created in the block are scheduled to simulated
    nodes. Raises ApiError, BuildError, ComponentError, NoGoError or NotLinuxError; everything is removed
    then.
    """
    require_linux()
    kwok, access = find_kwok(report or LinePrinter()), read_access(kubeconfig.read_text())
    with ExitStack() as undo:
        state = Path(tempfile.mkdtemp(prefix="localcluster-"))
        guard = Guard(state)
        undo.callback(guard.close)
        api = undo.enter_context(closing(Api(access.server, access.ca, access.token)))
        components = [Component(blueprint, guard) for blueprint in _blueprints(state, kwok, kubeconfig)]
        for component in components:
            undo.callback(component.stop)
            component.start()
            component.wait_healthy(_START_SECONDS)
        supervisor = Supervisor(components)
        supervisor.start()
        undo.callback(supervisor.stop)
        undo.enter_context(_others_cordoned(api))
        undo.callback(_remove, api)
        # Remove simulated nodes of a run that was killed.
        _remove(api)
        add_nodes(api, options or Options())
        yield


def _blueprints(state: Path, kwok: Path, kubeconfig: Path) -> Iterator[Blueprint]:
    """Yield the components to run. The guard identifies their processes by the state directory on the command
    line.
    """
    stages, admin, (port,) = state / "kwok.yaml", state / "kubeconfig.yaml", pick_ports(1)
    shutil.copyfile(STAGES, stages)
    admin.touch(mode=0o600)
    admin.write_text(kubeconfig.read_text())
    command = [str(kwok), *kwok_flags(stages, admin, port)]
    yield Blueprint("kwok", command, state / "kwok.log", kwok_health(port))
    yield kubelet_blueprint(admin, state)


@contextmanager
def _others_cordoned(api: Api) -> Iterator[None]:
    """Cordon all nodes that are not simulated during the block. Nodes that were cordoned before stay cordoned
    afterwards.

    An annotation distinguishes nodes that a killed run of ours has cordoned from nodes that another client
    has cordoned.
    """
    names = []
    for node in api.get(NODES)["items"]:
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
        api.merge(f"{NODES}/{name}", patch)


def _remove(api: Api) -> None:
    """Delete the simulated nodes and their storage class. Pods on these nodes end too: Kubernetes deletes
    pods whose node is gone.
    """
    nodes = api.get(f"{NODES}?labelSelector={SIMULATED_LABEL}")["items"]
    paths = [f"{NODES}/{node['metadata']['name']}" for node in nodes]
    for path in (*paths, f"{CLASSES}/{STORAGE_CLASS['metadata']['name']}"):
        with tolerating(_NOT_FOUND):
            api.delete(path)
