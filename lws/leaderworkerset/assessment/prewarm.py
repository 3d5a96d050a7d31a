"""Decide whether a rollout waits for new images on the nodes of the groups that it replaces, and plan the
Jobs that pull them.

Kubernetes ends the Jobs at the deadline and removes them, with or without this controller. What came of them
is no reason to stop: the rollout goes on when all have ended. Their pods are no pods of the set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any

from lws import timing
from lws.kube.conditions import is_true, moment_of, timestamp
from lws.kube.metadata import annotations_of, is_mapping, is_terminating, name_of, namespace_of
from lws.leaderworkerset.assessment.target_revision import TargetRevision
from lws.leaderworkerset.revisions.history import restore
from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.snapshot import NodesOfGroup, SetSnapshot
from lws.leaderworkerset.spec import Prewarm, SetSpec, has_hash_groups
from lws.leaderworkerset.templates.node_selection import nodes_of_group
from lws.runtime.actions import Announce, Create, Delete, Object, Plan, Reference, soonest
from lws_api.leaderworkerset.v1 import NAME_LABEL, PREWARM_LABEL, PREWARM_NODE_ANNOTATION, REVISION_LABEL

_LONGEST_PREFIX = 40
_COMMAND_RETRIES = 3
_MOST_NAMED = 5
# What an image may have or not: that it cannot be started shows that it is there.
_NOTHING = ("true",)
# As for the pods of a DaemonSet: an image does no harm on a node that takes no other pods for now.
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Need:
    """What a node lacks. leads, works: a leader, or workers, of groups that are replaced run there. group:
    index of one of these groups. images: new ones, in the order of the templates.
    """

    leads: bool = False
    works: bool = False
    group: int = 0
    images: tuple[str, ...] = ()


# No slots: what is counted is cached.
@dataclass(frozen=True)
class Prewarming:
    """The state of the nodes for one rollout.

    revision: name of the target revision. floor: groups below this index are left out. since: when it began.
    deadline: when it ends in any case. is_over: the rollout goes on. needs: by node. ended: nodes whose Job
    has. failed: those of them where it failed, and nodes for which the API server refuses pods or Jobs, each
    with the reason. stored: counts from the status, where the Jobs are not known.
    """

    revision: str
    floor: int
    since: datetime
    deadline: datetime
    is_over: bool
    needs: Mapping[str, Need]
    ended: frozenset[str] = frozenset()
    failed: Mapping[str, str] | None = None
    stored: Mapping[str, Any] | None = None

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Nodes whose Job has ended, and all."""
        if self.stored is not None:
            return int(self.stored.get("ended") or 0), int(self.stored.get("nodes") or 0)
        return len(self.ended), len(self.needs)

    @property
    def waiting_for(self) -> str:
        """What the rollout waits for; empty if it goes on."""
        if self.is_over:
            return ""
        ended, nodes = self.counts
        return (
            f"images on the nodes of outdated groups: {ended} of {nodes} nodes done, until "
            f"{timestamp(self.deadline)} at the latest"
        )

    def record(self, now: datetime) -> dict[str, Any]:
        """As `status.prewarm` has it."""
        ended, nodes = self.counts
        record = {
            "revision": self.revision,
            "partition": self.floor,
            "startTime": timestamp(self.since),
            "completionTime": timestamp(now) if self.is_over else "",
            "nodes": nodes,
            "ended": ended,
        }
        return {field: value for field, value in record.items() if value}


