"""`lws undo` rolls back to an earlier revision without restarting pods that run it already."""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, REVISION_LABEL
from test.harness.groups import (
    images_of,
    keys_of,
    labels_of,
    pod_uids,
    revisions_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import a_set, new_image, rolling
from test.harness.never_ready import never_ready
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.cli.command import Caller
from tools.localcluster.nodes import ZONE_LABEL


def two_revisions(world: World, name: str, **spec: Any) -> None:
    """Create a set and update it once, until it is settled."""
    world.create(a_set(name, **spec))
    settle(world, name)
    world.patch(SET, name, new_image("server:2"))
    settle(world, name)


def test_undo_during_a_rollout_restarts_only_updated_groups(world: World, lws: Caller) -> None:
    world.create(a_set("demo", replicas=4))
    settle(world, "demo")
    (first,) = revisions_of(world, "demo")
    key = labels_of(first)[REVISION_LABEL]
    broken = {"spec": {"leaderWorkerTemplate": {"workerTemplate": never_ready("server:2")}}}
    world.patch(SET, "demo", broken)
    eventually(
        "the rollout is stuck", lambda: images_of(world, "demo"), lambda now: now.get(3) == {"server:2"}
    )
    untouched = [uids_of_group(world, "demo", index) for index in range(3)]

    before = world.get(SET, "demo")
    result = lws.succeed("undo", "demo", "--dry-run")
    assert "rolled back to revision 1 (server dry run)" in result.lines[0]
    assert result.lines[1] == "group 3 restarts, by a rollout; groups 0 to 2 stay as they are"
    assert world.get(SET, "demo")["spec"] == before["spec"]

    result = lws.succeed("undo", "demo")
    assert result.lines[0] == "leaderworkerset.leaderworkerset.x-k8s.io/demo rolled back to revision 1"
    assert lws("status", "demo", "--watch", "--timeout", "170").code == 0
    settle(world, "demo")
    assert [uids_of_group(world, "demo", index) for index in range(3)] == untouched
    assert set.union(*keys_of(world, "demo").values()) == {key}
    assert [revision["revision"] for revision in revisions_of(world, "demo")] == [2, 3]
    managers = {entry["manager"] for entry in world.get(SET, "demo")["metadata"]["managedFields"]}
    assert "lws-undo" in managers


def test_undo_to_a_numbered_revision_and_back_again(world: World, lws: Caller) -> None:
    two_revisions(world, "demo", replicas=1)
    change = {
        "metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE_LABEL}},
        "spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
    }
    world.patch(SET, "demo", change)
    eventually(
        "the third revision is recorded", lambda: len(revisions_of(world, "demo")), lambda count: count == 3
    )

    lws.succeed("undo", "demo", "--to-revision", "1")
    settle(world, "demo")
    now = world.get(SET, "demo")
    assert images_of(world, "demo") == {0: {"server:1"}}
    assert now["spec"]["networkConfig"] == {"subdomainPolicy": "Shared"}
    assert EXCLUSIVE_TOPOLOGY_ANNOTATION not in now["metadata"].get("annotations", {})
    count = len(revisions_of(world, "demo"))
    number = max(revision["revision"] for revision in revisions_of(world, "demo"))
    (current,) = [
        revision
        for revision in lws.succeed("history", "demo", "-o", "json").data["revisions"]
        if revision["wanted"]
    ]
    assert (current["revision"], current["groups"]) == (number, [0])

    lws.succeed("undo", "demo")
    settle(world, "demo")
    assert world.get(SET, "demo")["spec"]["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}
    assert len(revisions_of(world, "demo")) == count


def test_undo_warns_about_other_field_managers(world: World, lws: Caller) -> None:
    manifest = a_set("demo", replicas=1)
    world.kubectl("apply", "--server-side", "--field-manager=flux", "-f", "-", input=manifest)
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    settle(world, "demo")
    result = lws.succeed("undo", "demo")
    assert result.err.startswith("Warning: flux applies the template of this set: its next apply will undo")
    settle(world, "demo")
    assert images_of(world, "demo") == {0: {"server:1"}}


def test_a_rejected_or_skipped_undo_changes_nothing(world: World, lws: Caller) -> None:
    two_revisions(world, "demo", replicas=1, rolloutStrategy=rolling(maxUnavailable=1))
    before = world.get(SET, "demo")["metadata"]["generation"], pod_uids(world, "demo")

    current = lws("undo", "demo", "--to-revision", "2")
    skipped = "skipped rollback (current template already matches revision 2)"
    assert (current.code, current.err) == (0, "")
    assert current.out == f"leaderworkerset.leaderworkerset.x-k8s.io/demo {skipped}\n"
    missing = lws("undo", "demo", "--to-revision", "9")
    assert (missing.code, missing.err) == (1, "error: set demo has no revision 9: there is 1, 2\n")
    unknown = lws("undo", "dmeo")
    assert unknown.code == 1
    assert unknown.err.endswith("did you mean demo?\n")
    assert (world.get(SET, "demo")["metadata"]["generation"], pod_uids(world, "demo")) == before

    lws.succeed("pause", "demo")
    paused = lws("undo", "demo")
    assert (paused.code, paused.out) == (1, "")
    assert paused.err.startswith("error: set demo is paused: resume it first")
    assert world.get(SET, "demo")["metadata"]["generation"] == before[0] + 1
    assert images_of(world, "demo") == {0: {"server:2"}}
