"""`lws restart`, `lws pause`, `lws resume` and `lws status` on running sets."""

from __future__ import annotations

from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.groups import (
    images_of,
    labels_of,
    leaders_of,
    pod_uids,
    revisions_of,
    settle,
)
from test.harness.history import History, existing_groups, ready_groups
from test.harness.manifests import a_set, new_budget, new_image, pod_template, rolling
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.cli.command import Caller

FULL_NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"


def test_restart_is_one_rollout_within_the_budget(world: World, lws: Caller) -> None:
    leader = pod_template()
    world.create(a_set("demo", replicas=2, group={"leaderTemplate": leader}))
    settle(world, "demo")
    before, history = set(pod_uids(world, "demo").values()), History(world, "demo")

    result = lws.succeed("restart", "demo")
    assert result.out == f"{FULL_NAME} restarted\n"
    assert lws("status", "demo", "--watch", "--timeout", "170").code == 0
    settle(world, "demo")

    assert not before & set(pod_uids(world, "demo").values())
    assert [len(uids) for _, uids in sorted(history.leaders().items())] == [2, 2]
    frames = history.pods()
    assert min(len(ready_groups(frame)) for frame in frames) >= 1
    assert max(len(existing_groups(frame)) for frame in frames) == 2
    assert len(revisions_of(world, "demo")) == 2
    (*_, last) = lws.succeed("history", "demo").lines
    assert last.count("annotation kubectl.kubernetes.io/restartedAt added") == 2


def test_pause_stops_a_rollout_and_resume_continues_it(world: World, lws: Caller) -> None:
    """The partition lets only one group be replaced, so that a late pause still has an effect."""
    world.create(a_set("demo", rolloutStrategy=rolling(partition=1)))
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    eventually(
        "the rollout has begun", lambda: images_of(world, "demo"), lambda now: {"server:2"} in now.values()
    )

    assert lws.succeed("pause", "demo").out.endswith("/demo paused\n")
    world.patch(SET, "demo", new_budget(partition=0))
    again = lws("pause", "demo")
    assert (again.code, again.err) == (1, "error: set demo is already paused\n")
    refused = lws("restart", "demo")
    assert (refused.code, refused.out) == (1, "")
    assert "is paused" in refused.err

    def ready() -> set[str]:
        data = lws("status", "demo", "-o", "json").data
        return {group["leader"] for group in data["groups"]}

    eventually("the group that was being updated is ready", ready, lambda now: now == {"Ready"})
    stays("no other group is updated", lambda: images_of(world, "demo"), 1.5)
    result = lws("status", "demo")
    assert result.code == 1
    assert "paused: no group is updated before `resume`" in result.lines
    assert result.lines[-1] == "waits for the rollout to be resumed"
    world.kubectl("scale", "lws", "demo", "--replicas=3")
    eventually("scaling continues", lambda: len(leaders_of(world, "demo")), lambda count: count == 3)

    assert lws.succeed("resume", "lws/demo", "-o", "name").out == f"{FULL_NAME}\n"
    assert "paused" not in world.get(SET, "demo")["spec"]["rolloutStrategy"]
    again = lws("resume", "demo")
    assert (again.code, again.err) == (1, "error: set demo is not paused\n")
    settle(world, "demo")
    assert set.union(*images_of(world, "demo").values()) == {"server:2"}


def test_status_reports_what_a_set_waits_for(world: World, lws: Caller) -> None:
    world.create(a_set("demo", replicas=1))
    settle(world, "demo")
    settled = lws.succeed("status", "demo")
    assert settled.lines[-1] == "settled"
    (revision,) = revisions_of(world, "demo")
    assert settled.lines[1] == f"groups ready on revision 1 ({labels_of(revision)[REVISION_LABEL]}): 1 of 1"

    homeless = new_image("server:2")
    homeless["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = {"no": "node"}
    world.patch(SET, "demo", homeless)
    waiting = eventually(
        "the scheduler has reported the reason",
        lambda: lws("status", "demo"),
        lambda result: "has no node" in result.out,
    )
    assert waiting.code == 1
    assert waiting.lines[-1].startswith("waits for group 0 to be ready")
    late = lws("status", "demo", "--watch", "--timeout", "0.5")
    assert (late.code, late.err) == (1, "error: set demo is not settled after 0.5 s\n")
    data = lws("status", "demo", "-o", "json").data
    assert (data["settled"], data["groups"][0]["leader"]) == (False, "Pending")

    def reasons() -> tuple[str, list[str]]:
        why = lws("status", "demo", "-o", "json").data["groups"][0]["why"]
        stored = world.get(SET, "demo")["status"]["groups"].get("unsettled", [])
        return why, [group["reason"] for group in stored]

    def are_same(both: tuple[str, list[str]]) -> bool:
        why, stored = both
        return [f"{reason}; pod demo-0 has no node" for reason in stored] == [why.split(":")[0]]

    eventually("the status gives the same reason, without the pod", reasons, are_same)


def test_status_lists_all_sets_in_all_namespaces(world: World, lws: Caller) -> None:
    assert lws.succeed("status").err == f"No resources found in {world.namespace} namespace.\n"
    for name in ("demo", "other"):
        world.create(a_set(name, replicas=1))
        settle(world, name)
    lines = [line.split()[:4] for line in lws.succeed("status").lines]
    assert lines[0] == ["NAME", "READY", "UPDATED", "REVISION"]
    assert sorted(lines[1:]) == [["demo", "1/1", "1", "1"], ["other", "1/1", "1", "1"]]
    everywhere = lws("status", "-A", "-o", "json").data["items"]
    in_namespace = {item["name"]: item for item in everywhere if item["namespace"] == world.namespace}
    assert sorted(in_namespace) == ["demo", "other"]
    assert in_namespace["demo"] == lws.succeed("status", "demo", "-o", "json").data
    wide = lws.succeed("status", "demo", "-o", "wide").lines[4].split()
    assert wide[5:] == ["demo-0", world.get("Pod", "demo-0")["spec"]["nodeName"]]
    assert FULL_NAME in lws.succeed("status", "-o", "name").lines
