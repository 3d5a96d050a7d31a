"""Objects of a set that another client deletes or edits are restored."""

from __future__ import annotations

from functools import partial

from test.harness.events import notes_of
from test.harness.groups import (
    controller_of,
    images_of,
    labels_of,
    name_of,
    pod_uids,
    revisions_of,
    settle,
    uids_of_group,
)
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set, pod_template
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World


def test_a_deleted_leader_statefulset_is_recreated_with_the_same_key(world: World) -> None:
    world.create(a_set("lost"))
    settle(world, "lost")
    before, revisions = (
        pod_uids(world, "lost"),
        [name_of(revision) for revision in revisions_of(world, "lost")],
    )
    uid = world.uid("StatefulSet", "lost")

    world.delete("StatefulSet", "lost")
    eventually(
        "the StatefulSet is recreated",
        lambda: world.uid("StatefulSet", "lost"),
        lambda now: now not in ("", uid),
    )
    settle(world, "lost")

    assert not set(before.values()) & set(pod_uids(world, "lost").values())
    assert [name_of(revision) for revision in revisions_of(world, "lost")] == revisions


def test_pods_survive_an_orphaning_deletion_of_the_leader_statefulset(world: World) -> None:
    world.create(a_set("kept"))
    settle(world, "kept")
    before, uid = pod_uids(world, "kept"), world.uid("StatefulSet", "kept")

    world.delete("StatefulSet", "kept", "Orphan")
    eventually(
        "the StatefulSet is recreated",
        lambda: world.uid("StatefulSet", "kept"),
        lambda now: now not in ("", uid),
    )
    settle(world, "kept")

    assert pod_uids(world, "kept") == before


def test_a_deleted_worker_statefulset_is_recreated_with_all_workers(world: World) -> None:
    world.create(a_set("worker", size=3))
    settle(world, "worker")
    untouched, before = uids_of_group(world, "worker", 1), uids_of_group(world, "worker", 0)

    world.delete("StatefulSet", "worker-0")
    eventually(
        "both workers are recreated",
        lambda: uids_of_group(world, "worker", 0),
        lambda now: len(now) == 3 and all(now[pod] != before[pod] for pod in ("worker-0-1", "worker-0-2")),
    )
    settle(world, "worker")

    assert uids_of_group(world, "worker", 1) == untouched
    assert controller_of(world.get("StatefulSet", "worker-0"))["uid"] == world.uid("Pod", "worker-0")


def test_deleted_services_are_recreated_without_touching_pods(world: World) -> None:
    world.create(a_set("shared", replicas=1))
    world.create(a_set("own", replicas=1, networkConfig={"subdomainPolicy": "UniquePerReplica"}))
    settle(world, "shared", "own")
    before = specs(identities(world, "Pod", "StatefulSet", SET))
    services = {name: world.uid("Service", name) for name in ("shared", "own-0")}

    for name in services:
        world.delete("Service", name)
    for name, uid in services.items():
        world.gone_or_replaced("Service", name, uid)
        eventually(f"Service {name} is recreated", partial(world.find, "Service", name))

    assert differences(before, specs(identities(world, "Pod", "StatefulSet", SET))) == []
    assert controller_of(world.get("Service", "shared"))["kind"] == SET
    assert controller_of(world.get("Service", "own-0"))["kind"] == "Pod"


def test_edited_services_are_repaired(world: World) -> None:
    world.create(a_set("shared", replicas=1))
    world.create(a_set("own", replicas=1, networkConfig={"subdomainPolicy": "UniquePerReplica"}))
    settle(world, "shared", "own")
    services = ("shared", "own-0")
    uids = {name: world.uid("Service", name) for name in services}
    original = {name: world.get("Service", name)["spec"] for name in services}
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]
    for edit in (
        {"selector": {"app": "elsewhere"}, "publishNotReadyAddresses": False, "ports": ports},
        {"type": "ExternalName", "externalName": "elsewhere.example.com"},
    ):
        for name in services:
            world.patch("Service", name, {"spec": edit})
        for name in services:
            eventually(f"Service {name} is repaired", partial(_spec_of, world, name), original[name].__eq__)
    assert {name: world.uid("Service", name) for name in services} == uids


def test_worker_replicas_are_repaired_and_their_template_is_kept(world: World) -> None:
    world.create(a_set("hand", replicas=1, size=2, group={"restartPolicy": "None"}))
    settle(world, "hand")
    before = pod_uids(world, "hand")

    world.patch("StatefulSet", "hand-0", {"spec": {"replicas": 3}})
    eventually("replicas are repaired", lambda: _replicas(world, "hand-0"), lambda now: now == 1)
    settle(world, "hand")
    assert pod_uids(world, "hand") == before

    world.patch("StatefulSet", "hand-0", {"spec": {"template": {"spec": pod_template("by-hand:1")["spec"]}}})
    eventually(
        "the pod has the new image",
        lambda: images_of(world, "hand"),
        lambda now: now[0] == {"server:1", "by-hand:1"},
    )
    stays("the edited template is kept", lambda: images_of(world, "hand"), 2)


def test_an_edited_leader_statefulset_is_repaired(world: World) -> None:
    world.create(a_set("edited", replicas=2))
    settle(world, "edited")
    before = uids_of_group(world, "edited", 0)

    world.kubectl("scale", "statefulset", "edited", "--replicas=3")
    settle(world, "edited")
    eventually("replicas are repaired", lambda: _replicas(world, "edited"), lambda now: now == 2)

    assert uids_of_group(world, "edited", 0) == before
    assert not [note for note in notes_of(world, "edited") if "Failed" in note]


def test_children_do_not_carry_tool_labels_used_for_pruning(world: World) -> None:
    """Rancher Fleet and kro delete every object that has the label and is not in their manifests."""
    label = "objectset.rio.cattle.io/hash"
    manifest = a_set("claimed")
    manifest["metadata"]["labels"] = {label: "h", "team": "a"}
    world.create(manifest)
    settle(world, "claimed")
    before = pod_uids(world, "claimed")
    kinds = ("statefulsets", "services", "pods", "controllerrevisions", "poddisruptionbudgets")
    assert world.kubectl("get", ",".join(kinds), "-l", label, "-o", "name") == ""
    assert {labels_of(statefulset).get("team") for statefulset in world.list("StatefulSet")} == {"a"}

    # In the state that an earlier release left: it causes no write, but the next write removes it.
    world.kubectl("label", "statefulsets", "claimed", "claimed-0", f"{label}=h")
    world.patch(SET, "claimed", {"metadata": {"labels": {"team": "b"}}})
    world.patch("StatefulSet", "claimed-0", {"spec": {"replicas": 3}})
    for name in ("claimed", "claimed-0"):
        eventually(
            f"StatefulSet {name} has no such label",
            partial(world.get, "StatefulSet", name),
            lambda now: label not in labels_of(now),
        )
    eventually("replicas are repaired", lambda: _replicas(world, "claimed-0"), lambda now: now == 1)
    settle(world, "claimed")
    assert before.items() <= pod_uids(world, "claimed").items(), "no pod is restarted"


def _spec_of(world: World, service: str) -> object:
    obj = world.find("Service", service)
    return obj and obj["spec"]


def _replicas(world: World, statefulset: str) -> int:
    return int(world.get("StatefulSet", statefulset)["spec"]["replicas"])