def judge_prewarming(
    snapshot: SetSnapshot,
    target: TargetRevision,
    groups: Iterable[GroupState],
    stored: LeaderStatefulSet | None,
) -> Prewarming | None:
    """The state of the nodes, None if no rollout has to wait for them.

    It begins before the first group has moved, or when a lower partition lets more groups move; it is over
    once and for all.
    """
    spec, now = snapshot.spec, snapshot.now
    asked, record = spec.prewarm, recorded_prewarming(snapshot.lws, target.name)
    if asked is None or spec.paused or stored is None:
        return None
    is_lowered = int(record.get("partition") or 0) > spec.floor
    if record and not is_lowered and record.get("completionTime"):
        return None
    has_moved = stored.is_current and stored.partition < stored.replicas
    if has_moved and (not record or (record.get("completionTime") and not is_lowered)):
        return None
    since = moment_of(record.get("startTime")) if record and not is_lowered else None
    since = now if since is None else min(since, now)
    deadline = since + timedelta(seconds=asked.deadline)
    if snapshot.prewarm is None:
        # Commands do not know the Jobs.
        is_over = not record or now >= deadline
        return (
            None
            if not record
            else Prewarming(target.name, spec.floor, since, deadline, is_over, {}, stored=record)
        )
    needs = _needs(snapshot, groups, asked)
    names = _names(snapshot, target, needs)
    jobs = {names[name_of(job)]: job for job in snapshot.prewarm.jobs if name_of(job) in names}
    failed = dict(_failures(snapshot, names, jobs, needs))
    ended = frozenset(node for node, job in jobs.items() if has_ended(job))
    is_over = now >= deadline or all(node in ended or node in failed for node in needs)
    if is_over and not record and not 0 < spec.floor < spec.replicas:
        # There was nothing to wait for, and no groups that a lower partition lets move.
        return None
    return Prewarming(target.name, spec.floor, since, deadline, is_over, needs, ended, failed)


def recorded_prewarming(lws: Object, revision: str) -> Mapping[str, Any]:
    """`status.prewarm` if it is about this revision; else empty."""
    record = (lws.get("status") or {}).get("prewarm")
    return record if is_mapping(record) and record.get("revision") == revision else {}


def announced(before: Object, after: Object) -> str:
    """What a change of a set has done on nodes before its rollout, for people; empty for nothing."""
    then, now = SetSpec.of(after), SetSpec.of(before)
    if then.prewarm is None or has_hash_groups(after):
        return ""
    known = {*_images(now.leader_template), *_images(now.worker_template)}
    images = (*_images(then.leader_template), *_images(then.worker_template))
    new = [f"pull {image}" for image in dict.fromkeys(images) if image not in known]
    what = [*new, *(["run the command"] if then.prewarm.command else [])]
    return f"their nodes {' and '.join(what)} before, for at most {then.prewarm.deadline} s" if what else ""


def has_ended(job: Object) -> bool:
    """The Job is Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions")
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def _needs(snapshot: SetSnapshot, groups: Iterable[GroupState], asked: Prewarm) -> dict[str, Need]:
    """By node, those of higher groups first, as the rollout comes to them. Of a group that is not ready
    nothing is lost by replacing it cold.
    """
    spec, facts = snapshot.spec, {group.index: group for group in snapshot.groups}
    nodes: Mapping[int, NodesOfGroup] = snapshot.prewarm.nodes if snapshot.prewarm is not None else {}
    new = (_images(spec.leader_template), _images(spec.worker_template))

    @cache
    def former(key: str) -> tuple[frozenset[str], frozenset[str]]:
        recorded = next((each for each in snapshot.revisions if each.key == key and not each.broken), None)
        if recorded is None:
            return frozenset(), frozenset()
        then = SetSpec.of(restore(snapshot.lws, recorded))
        return frozenset(_images(then.leader_template)), frozenset(_images(then.worker_template))

    needs: dict[str, Need] = {}
    scope = [group for group in groups if group.serves_outdated and spec.floor <= group.index < spec.replicas]
    for group in sorted(scope, key=lambda group: -group.index):
        place, before = nodes.get(group.index), former(facts[group.index].leader_key or "")
        if place is None:
            continue
        for node in sorted({place.leader, *place.workers} - {""}):
            leads, works = node == place.leader, node in place.workers
            images = [
                image
                for role, runs in enumerate((leads, works))
                for image in new[role]
                if runs and image not in before[role]
            ]
            if images or asked.command:
                known = needs.get(node, Need(group=group.index))
                needs[node] = Need(
                    known.leads or leads,
                    known.works or works,
                    known.group,
                    tuple(dict.fromkeys((*known.images, *images))),
                )
    return needs


def _images(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Of containers and image volumes."""
    spec = template.get("spec") or {}
    images = [container.get("image") for container in _containers(spec)]
    images += [(volume.get("image") or {}).get("reference") for volume in spec.get("volumes") or ()]
    return tuple(dict.fromkeys(str(image) for image in images if image))


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]


