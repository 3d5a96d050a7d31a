"""Build pods that stay unready on real and on simulated nodes, and the patch that makes them ready."""

from __future__ import annotations

from typing import Any

from test.cluster import simulates
from test.harness.groups import name_of, pods_of
from test.harness.manifests import Object, pod_template
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import Pods
from tools.localcluster.pods import is_ready

_FAILING_PROBES = {"localcluster/ready": "false"}
_NO_NODE = {"example.com/no-such-node": "true"}
_GATE = {"conditionType": "example.com/never-set"}


def never_ready(image: str = "server:1", **pod: Any) -> Object:
    """Build the template of pods that are never ready, not even for a moment.

    On nodes that we simulate, the pods run and their probes fail. On other clusters no node fits the pods,
    because other simulations make every pod ready that has a node.
    """
    if simulates():
        return pod_template(image, _FAILING_PROBES, **pod)
    return pod_template(image, nodeSelector=_NO_NODE, **pod)


def running_unready(image: str = "server:1", **pod: Any) -> Object:
    """Build the template of pods that run and that `hold_unready` keeps unready."""
    return pod_template(image, _FAILING_PROBES, readinessGates=[_GATE], **pod)


def hold_unready(world: World, name: str, count: int) -> None:
    """Wait until all `count` pods of a set run and none is ready.

    A kubelet leaves a readiness gate closed. A simulation may open the gate once, and leaves the status alone
    after that.
    """
    pods = Pods(world.api)

    def phases_of_unready() -> list[str]:
        listed = pods_of(world, name)
        for pod in listed:
            if is_ready(pod):
                pods.set_ready(world.namespace, name_of(pod), False)
        return [pod["status"]["phase"] for pod in listed if not is_ready(pod)]

    eventually("all pods run, none is ready", phases_of_unready, lambda now: now == ["Running"] * count)


def ready_again(template: Object) -> Object:
    """Return the template as a merge patch that lets pods become ready again."""
    return {
        **template,
        "metadata": {**template.get("metadata", {}), "annotations": dict.fromkeys(_FAILING_PROBES)},
        "spec": {**template.get("spec", {}), "nodeSelector": None, "readinessGates": None},
    }
