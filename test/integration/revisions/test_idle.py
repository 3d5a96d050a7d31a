"""A thousand passes over settled sets write nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from test.harness.audit import AuditLog
from test.harness.groups import settle
from test.harness.identities import differences, identities
from test.harness.manifests import a_set, pod_template, rolling
from test.harness.product import Product
from test.harness.quiet import wait_until_quiet, writes
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.demo.play import read_passes
from tools.localcluster import LocalCluster
from tools.localcluster.access import read_access

pytestmark = pytest.mark.local_only

PASSES = 1000
# kubectl's own annotation: changing it changes no object that is created from the set.
NOTE = "kubectl.kubernetes.io/last-applied-configuration"
SETS = {
    "plain": a_set("plain"),
    "leaders": a_set("leaders", group={"leaderTemplate": pod_template("leader:1")}),
    "unique": a_set("unique", networkConfig={"subdomainPolicy": "UniquePerReplica"}),
    "canary": a_set("canary", replicas=3, rolloutStrategy=rolling(partition=1, maxSurge=1)),
    "alone": a_set("alone", size=1),
    "empty": a_set("empty", replicas=0),
}


def test_a_thousand_passes_over_settled_sets_write_nothing(
    world: World, product: Product, local_cluster: LocalCluster, audit: AuditLog
) -> None:
    for manifest in SETS.values():
        world.create(manifest)
    settle(world, *SETS)
    token = read_access(local_cluster.kubeconfig.read_text()).token

    def passes() -> Mapping[str, int]:
        """Return the number of passes over these sets and their groups, by kind."""
        counted = read_passes(product.manager.metrics_port, token)
        return {kind: counted[kind] for kind in ("leaderworkerset", "pod") if kind in counted}

    began = eventually("passes are counted", passes)
    wait_until_quiet(world, audit)
    before = identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision")
    rounds = 0
    while sum(passes().values()) - sum(began.values()) < PASSES:
        rounds += 1
        assert rounds < PASSES, "a change of a set triggers no pass"
        for name in SETS:
            world.patch(SET, name, {"metadata": {"annotations": {NOTE: f"{rounds}"}}})
    ended = passes()
    assert all(ended[kind] - began[kind] > PASSES / 10 for kind in ended), (began, ended)
    assert writes(world, audit) == []
    after = identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision")
    assert differences(before, after) == []