def _failures(
    snapshot: SetSnapshot, names: Mapping[str, str], jobs: Mapping[str, Object], needs: Mapping[str, Need]
) -> Iterator[tuple[str, str]]:
    """Rejected Jobs of a former revision and rejected deletions say nothing about these."""
    creates = {f"cannot create Job {name}" for name in names}
    refused = next((each.words for each in snapshot.rejections if each.subject in creates), "")
    words = snapshot.prewarm.refused if snapshot.prewarm is not None else {}
    for node in needs:
        job = jobs.get(node)
        if job is None:
            if refused:
                yield node, refused
            continue
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Failed" and condition["status"] == "True":
                yield node, str(condition.get("reason") or "Failed")
        if not has_ended(job) and (why := words.get(job["metadata"]["uid"])):
            yield node, why


# --- Plan the Jobs.


def plan_prewarm(snapshot: SetSnapshot, state: Prewarming | None, target: TargetRevision) -> Plan:
    """Create the Jobs that are missing, as many as may run at a time, and delete those nobody waits for."""
    facts, asked = snapshot.prewarm, snapshot.spec.prewarm
    if facts is None or (state is not None and state.is_over):
        # Until the status says that it is over, ended Jobs are all that shows it.
        return Plan()
    names = _names(snapshot, target, state.needs) if state is not None else {}
    # What a node pulls is not interrupted because its group is not ready for a moment.
    nodes = [str(annotations_of(job).get(PREWARM_NODE_ANNOTATION)) for job in facts.jobs]
    kept = {**names, **(_names(snapshot, target, nodes) if state is not None else {})}
    sequences: list[tuple[Create | Delete, ...]] = [
        (Delete(Reference.to(job), "Background", why="no rollout waits for it"),)
        for job in facts.jobs
        if name_of(job) not in kept and not is_terminating(job)
    ]
    if state is None or asked is None:
        return Plan(tuple(sequences))
    left = state.deadline - snapshot.now
    running = [job for job in facts.jobs if name_of(job) in names and not has_ended(job)]
    # One whose pods are rejected pulls nothing: it must not keep those of other nodes from their turn.
    pulling = [job for job in running if names[name_of(job)] not in (state.failed or {})]
    existing = {name_of(job) for job in facts.jobs}
    missing = [(name, node) for name, node in names.items() if name not in existing]
    for name, node in missing[: max(0, asked.parallelism - len(pulling))]:
        intent = build_job(snapshot, target, name, node, state.needs[node], left)
        sequences.append(
            (Create(intent, why=f"node {node} gets the new images before its group is replaced"),)
        )
    idle = timing.SHORT_OF_PODS_FOR.total_seconds() if any(map(is_idle, running)) else None
    return Plan(tuple(sequences), again_after=soonest((max(1.0, left.total_seconds()), idle)))


def is_idle(job: Object) -> bool:
    """The Job has neither ended nor a pod."""
    return not has_ended(job) and not (job.get("status") or {}).get("active")


def prewarmed(snapshot: SetSnapshot, state: Prewarming | None) -> tuple[Announce, ...]:
    """Said once, with the status that says that it is over."""
    if state is None or not state.is_over or not state.needs or snapshot.prewarm is None:
        return ()
    failed = dict(state.failed or {})
    failed |= {
        node: "DeadlineExceeded" for node in state.needs if node not in state.ended and node not in failed
    }
    # A container that does not exist in an image ends so: the image is there.
    if not (snapshot.spec.prewarm and snapshot.spec.prewarm.command):
        failed = {node: why for node, why in failed.items() if why != "BackoffLimitExceeded"}
    done, about = len(state.needs) - len(failed), Reference.to(snapshot.lws)
    note = f"{done} of {len(state.needs)} nodes have what revision {state.revision} needs: its rollout begins"
    if not failed:
        return (Announce(about, "Prewarmed", "Update", note),)
    shown = "; ".join(f"{node}: {why}" for node, why in list(failed.items())[:_MOST_NAMED])
    more = f"; {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
    return (Announce(about, "PrewarmIncomplete", "Update", f"{note}. {shown}{more}", "Warning"),)


