"""Sets keep running after the chart is uninstalled, and are managed again after a new installation.

The name of this file makes it run last.
"""

from __future__ import annotations

from test.harness.waiting import eventually
from test.node.groups import Groups, manifest, member, uids
from tools.deployment import CHART, NAMESPACE
from tools.realnode.members import end, given_to


def test_sets_keep_running_and_are_managed_by_a_new_installation(groups: Groups) -> None:
    groups.apply(manifest("left", {}, {"containers": [member()]}))
    before = groups.ready("left", 2)
    groups.cluster.helm("uninstall", "lws", "-n", NAMESPACE, "--wait")
    eventually(
        "the managers are gone", lambda: groups.cluster.pods.matching(NAMESPACE), lambda pods: not pods
    )
    pods = groups.pods("left")
    assert uids(pods) == uids(before)
    assert [given_to(pod).hostname for pod in pods.values()] == list(pods)
    groups.cluster.helm("install", "lws", str(CHART), "-n", NAMESPACE, "--wait", "--timeout", "300s")
    assert uids(groups.pods("left")) == uids(before)
    end(pods["left-0-1"], 3)
    groups.recreated("left", before)
