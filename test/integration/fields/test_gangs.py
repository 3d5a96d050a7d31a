"""Every group has its own PodGroup, with the size of the group, for as long as the group exists."""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL
from test.harness.groups import (
    annotations_of,
    labels_of,
    names_of,
    pods_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import a_set, pod_template
from test.harness.waiting import eventually
from test.harness.world import SET, World

GROUP_NAME = "scheduling.k8s.io/group-name"
GPUS = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}


def pod_groups(world: World) -> dict[str, dict[str, Any]]:
    """Return the PodGroup of each group."""
    return {labels_of(pod_group)[GROUP_INDEX_LABEL]: pod_group for pod_group in world.list("PodGroup")}


def test_the_pod_group_of_a_group_is_recreated_and_deleted_with_it(world: World) -> None:
    template = pod_template()
    template["spec"]["containers"][0] |= GPUS
    queue = {"scheduling.volcano.sh/queue-name": "gold"}
    world.create(a_set("gang", 2, 3, workers=template, annotations=queue))
    settle(world, "gang")
    # A manager that has just started checks for the API again after a while.
    groups = eventually(
        "every group has a PodGroup", lambda: pod_groups(world), lambda now: now.keys() == {"0", "1"}
    )
    assert groups["1"]["spec"] == {
        "minMember": 3,
        "minResources": {"nvidia.com/gpu": "6"},
        "queue": "gold",
    }
    names = {annotations_of(pod)[GROUP_NAME] for pod in pods_of(world, "gang")}
    assert names == names_of(groups.values())

    name = groups["1"]["metadata"]["name"]
    world.delete("PodGroup", name)
    eventually(
        "the PodGroup is recreated",
        lambda: world.uid("PodGroup", name),
        lambda now: now not in ("", groups["1"]["metadata"]["uid"]),
    )

    leader = uids_of_group(world, "gang", 0)["gang-0"]
    world.delete("Pod", "gang-0-1")
    world.gone_or_replaced("Pod", "gang-0", leader)
    settle(world, "gang")
    again = eventually(
        "the new group has a PodGroup",
        lambda: pod_groups(world).get("0"),
        lambda now: now is not None and now["metadata"]["uid"] != groups["0"]["metadata"]["uid"],
    )
    assert again is not None
    assert again["metadata"]["ownerReferences"][0]["uid"] == world.uid("Pod", "gang-0")

    world.patch(SET, "gang", {"spec": {"leaderWorkerTemplate": {"size": 2}}})
    settle(world, "gang")
    eventually(
        "every PodGroup has the new size",
        lambda: sorted(pod_group["spec"]["minMember"] for pod_group in world.list("PodGroup")),
        lambda now: now == [2, 2],
    )