def job_prefix(lws: Object) -> str:
    """What the names of its Jobs begin with."""
    return f"{name_of(lws)[:_LONGEST_PREFIX]}-prewarm-"


def _names(snapshot: SetSnapshot, target: TargetRevision, needs: Iterable[str]) -> dict[str, str]:
    """The name of the Job of each node → the node."""
    prefix, asked = job_prefix(snapshot.lws), snapshot.spec.prewarm
    # Another command is another Job: it is no part of the revision.
    command = json.dumps(asked.command) if asked is not None else ""

    def name(node: str) -> str:
        content = f"{name_of(snapshot.lws)}/{target.name}/{node}/{command}"
        digest = hashlib.sha256(content.encode()).hexdigest()
        return f"{prefix}{digest[:10]}"

    return {name(node): node for node in needs}


def build_job(
    snapshot: SetSnapshot, target: TargetRevision, name: str, node: str, need: Need, left: timedelta
) -> Object:
    """left: time until the deadline."""
    lws, asked = snapshot.lws, snapshot.spec.prewarm
    seconds = max(1, math.ceil(left.total_seconds()))
    has_command = asked is not None and bool(asked.command)
    labels = {NAME_LABEL: name_of(lws), REVISION_LABEL: target.key}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "labels": labels,
            "annotations": {PREWARM_NODE_ANNOTATION: node},
            "ownerReferences": [snapshot.owner.reference],
        },
        "spec": {
            "backoffLimit": _COMMAND_RETRIES if has_command else 0,
            # An evicted or preempted pod shows nothing about its image: the next one pulls it.
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
            "activeDeadlineSeconds": seconds,
            # Without this controller nobody else would remove it. Until the deadline it is what shows that
            # the node is done.
            "ttlSecondsAfterFinished": seconds,
            "template": {
                "metadata": {
                    # A sidecar would keep its pod from ending.
                    "labels": {PREWARM_LABEL: name_of(lws), "sidecar.istio.io/inject": "false"},
                },
                "spec": _pod(snapshot.spec, node, need, asked.command if asked is not None else ()),
            },
        },
    }


def _pod(spec: SetSpec, node: str, need: Need, command: tuple[str, ...]) -> dict[str, Any]:
    used = [
        template.get("spec") or {}
        for template, runs in ((spec.worker_template, need.works), (spec.leader_template, need.leads))
        if runs
    ]
    main = used[0]
    wanted = [each for pod in used for each in (*(pod.get("tolerations") or ()), *_of_devices(pod))]
    wanted += [dict(each) for each in (*_of_group(spec, need.group), _CORDONED)]
    # They may have any shape.
    tolerations = [each for number, each in enumerate(wanted) if each not in wanted[:number]]
    secrets = {
        str(secret.get("name")): secret for pod in used for secret in pod.get("imagePullSecrets") or ()
    }
    kept = ("serviceAccountName", "securityContext", "runtimeClassName", "os")
    of_command = ("volumes", "hostNetwork", "dnsPolicy", "dnsConfig", "hostAliases", "hostUsers")
    pod = {field: main[field] for field in (*kept, *(of_command if command else ())) if field in main}
    containers = [
        _puller(used, number, image) for number, image in enumerate(_in_containers(used, need.images))
    ]
    volumes = [volume for pod in used for volume in pod.get("volumes") or () if _is_new(volume, need.images)]
    if command:
        containers.append(_runner(main, command))
        volumes += main.get("volumes") or ()
    elif not containers:
        # Only image volumes are new: something has to mount them.
        images = [container.get("image") for container in _containers(main)]
        containers.append(_puller(used, 0, str(next(reversed(images), ""))))
    volumes = list({str(volume.get("name")): volume for volume in volumes}.values())
    for number, volume in enumerate(volume for volume in volumes if _is_new(volume, need.images)):
        mounts = containers[0].setdefault("volumeMounts", [])
        if all(mount.get("name") != volume.get("name") for mount in mounts):
            mounts.append({"name": volume.get("name"), "mountPath": f"/prewarm-{number}", "readOnly": True})
    pod |= {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _only(node)}},
        "tolerations": tolerations,
        "containers": containers,
    }
    if not command:
        pod["automountServiceAccountToken"] = False
    elif "automountServiceAccountToken" in main:
        pod["automountServiceAccountToken"] = main["automountServiceAccountToken"]
    if secrets:
        pod["imagePullSecrets"] = list(secrets.values())
    if volumes:
        pod["volumes"] = volumes
    return pod


