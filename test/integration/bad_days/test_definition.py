"""A manager waits for a missing CustomResourceDefinition of LeaderWorkerSet."""

from __future__ import annotations

from pathlib import Path

import pytest

import lws_api.crds
from test.harness.groups import settle
from test.harness.manifests import a_set
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import World
from tools.deployment import ManagerProcess
from tools.localcluster import LocalCluster

pytestmark = pytest.mark.local_only

DEFINITION = "leaderworkersets.leaderworkerset.x-k8s.io"
FILE = Path(lws_api.crds.__file__).with_name("leaderworkersets.yaml")
COMPLAINT = "does not serve leaderworkerset.x-k8s.io/v1: install the CustomResourceDefinition"


def test_the_manager_waits_for_a_missing_crd(stage: Stage, cluster: LocalCluster, world: World) -> None:
    cluster.kubectl("delete", "crd", DEFINITION, "--wait")
    impatient, manager = stage.manager().start(), stage.manager().start()
    try:
        eventually("both managers wait", lambda: complaints(impatient) and complaints(manager))
        assert impatient.stop() == 0
        eventually("the manager checks again", lambda: complaints(manager) > 1)
        assert manager.is_running
        eventually("the manager is alive", lambda: manager.probe("healthz")[0], lambda status: status == 200)
        _, text = eventually(
            "the manager is not ready", lambda: manager.probe("readyz"), lambda answer: answer[0] == 500
        )
        assert "leaderworkersets" in text
        assert "Traceback" not in manager.log_path.read_text()
    finally:
        cluster.kubectl("create", "-f", str(FILE))
    stage.serve(manager)
    world.create(a_set("web", replicas=2, size=2))
    settle(world, "web")
    assert manager.is_running


def complaints(manager: ManagerProcess) -> int:
    return manager.log_path.read_text().count(COMPLAINT)
