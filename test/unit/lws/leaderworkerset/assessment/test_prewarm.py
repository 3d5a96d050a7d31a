"""Tests that nodes get new images before a rollout replaces the first group."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import Rejection, find, is_true, timestamp
from lws.leaderworkerset.assessment import prewarm as module
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.assessment.prewarm import has_ended
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.shape import readable_status
from lws.leaderworkerset.snapshot import NodesOfGroup, PrewarmFacts, SetSnapshot
from lws.leaderworkerset.spec import Prewarm, SetSpec
from lws.runtime.actions import Apply, Create, Delete, Plan
from lws_api.leaderworkerset.v1 import NAME_LABEL, PREWARM_LABEL, PREWARM_NODE_ANNOTATION
from test.unit.builders import NOW, make_pod_template, make_set
from test.unit.set_world import actions_of, carried_out, settled, with_reported, with_spec

Object = dict[str, Any]


def set_with_prewarm(image: str = "app:1", replicas: int = 3, **options: Any) -> Object:
    """Return a set with the fields of `prewarm`, and others as in `make_set`."""
    prewarm, partition = options.pop("prewarm", {}), options.pop("partition", 0)
    lws = make_set(image=image, replicas=replicas, partition=partition, **options)
    lws["spec"]["rolloutStrategy"]["prewarm"] = prewarm
    return lws


def nodes(replicas: int) -> dict[int, NodesOfGroup]:
    """Return a node of its own for each pod."""
    return {i: NodesOfGroup(f"leader-{i}", frozenset({f"worker-{i}"})) for i in range(replicas)}


def changed(before: Object, after: Object, **facts: Any) -> SetSnapshot:
    """Return the settled set with a changed spec."""
    snapshot = with_spec(settled(before), after)
    return replace(snapshot, prewarm=PrewarmFacts(nodes=nodes(before["spec"]["replicas"])), **facts)


def jobs_in(planned: Plan) -> dict[str, Object]:
    """Return the Jobs that a plan creates, by node."""
    created = [action.intent for action in actions_of(planned) if isinstance(action, Create)]
    return {
        job["metadata"]["annotations"][PREWARM_NODE_ANNOTATION]: dict(job)
        for job in created
        if job["kind"] == "Job"
    }


def jobs_in_snapshot(snapshot: SetSnapshot) -> list[str]:
    """Return the node of each existing Job."""
    jobs = snapshot.prewarm.jobs if snapshot.prewarm is not None else ()
    return [job["metadata"]["annotations"][PREWARM_NODE_ANNOTATION] for job in jobs]


def pod_of(job: Object) -> Object:
    return dict(job["spec"]["template"]["spec"])


def with_finished_jobs(
    snapshot: SetSnapshot, *names: str, type_: str = "Complete", reason: str = ""
) -> SetSnapshot:
    """Return the snapshot with ended Jobs of these nodes, by default of all nodes."""
    assert snapshot.prewarm is not None
    done = []
    for job in map(copy.deepcopy, snapshot.prewarm.jobs):
        node = job["metadata"]["annotations"][PREWARM_NODE_ANNOTATION]
        if not names or node in names:
            job["status"] = {"conditions": [{"type": type_, "status": "True", "reason": reason}]}
        done.append(job)
    return replace(snapshot, prewarm=replace(snapshot.prewarm, jobs=tuple(done)))


def with_warmed_nodes(snapshot: SetSnapshot) -> SetSnapshot:
    """Return the snapshot after one of our passes and a report of the StatefulSet controller."""
    return with_reported(carried_out(snapshot, plan(snapshot)))


def partition_of(snapshot: SetSnapshot) -> int:
    assert snapshot.leaders is not None
    return int(snapshot.leaders["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0))


def progress(snapshot: SetSnapshot) -> Mapping[str, Any]:
    return dict(snapshot.lws["status"].get("prewarm") or {})


def without_results(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {field: value for field, value in record.items() if field != "results"}


def without_ended_jobs(snapshot: SetSnapshot) -> SetSnapshot:
    """Return the snapshot after other software deleted all Jobs that have ended."""
    assert snapshot.prewarm is not None
    jobs = tuple(job for job in snapshot.prewarm.jobs if not has_ended(job))
    return replace(snapshot, prewarm=replace(snapshot.prewarm, jobs=jobs))


def deletions(planned: Plan) -> list[str]:
    return [action.target.name for action in actions_of(planned) if isinstance(action, Delete)]


def starts_rollout(planned: Plan) -> bool:
    """Return whether the partition is lowered to the last group."""
    applied = [action.intent["spec"] for action in actions_of(planned) if isinstance(action, Apply)]
    return [spec["updateStrategy"]["rollingUpdate"]["partition"] for spec in applied] == [2]


@pytest.mark.parametrize(
    ("prewarm", "expected"),
    [
        ({}, Prewarm(600, 10)),
        ({"deadlineSeconds": 60, "parallelism": 2, "command": ["a", "b"]}, Prewarm(60, 2, ("a", "b"))),
        (None, None),
        ("x", None),
    ],
)
def test_prewarm_settings(prewarm: object, expected: Prewarm | None) -> None:
    assert SetSpec.of(set_with_prewarm(prewarm=prewarm)).prewarm == expected


def test_a_rollout_starts_after_the_images_are_pulled() -> None:
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2"))
    first = plan(snapshot)
    assert jobs_in(first).keys() == {f"{role}-{i}" for role in ("leader", "worker") for i in range(3)}
    assert first.waiting_for == (
        "images on the nodes of outdated groups: 0 of 6 nodes done, until 2026-03-01T12:10:00Z at the latest"
    )
    snapshot = with_warmed_nodes(snapshot)
    record = {"revision": snapshot.lws["status"]["updateRevision"], "startTime": timestamp(NOW)}
    assert progress(snapshot) == {**record, "nodes": 6}
    assert partition_of(snapshot) == 3
    unsettled = snapshot.lws["status"]["groups"]["unsettled"]
    assert {group["reason"] for group in unsettled} == {
        "waiting for nodes to get the new images: status.prewarm"
    }
    assert plan(snapshot).is_empty

    snapshot = with_warmed_nodes(with_finished_jobs(snapshot, "leader-0", "worker-0"))
    assert without_results(progress(snapshot)) == {**record, "nodes": 6, "ended": 2}
    assert list(progress(snapshot)["results"].values()) == ["Complete"] * 2
    assert partition_of(snapshot) == 3

    snapshot = with_finished_jobs(snapshot)
    planned = plan(snapshot)
    assert starts_rollout(planned) and deletions(planned) == [], (
        "until the status records it, only the Jobs show it"
    )
    (announce,) = [
        event for status in planned.statuses for event in status.announce if "warm" in event.reason
    ]
    assert (announce.reason, announce.note) == (
        "Prewarmed",
        f"6 of 6 nodes are prewarmed for revision {record['revision']}: its rollout begins",
    )
    snapshot = with_warmed_nodes(snapshot)
    assert partition_of(snapshot) == 2
    assert progress(snapshot) == {**record, "nodes": 6, "ended": 6, "completionTime": timestamp(NOW)}
    assert len([name for name in deletions(plan(snapshot)) if "prewarm" in name]) == 6
    snapshot = with_warmed_nodes(with_warmed_nodes(snapshot))
    assert progress(snapshot)["completionTime"]
    assert plan(snapshot).is_empty
    assert assess(snapshot).prewarming is None


def test_a_job_pulls_images_on_one_node_without_requests() -> None:
    like = make_pod_template("app:2")
    like["spec"] |= {
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "serviceAccountName": "serving",
        "runtimeClassName": "nvidia",
        "nodeSelector": {"pool": "gpu"},
        "volumes": [{"name": "weights", "image": {"reference": "model:2"}}, {"name": "tmp", "emptyDir": {}}],
        "initContainers": [{"name": "init", "image": "init:2", "imagePullPolicy": "Always"}],
    }
    like["spec"]["containers"][0]["securityContext"] = {"runAsNonRoot": True}
    like["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/gpu": "8", "example.com/nic": "1", "hugepages-2Mi": "1Gi"}
    }
    after = set_with_prewarm("app:2", replicas=1, template={"workerTemplate": like})
    job = jobs_in(plan(changed(set_with_prewarm(replicas=1), after)))["worker-0"]
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 600)
    assert job["spec"]["ttlSecondsAfterFinished"] == 600
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels[PREWARM_LABEL] == "demo"
    # Budgets, webhooks and streams take any object with this label for a pod of the set.
    assert NAME_LABEL not in labels
    assert job["metadata"]["labels"][NAME_LABEL] == "demo"
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-of-set-demo"
    pod = pod_of(job)
    assert pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["worker-0"]}]}
        ]
    }
    copied_fields = ("imagePullSecrets", "serviceAccountName", "runtimeClassName")
    assert {field: pod[field] for field in copied_fields} == {
        field: like["spec"][field] for field in copied_fields
    }
    assert "nodeSelector" not in pod
    # An evicted pod does not prove that the image is on the node.
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert pod["automountServiceAccountToken"] is False
    assert pod["restartPolicy"] == "Never"
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        # Pods that request devices get tolerations at admission.
        {"key": "example.com/nic", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert [container["image"] for container in pod["containers"]] == ["init:2", "app:2"]
    assert [container.get("imagePullPolicy") for container in pod["containers"]] == ["Always", None]
    assert pod["containers"][1]["securityContext"] == {"runAsNonRoot": True}
    for container in pod["containers"]:
        assert container["resources"]["requests"] == {"cpu": "0", "memory": "0"}
        assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    assert pod["volumes"] == [{"name": "weights", "image": {"reference": "model:2"}}]
    assert [mount["name"] for mount in pod["containers"][0]["volumeMounts"]] == ["weights"]


def test_only_new_images_are_pulled_on_the_nodes_that_use_them() -> None:
    leaders = make_pod_template("router:1")
    before = set_with_prewarm("app:1", replicas=1, template={"leaderTemplate": leaders})
    after = set_with_prewarm("app:2", replicas=1, template={"leaderTemplate": leaders})
    jobs = jobs_in(plan(changed(before, after)))
    assert jobs.keys() == {"worker-0"}
    assert [container["image"] for container in pod_of(jobs["worker-0"])["containers"]] == ["app:2"]


def test_one_pod_for_a_leader_and_workers_on_one_node() -> None:
    after = set_with_prewarm("app:2", replicas=1, template={"leaderTemplate": make_pod_template("router:2")})
    snapshot = changed(set_with_prewarm(replicas=1), after)
    together = PrewarmFacts(nodes={0: NodesOfGroup("node", frozenset({"node"}))})
    jobs = jobs_in(plan(replace(snapshot, prewarm=together)))
    assert [container["image"] for container in pod_of(jobs["node"])["containers"]] == ["router:2", "app:2"]


def test_a_rollout_without_new_images_does_not_wait() -> None:
    after = set_with_prewarm()
    after["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["--fast"]
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), after))
    assert partition_of(snapshot) == 3
    snapshot = with_warmed_nodes(snapshot)
    assert partition_of(snapshot) == 2
    assert not progress(snapshot)


def test_a_command_runs_as_the_worker_would_without_its_devices() -> None:
    template = make_pod_template("app:1")
    template["spec"]["volumes"] = [{"name": "weights", "hostPath": {"path": "/weights"}}]
    template["spec"]["containers"][0] |= {
        "args": ["serve"],
        "env": [{"name": "HF_HOME", "value": "/weights"}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "volumeMounts": [
            {"name": "weights", "mountPath": "/weights"},
            {"name": "claim-of-a-template", "mountPath": "/data"},
        ],
    }
    options = {"replicas": 1, "template": {"workerTemplate": template}}
    prewarm = {"command": ["download", "--fast"]}
    before, after = set_with_prewarm(**options), set_with_prewarm(prewarm=prewarm, **copy.deepcopy(options))
    after["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["other"]
    jobs = jobs_in(plan(changed(before, after)))
    assert jobs.keys() == {"leader-0", "worker-0"}
    assert jobs["worker-0"]["spec"]["backoffLimit"] == 3
    pod = pod_of(jobs["worker-0"])
    (container,) = pod["containers"]
    assert container == {
        "name": "command",
        "image": "app:1",
        "command": ["download", "--fast"],
        "env": [
            {"name": "HF_HOME", "value": "/weights"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        ],
        "resources": {"requests": {"cpu": "0", "memory": "0"}},
        "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
    }
    assert pod["volumes"] == template["spec"]["volumes"]
    assert "automountServiceAccountToken" not in pod


def test_parallelism_limits_the_nodes() -> None:
    options = {"prewarm": {"parallelism": 2}}
    snapshot = changed(set_with_prewarm(**options), set_with_prewarm("app:2", **options))
    assert jobs_in(plan(snapshot)).keys() == {"leader-2", "worker-2"}
    snapshot = with_warmed_nodes(snapshot)
    assert not jobs_in(plan(snapshot))
    assert jobs_in(plan(with_finished_jobs(snapshot, "leader-2"))).keys() == {"leader-1"}


def test_nodes_whose_jobs_are_deleted_after_their_end_get_no_further_job() -> None:
    """Policies and cleaners delete Jobs that have ended. The snapshot is all that a new manager knows."""
    options = {"prewarm": {"parallelism": 2}}
    snapshot = with_warmed_nodes(changed(set_with_prewarm(**options), set_with_prewarm("app:2", **options)))
    created = list(jobs_in_snapshot(snapshot))
    for _ in range(4):
        snapshot = with_warmed_nodes(with_finished_jobs(snapshot))
        created += jobs_in_snapshot(without_ended_jobs(snapshot))
        snapshot = without_ended_jobs(snapshot)
    assert sorted(created) == sorted(f"{role}-{i}" for role in ("leader", "worker") for i in range(3))
    assert partition_of(snapshot) == 2
    assert not assess(snapshot).rollout.prewarming
    assert "results" not in progress(snapshot), "they are dropped with the end"


def test_the_reason_of_a_failed_job_outlives_it() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    failed = with_finished_jobs(snapshot, "leader-2", type_="Failed", reason="PodFailurePolicy")
    snapshot = without_ended_jobs(with_warmed_nodes(failed))
    assert not jobs_in(plan(snapshot))
    planned = plan(with_finished_jobs(snapshot))
    (announce,) = [event for status in planned.statuses for event in status.announce if "arm" in event.reason]
    assert announce.reason == "PrewarmIncomplete"
    assert announce.note.endswith("leader-2: PodFailurePolicy")


def test_ended_jobs_are_recorded_at_once() -> None:
    """A cleaner may delete them before a status that can wait is written."""
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    (status,) = plan(with_finished_jobs(snapshot, "leader-2")).statuses
    assert not status.can_wait


def test_the_memory_of_ended_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_RESULTS", 4)
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    stored = {**progress(snapshot), "results": {"of-a-former-node": "Complete", "of-another": "Failed"}}
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], "prewarm": stored}}
    ended = with_finished_jobs(replace(snapshot, lws=lws), "leader-0", "leader-1", "leader-2")
    remembered = progress(with_warmed_nodes(ended))["results"]
    assert len(remembered) == 4
    needed = {job["metadata"]["name"].rpartition("-")[2] for job in ended.prewarm.jobs if has_ended(job)}
    assert needed < remembered.keys()


@pytest.mark.parametrize(
    ("type_", "reason", "word", "note"),
    [
        ("Failed", "BackoffLimitExceeded", "Prewarmed", "6 of 6 nodes"),
        ("Failed", "DeadlineExceeded", "PrewarmIncomplete", "0 of 6 nodes"),
    ],
)
def test_a_failed_job_does_not_block_the_rollout(type_: str, reason: str, word: str, note: str) -> None:
    """Without a command, a container that cannot start proves that its image is on the node."""
    snapshot = with_finished_jobs(
        with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2"))), type_=type_, reason=reason
    )
    planned = plan(snapshot)
    assert starts_rollout(planned)
    (announce,) = [event for status in planned.statuses for event in status.announce if "arm" in event.reason]
    assert announce.reason == word
    assert announce.note.startswith(note)


def test_the_deadline_ends_the_prewarming() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    assert plan(snapshot).again_after == 5
    late = replace(with_finished_jobs(snapshot, "leader-2"), now=NOW + timedelta(seconds=600))
    planned = plan(late)
    assert starts_rollout(planned)
    (announce,) = [event for status in planned.statuses for event in status.announce if "arm" in event.reason]
    assert announce.reason == "PrewarmIncomplete"
    assert "1 of 6 nodes" in announce.note
    assert "worker-2: DeadlineExceeded" in announce.note
    # Another pass deletes the Jobs: the status that records the end is our own write, which starts none.
    assert late.prewarm is not None and late.prewarm.jobs and planned.again_after == 1


def test_a_rejected_job_ends_the_prewarming_and_is_reported() -> None:
    words = 'pods "x" is forbidden: violates PodSecurity'
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    assert snapshot.prewarm is not None
    refused = {job["metadata"]["uid"]: words for job in snapshot.prewarm.jobs}
    planned = plan(replace(snapshot, prewarm=replace(snapshot.prewarm, refused=refused)))
    assert starts_rollout(planned)
    assert any(words in event.note for status in planned.statuses for event in status.announce)
    # The Jobs themselves.
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2"))
    job = jobs_in(plan(snapshot))["leader-2"]["metadata"]["name"]
    rejected = (Rejection(f"cannot create Job {job}", "quota"),)
    assert not assess(replace(snapshot, rejections=rejected)).rollout.prewarming


@pytest.mark.parametrize("subject", ["cannot create Job demo-prewarm-1", "cannot delete Job demo-prewarm-1"])
def test_a_rejection_of_another_revision_is_ignored(subject: str) -> None:
    snapshot = changed(
        set_with_prewarm(), set_with_prewarm("app:2"), rejections=(Rejection(subject, "quota"),)
    )
    assert assess(snapshot).rollout.prewarming


def test_jobs_without_pods_do_not_block_other_nodes() -> None:
    options = {"prewarm": {"parallelism": 2}}
    snapshot = with_warmed_nodes(changed(set_with_prewarm(**options), set_with_prewarm("app:2", **options)))
    assert snapshot.prewarm is not None
    refused = {job["metadata"]["uid"]: "PodSecurity" for job in snapshot.prewarm.jobs}
    planned = plan(replace(snapshot, prewarm=replace(snapshot.prewarm, refused=refused)))
    assert jobs_in(planned).keys() == {"leader-1", "worker-1"}


def test_a_changed_command_creates_another_job() -> None:
    """The command is no part of the revision: users can fix one that hangs without an undo."""
    wrong, right = {"command": ["wait-forever"]}, {"command": ["load"]}
    snapshot = with_warmed_nodes(
        changed(set_with_prewarm(prewarm=wrong), set_with_prewarm("app:2", prewarm=wrong))
    )
    planned = plan(with_spec(snapshot, set_with_prewarm("app:2", prewarm=right)))
    commands = [pod_of(job)["containers"][-1]["command"] for job in jobs_in(planned).values()]
    assert commands == [["load"]] * 6
    assert len([name for name in deletions(planned) if "prewarm" in name]) == 6


def test_a_group_that_is_not_ready_for_a_moment_does_not_interrupt_its_nodes() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    top = snapshot.groups[2]
    unready = replace(top, leader={**top.leader, "status": {"phase": "Running", "conditions": []}})
    assert not deletions(plan(replace(snapshot, groups=(*snapshot.groups[:2], unready))))


def test_no_progress_is_reported_without_waiting_nodes() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    planned = plan(with_spec(snapshot, set_with_prewarm("app:2", replicas=0)))
    assert not [event for status in planned.statuses for event in status.announce if "arm" in event.reason]


@pytest.mark.parametrize("seconds", [61, 599])
def test_a_set_is_not_stalled_while_nodes_are_prewarmed(seconds: int) -> None:
    """Prewarming has a deadline of its own, after which the clock of the rollout begins."""
    options = {"progressDeadlineSeconds": 60}
    snapshot = with_warmed_nodes(changed(set_with_prewarm(**options), set_with_prewarm("app:2", **options)))
    late = with_warmed_nodes(replace(snapshot, now=NOW + timedelta(seconds=seconds)))
    assert partition_of(late) == 3
    assert find(late.lws["status"]["conditions"], "Stalled") is None
    begun = with_warmed_nodes(replace(late, now=NOW + timedelta(seconds=600)))
    assert partition_of(begun) == 2
    # Group 2 is not replaced: the StatefulSet controller does nothing in this test.
    stuck = with_warmed_nodes(replace(begun, now=NOW + timedelta(seconds=655)))
    assert find(stuck.lws["status"]["conditions"], "Stalled") is None
    stuck = with_warmed_nodes(replace(begun, now=NOW + timedelta(seconds=661)))
    assert is_true(stuck.lws["status"]["conditions"], "Stalled")


def test_a_stalled_set_whose_nodes_are_prewarmed_is_no_longer_stalled() -> None:
    options = {"progressDeadlineSeconds": 60}
    snapshot = settled(set_with_prewarm(**options))
    stalled = {"type": "Stalled", "status": "True", "reason": "ProgressDeadlineExceeded"}
    status = {**snapshot.lws["status"], "conditions": [*snapshot.lws["status"]["conditions"], stalled]}
    snapshot = with_spec(
        replace(snapshot, lws={**snapshot.lws, "status": status}), set_with_prewarm("app:2", **options)
    )
    snapshot = with_warmed_nodes(replace(snapshot, prewarm=PrewarmFacts(nodes=nodes(3))))
    condition = find(snapshot.lws["status"]["conditions"], "Stalled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "NodesPrewarming")


def test_a_lower_partition_warms_nodes_after_a_first_step_that_needed_none() -> None:
    snapshot = changed(set_with_prewarm(replicas=4), set_with_prewarm("app:2", replicas=4, partition=3))
    top = snapshot.groups[3]
    unready = replace(top, leader={**top.leader, "status": {"phase": "Running", "conditions": []}})
    snapshot = with_warmed_nodes(with_warmed_nodes(replace(snapshot, groups=(*snapshot.groups[:3], unready))))
    assert partition_of(snapshot) == 3
    assert assess(with_spec(snapshot, set_with_prewarm("app:2", replicas=4))).rollout.prewarming


def test_unready_groups_are_replaced_without_prewarming() -> None:
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2"))
    cold = tuple(
        replace(group, leader={**group.leader, "status": {"phase": "Running", "conditions": []}})
        for group in snapshot.groups
    )
    assert assess(replace(snapshot, groups=cold)).prewarming is None
    one_cold = replace(snapshot, groups=(*snapshot.groups[:2], cold[2]))
    assert jobs_in(plan(one_cold)).keys() == {"leader-0", "worker-0", "leader-1", "worker-1"}


def test_an_undo_deletes_the_jobs_and_does_not_wait() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    back = with_spec(snapshot, set_with_prewarm())
    assert assess(back).prewarming is None
    assert len([name for name in deletions(plan(back)) if "prewarm" in name]) == 6
    back = with_warmed_nodes(with_warmed_nodes(back))
    assert not progress(back)
    assert back.prewarm is not None
    assert not back.prewarm.jobs


@pytest.mark.parametrize("how", ["paused", "no longer requested"])
def test_a_pause_and_an_edit_delete_the_jobs(how: str) -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    lws = set_with_prewarm("app:2")
    if how == "paused":
        lws["spec"]["rolloutStrategy"]["paused"] = True
    else:
        del lws["spec"]["rolloutStrategy"]["prewarm"]
    stopped = with_spec(snapshot, lws)
    planned = plan(stopped)
    assert len([name for name in deletions(planned) if "prewarm" in name]) == 6
    assert starts_rollout(planned) == (how != "paused")
    if how == "paused":
        resumed = with_spec(with_warmed_nodes(stopped), set_with_prewarm("app:2"))
        assert len(jobs_in(plan(resumed))) == 6


@pytest.mark.parametrize("begins", ["before", "during"])
def test_groups_added_during_a_pause_do_not_count_as_updated(begins: str) -> None:
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2"))
    if begins == "during":
        snapshot = with_warmed_nodes(snapshot)
    held = set_with_prewarm("app:2", replicas=5)
    held["spec"]["rolloutStrategy"]["paused"] = True
    snapshot = with_warmed_nodes(with_warmed_nodes(with_spec(snapshot, held)))
    assert progress(snapshot) == {"revision": snapshot.lws["status"]["updateRevision"]}
    assert plan(snapshot).is_empty
    late = replace(snapshot, now=NOW + timedelta(hours=1))
    resumed = with_spec(late, set_with_prewarm("app:2", replicas=5))
    assert len(jobs_in(plan(resumed))) == 6
    assert progress(with_warmed_nodes(resumed))["startTime"] == timestamp(resumed.now)


def test_a_pause_during_a_rollout_leaves_nothing_to_warm() -> None:
    begun = with_warmed_nodes(
        with_warmed_nodes(
            with_finished_jobs(with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2"))))
        )
    )
    held = set_with_prewarm("app:2")
    held["spec"]["rolloutStrategy"]["paused"] = True
    snapshot = with_warmed_nodes(with_spec(begun, held))
    assert not progress(snapshot)


def test_another_revision_starts_prewarming_again() -> None:
    snapshot = replace(
        with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2"))),
        now=NOW + timedelta(seconds=60),
    )
    before = {job["metadata"]["name"] for job in snapshot.prewarm.jobs} if snapshot.prewarm else set()
    then = with_spec(snapshot, set_with_prewarm("app:3"))
    planned = plan(then)
    assert {name for name in deletions(planned) if "prewarm" in name} == before
    assert {pod_of(job)["containers"][0]["image"] for job in jobs_in(planned).values()} == {"app:3"}
    assert progress(with_warmed_nodes(then))["startTime"] == timestamp(then.now)


def test_prewarm_enabled_during_a_rollout_applies_to_the_next_rollout() -> None:
    cold = set_with_prewarm("app:2")
    del cold["spec"]["rolloutStrategy"]["prewarm"]
    begun = with_warmed_nodes(with_warmed_nodes(changed(set_with_prewarm(), cold)))
    assert partition_of(begun) == 2
    assert assess(with_spec(begun, set_with_prewarm("app:2"))).prewarming is None


def test_a_lost_status_during_a_rollout_does_not_stop_it() -> None:
    begun = with_warmed_nodes(
        with_finished_jobs(with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2"))))
    )
    assert partition_of(begun) == 2
    status = {key: value for key, value in begun.lws["status"].items() if key != "prewarm"}
    assert assess(replace(begun, lws={**begun.lws, "status": status})).prewarming is None


def test_scaling_continues_and_new_groups_have_the_new_revision() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    scaled = with_warmed_nodes(with_spec(snapshot, set_with_prewarm("app:2", replicas=5)))
    assert scaled.leaders is not None
    assert (scaled.leaders["spec"]["replicas"], partition_of(scaled)) == (5, 3)
    assert assess(scaled).rollout.prewarming


def test_each_step_of_a_partition_warms_the_nodes_of_its_own_groups() -> None:
    before = set_with_prewarm(replicas=4)
    snapshot = changed(before, set_with_prewarm("app:2", replicas=4, partition=3))
    assert jobs_in(plan(snapshot)).keys() == {"leader-3", "worker-3"}
    snapshot = with_warmed_nodes(with_finished_jobs(with_warmed_nodes(snapshot)))
    assert progress(snapshot)["partition"] == 3
    lower = with_spec(snapshot, set_with_prewarm("app:2", replicas=4))
    planned = plan(lower)
    assert {f"leader-{i}" for i in range(3)} < jobs_in(planned).keys()
    assert not any(isinstance(action, Apply) for action in actions_of(planned))
    lower = with_warmed_nodes(lower)
    assert assess(lower).rollout.prewarming
    assert not assess(with_finished_jobs(lower)).rollout.prewarming


def test_a_partition_above_all_groups_starts_no_prewarming() -> None:
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2", partition=3))
    assert assess(snapshot).prewarming is None


def test_commands_read_prewarming_from_the_status() -> None:
    snapshot = with_warmed_nodes(changed(set_with_prewarm(), set_with_prewarm("app:2")))
    assessment = assess(replace(snapshot, prewarm=None))
    assert assessment.rollout.prewarming.startswith(
        "images on the nodes of outdated groups: 0 of 6 nodes done, until"
    )
    late = replace(snapshot, prewarm=None, now=NOW + timedelta(seconds=600))
    assert not assess(late).rollout.prewarming


@pytest.mark.parametrize(
    "record", ["x", {"revision": 7}, {"startTime": "never"}, {"nodes": "many"}, {"results": ["a"]}]
)
def test_an_invalid_status_causes_no_error(record: object) -> None:
    snapshot = changed(set_with_prewarm(), set_with_prewarm("app:2"))
    name = assess(snapshot).target.name
    stored = {"revision": name, **record} if isinstance(record, dict) else record
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], "prewarm": stored}}
    for prewarm in (snapshot.prewarm, None):
        lws["status"] = readable_status(lws["status"])
        planned = plan(replace(snapshot, lws=lws, prewarm=prewarm))
        assert len(jobs_in(planned)) == (6 if prewarm is not None else 0), "as if nothing were recorded"
        assert not starts_rollout(planned)


@pytest.mark.parametrize("command", [(), ("load",)])
@pytest.mark.parametrize(
    "stored",
    [
        {"tolerations": [{"key": {"a": "b"}}, {"key": "a", "tolerationSeconds": 5}]},
        {"volumes": [{"image": {"reference": "model:2"}}]},
        {"volumes": [{"name": "w", "emptyDir": {}}], "containers": [{"image": "a:2", "volumeMounts": [{}]}]},
        {"containers": []},
        {"containers": None, "volumes": [{"image": {"reference": "model:2"}}]},
        {"containers": [{"name": "server"}], "volumes": [{"name": "v", "image": {"reference": "model:2"}}]},
    ],
)
def test_an_invalid_template_causes_no_error(stored: Object, command: tuple[str, ...]) -> None:
    """The API server rejects its Jobs, as it rejects the pods of its groups."""
    template = make_pod_template("app:2")
    template["spec"] |= stored
    after = set_with_prewarm(prewarm={"command": [*command]}, template={"workerTemplate": template})
    planned = plan(changed(set_with_prewarm(), after))
    assert bool(jobs_in(planned)) == bool(planned.waiting_for), "it waits only for Jobs that it creates"
    assert not starts_rollout(planned)


def test_long_names_of_jobs_are_shortened() -> None:
    name = "a" * 55
    snapshot = changed(set_with_prewarm(name=name), set_with_prewarm("app:2", name=name))
    names = [job["metadata"]["name"] for job in jobs_in(plan(snapshot)).values()]
    assert len(set(names)) == 6
    assert max(map(len, names)) <= 63