def _only(node: str) -> dict[str, Any]:
    """As the DaemonSet controller has it: a label may be missing or be on two nodes, a name cannot."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def _of_group(spec: SetSpec, index: int) -> tuple[Mapping[str, str], ...]:
    """Tolerations that groups get by an annotation of the set."""
    try:
        return nodes_of_group(spec.placement, namespace_of(spec.lws), name_of(spec.lws), index).tolerations
    except ValueError:
        return ()


def _of_devices(pod: Mapping[str, Any]) -> list[dict[str, str]]:
    """What the admission plugin ExtendedResourceToleration gives to pods that request devices."""
    resources = [container.get("resources") or {} for container in _containers(pod)]
    amounts = [each.get(kind) or {} for each in resources for kind in ("requests", "limits")]
    names = dict.fromkeys(name for each in amounts for name in each)
    return [
        {"key": name, "operator": "Exists"} for name in names if "/" in name and "kubernetes.io/" not in name
    ]


def _in_containers(pods: Iterable[Mapping[str, Any]], images: Iterable[str]) -> list[str]:
    used = {container.get("image") for pod in pods for container in _containers(pod)}
    return [image for image in images if image in used]


def _is_new(volume: Mapping[str, Any], images: Collection[str]) -> bool:
    reference = (volume.get("image") or {}).get("reference")
    return reference is not None and reference in images


def _puller(pods: Iterable[Mapping[str, Any]], number: int, image: str) -> dict[str, Any]:
    """A container that ends at once. It has the rights that the image has in the set, which the namespace
    admits; by its requests it fits on a full node, and quotas that demand requests and limits find them.
    """
    like = next((each for pod in pods for each in _containers(pod) if each.get("image") == image), {})
    container = {
        "name": f"image-{number}",
        "image": image,
        "command": list(_NOTHING),
        "resources": {
            "requests": {"cpu": "0", "memory": "0"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        # CUDA images ask the NVIDIA container runtime for all GPUs of the node.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }
    kept = ("imagePullPolicy", "securityContext")
    return {**container, **{field: like[field] for field in kept if field in like}}


def _runner(pod: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    """The user's command, without claims on devices, ports and probes."""
    like: Mapping[str, Any] = next(iter(pod.get("containers") or ()), {})
    kept = ("image", "imagePullPolicy", "workingDir", "envFrom", "env", "securityContext")
    volumes = {volume.get("name") for volume in pod.get("volumes") or ()}
    mounts = [mount for mount in like.get("volumeMounts") or () if mount.get("name") in volumes]
    env = list(like.get("env") or ())
    if all(each.get("name") != "NVIDIA_VISIBLE_DEVICES" for each in env):
        env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    return {
        **{field: like[field] for field in kept if field in like},
        "name": "command",
        "command": list(command),
        "env": env,
        "resources": {"requests": {"cpu": "0", "memory": "0"}},
        **({"volumeMounts": mounts} if mounts else {}),
    }
