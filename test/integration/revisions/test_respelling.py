"""Nothing restarts when a client writes an equivalent set in another notation.

Clients do this often: they apply again, apply from elsewhere, or read an object and write it back with all
defaults.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from test.harness.groups import pod_uids, revisions_of, settle
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster.api import Call

Object = dict[str, Any]

NAME = "web"
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "server"}},
    "spec": {
        "containers": [
            {
                "name": "server",
                "image": "server:1",
                "ports": [{"containerPort": 8080}],
                "env": [{"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
                "readinessProbe": {"tcpSocket": {"port": 8080}},
                "resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/config"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "config", "optional": True}}],
    },
}


def manifest() -> Object:
    return copy.deepcopy(a_set(NAME, workers=TEMPLATE, group={"leaderTemplate": copy.deepcopy(TEMPLATE)}))


def apply_again(world: World) -> None:
    world.kubectl("apply", "-f", "-", input=manifest())


def apply_with_a_comment(world: World) -> None:
    """Change only the annotation of the last apply, not the set."""
    changed = manifest()
    changed["metadata"]["annotations"] = {"example.com/comment": "none"}
    world.kubectl("apply", "-f", "-", input=changed)


def apply_from_the_server_side(world: World) -> None:
    arguments = ("apply", "--server-side", "--force-conflicts", "--field-manager=somebody-else")
    world.kubectl(*arguments, "-f", "-", input=manifest())


def respell(world: World) -> None:
    """Use other notations of quantities, zeros, nulls and empty maps."""
    changed = manifest()
    for part in ("leaderTemplate", "workerTemplate"):
        template = changed["spec"]["leaderWorkerTemplate"][part]
        template["metadata"]["annotations"] = {}
        template["spec"] |= {"nodeSelector": {}, "hostNetwork": False, "tolerations": []}
        container = template["spec"]["containers"][0]
        container["resources"] = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {}}
        container["readinessProbe"] |= {"initialDelaySeconds": 0}
    world.kubectl("apply", "-f", "-", input=changed)


def write_back_with_defaults(world: World) -> None:
    """Write the set back as a typed client does, with all defaults of the API server."""
    path = f"/api/v1/namespaces/{world.namespace}/podtemplates"

    def complete(stored: Object) -> None:
        for part in ("leaderTemplate", "workerTemplate"):
            template = stored["spec"]["leaderWorkerTemplate"][part]
            body = {
                "apiVersion": "v1",
                "kind": "PodTemplate",
                "metadata": {"name": "any"},
                "template": template,
            }
            completed = world.api.send(Call("POST", path, body, query={"dryRun": "All"}))["template"]
            assert completed != template
            stored["spec"]["leaderWorkerTemplate"][part] = completed

    world.update(SET, NAME, complete)


@pytest.mark.parametrize(
    "write",
    [apply_again, apply_with_a_comment, apply_from_the_server_side, respell, write_back_with_defaults],
)
def test_nothing_restarts(world: World, write: Callable[[World], None]) -> None:
    world.kubectl("apply", "-f", "-", input=manifest())
    settle(world, NAME)
    before = specs(identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision"))
    write(world)

    def is_seen() -> bool:
        lws = world.get(SET, NAME)
        return bool(lws["status"]["observedGeneration"] == lws["metadata"]["generation"])

    eventually("the manager has observed the set", is_seen)
    settle(world, NAME)
    # Some of these cause no write of the manager, so give it time to do something wrong.
    stays("no object is replaced", lambda: pod_uids(world, NAME), 1.0)
    after = specs(identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision"))
    assert differences(before, after) == []
    assert len(revisions_of(world, NAME)) == 1
