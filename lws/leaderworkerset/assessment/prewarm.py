"""Plan Jobs that pull the images of a new revision to the nodes of the groups that its rollout replaces, and
decide whether the rollout still waits for these Jobs.

Kubernetes ends the Jobs at the deadline and deletes them, even while this controller is down. The rollout
begins when all Jobs have ended, even if some have failed. The pods of the Jobs do not belong to the set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from lws import timing
from lws.history.revision import find
from lws.kube.conditions import find as find_condition
from lws.kube.conditions import is_true, moment_of, timestamp
from lws.kube.metadata import annotations_of, is_mapping, is_terminating, name_of, namespace_of, uid_of
from lws.kube.pods import with_required_node
from lws.leaderworkerset.assessment.target_revision import TargetRevision
from lws.leaderworkerset.revisions.history import restore
from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.snapshot import NodesOfGroup, PrewarmFacts, SetSnapshot
from lws.leaderworkerset.spec import Prewarm, SetSpec, has_hash_groups
from lws.leaderworkerset.templates.node_selection import nodes_of_group
from lws.runtime.actions import Announce, Create, Delete, Object, Plan, Reference, soonest
from lws_api.leaderworkerset.v1 import NAME_LABEL, PREWARM_LABEL, PREWARM_NODE_ANNOTATION, REVISION_LABEL

_LONGEST_PREFIX = 40
_COMMAND_RETRIES = 3
_MOST_NAMED = 5
_MOST_RESULTS = 4096
"""The maximum number of ended Jobs to remember, with up to 50 bytes each. A forgotten one may run again."""
_COMPLETE = "Complete"
# Seconds.
_SOON = 1.0
# The image need not contain this command: a container that fails to start shows that its image was pulled.
_NOTHING = ("true",)
# As for pods of a DaemonSet: pulling an image does no harm on a cordoned node.
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Need:
    """What to pull to one node.
    leads: whether a leader of a group to be replaced runs on the node. works: whether workers of such a group
    run on the node. group: index of one of these groups. images: those that they do not use yet, in order.
    """

    leads: bool = False
    works: bool = False
    group: int = 0
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prewarming:
    """Progress of prewarming the nodes for one rollout.

    revision: name of the target revision.
    floor: the partition; nodes of groups below this index are left out.
    since, deadline: when prewarming began, and when it ends at the latest.
    is_over: whether the rollout may begin.
    counts: numbers of nodes whose Job has ended, and of all nodes to prewarm.
    needs: what to pull, by node; empty if Jobs are not read.
    ended: nodes whose Job has ended, even if somebody has deleted the Job since.
    failed: node → reason, if its Job failed, or if the API server rejects the Job or its pods.
    results: how Jobs ended, by the hash in their names.
    """

    revision: str
    floor: int
    since: datetime
    deadline: datetime
    is_over: bool
    counts: tuple[int, int]
    needs: Mapping[str, Need] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)

    @property
    def waiting_for(self) -> str:
        """What the rollout waits for; empty once it may begin."""
        if self.is_over:
            return ""
        ended, nodes = self.counts
        return (
            f"images on the nodes of outdated groups: {ended} of {nodes} nodes done, until "
            f"{timestamp(self.deadline)} at the latest"
        )

    def record(self, now: datetime) -> dict[str, Any]:
        """Return the value of `status.prewarm`."""
        ended, nodes = self.counts
        record = {
            "revision": self.revision,
            "partition": self.floor,
            "startTime": timestamp(self.since),
            "completionTime": timestamp(now) if self.is_over else "",
            "nodes": nodes,
            "ended": ended,
            "results": {} if self.is_over else dict(self.results),
        }
        return {field: value for field, value in record.items() if value}


def judge_prewarming(
    snapshot: SetSnapshot,
    target: TargetRevision,
    groups: Iterable[GroupState],
    stored: LeaderStatefulSet | None,
) -> Prewarming | None:
    """Return the state of prewarming; None if no rollout waits for it.
    stored: the leader StatefulSet. Prewarming begins before the first group is updated, or when the partition
    is lowered and more groups may be updated. It does not begin again for the same revision and partition.
    """
    spec, now = snapshot.spec, snapshot.now
    settings, record = spec.prewarm, recorded_prewarming(snapshot.lws, target.name)
    if settings is None or spec.paused or stored is None:
        return None
    is_lowered = int(record.get("partition") or 0) > spec.floor
    if record and not is_lowered and record.get("completionTime"):
        return None
    has_updated = stored.is_current and stored.partition < stored.replicas
    if has_updated and (not record or (record.get("completionTime") and not is_lowered)):
        return None
    since = moment_of(record.get("startTime")) if record and not is_lowered else None
    since = now if since is None else min(since, now)
    deadline = since + timedelta(seconds=settings.deadline)
    if snapshot.prewarm is None:
        # Commands do not read Jobs.
        if not record:
            return None
        counts = int(record.get("ended") or 0), int(record.get("nodes") or 0)
        return Prewarming(target.name, spec.floor, since, deadline, now >= deadline, counts)
    needs = _needs(snapshot, groups, settings)
    names = _names(snapshot, target, needs)
    results = _results(snapshot, record, names)
    failed = dict(_failures(snapshot, names, results))
    ended = frozenset(node for name, node in names.items() if _hash_in(name) in results)
    is_over = now >= deadline or all(node in ended or node in failed for node in needs)
    if is_over and not record and not 0 < spec.floor < spec.replicas:
        # Nothing had to be pulled, and no lower partition can add groups to this rollout.
        return None
    counts = len(ended), len(needs)
    return Prewarming(
        target.name, spec.floor, since, deadline, is_over, counts, needs, ended, failed, results
    )


def recorded_prewarming(lws: Object, revision: str) -> Mapping[str, Any]:
    """Return `status.prewarm` if it is about this target revision, else an empty mapping."""
    record = (lws.get("status") or {}).get("prewarm")
    return record if is_mapping(record) and record.get("revision") == revision else {}


def describe_prewarming(before: Object, after: Object) -> str:
    """Describe for users what nodes pull or run before the rollout of a changed set; empty if nothing."""
    current, desired = SetSpec.of(before), SetSpec.of(after)
    if desired.prewarm is None or has_hash_groups(after):
        return ""
    pulled = {*_images(current.leader_template), *_images(current.worker_template)}
    images = dict.fromkeys((*_images(desired.leader_template), *_images(desired.worker_template)))
    steps = [f"pull {image}" for image in images if image not in pulled]
    steps += ["run the command"] if desired.prewarm.command else []
    text = " and ".join(steps)
    return f"their nodes first {text}, for at most {desired.prewarm.deadline} s" if steps else ""


def has_ended(job: Object) -> bool:
    return bool(_result_of(job))


def _result_of(job: Object) -> str:
    """Return how a Job has ended: `Complete`, or the reason of its failure; empty if it has not ended."""
    conditions = (job.get("status") or {}).get("conditions")
    if is_true(conditions, "Failed"):
        return str((find_condition(conditions, "Failed") or {}).get("reason") or "Failed")
    return _COMPLETE if is_true(conditions, _COMPLETE) else ""


def _results(snapshot: SetSnapshot, record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Return how Jobs ended, by the hash in their names: existing Jobs, and those that the status records.
    Other software may delete a Job as soon as it has ended. Its node must not get another one.
    """
    jobs = snapshot.prewarm.jobs if snapshot.prewarm is not None else ()
    existing = {_hash_in(name_of(job)): _result_of(job) for job in jobs if name_of(job) in names}
    results = {**(record.get("results") or {}), **{key: result for key, result in existing.items() if result}}
    if len(results) <= _MOST_RESULTS:
        return results
    needed = {_hash_in(name) for name in names}
    return dict(sorted(results.items(), key=lambda entry: entry[0] not in needed)[:_MOST_RESULTS])


def _hash_in(name: str) -> str:
    """Return the hash of the set, revision, node and command in the name of a Job."""
    return name.rpartition("-")[2]


def _needs(snapshot: SetSnapshot, groups: Iterable[GroupState], settings: Prewarm) -> dict[str, Need]:
    """Return what to pull, by node: nodes of higher groups first, in the order of the rollout. Groups that
    are not ready are left out: they serve nothing while their new pods pull images.
    """
    spec, facts = snapshot.spec, {group.index: group for group in snapshot.groups}
    nodes: Mapping[int, NodesOfGroup] = snapshot.prewarm.nodes if snapshot.prewarm is not None else {}
    new = (_images(spec.leader_template), _images(spec.worker_template))

    @cache
    def images_at(key: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the images of leaders and of workers at the revision with this key."""
        if (revision := find(snapshot.revisions, key)) is None:
            return frozenset(), frozenset()
        recorded = SetSpec.of(restore(snapshot.lws, revision))
        return frozenset(_images(recorded.leader_template)), frozenset(_images(recorded.worker_template))

    needs: dict[str, Need] = {}
    outdated = [
        group for group in groups if group.serves_outdated and spec.floor <= group.index < spec.replicas
    ]
    for group in sorted(outdated, key=lambda group: -group.index):
        group_nodes, before = nodes.get(group.index), images_at(facts[group.index].leader_key or "")
        if group_nodes is None:
            continue
        for node in sorted({group_nodes.leader, *group_nodes.workers} - {""}):
            leads, works = node == group_nodes.leader, node in group_nodes.workers
            images = [
                image
                for role, runs in enumerate((leads, works))
                for image in new[role]
                if runs and image not in before[role]
            ]
            if images or settings.command:
                need = needs.get(node, Need(group=group.index))
                needs[node] = Need(
                    need.leads or leads,
                    need.works or works,
                    need.group,
                    tuple(dict.fromkeys((*need.images, *images))),
                )
    return needs


def _images(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the images of the containers and of the image volumes of a pod template."""
    spec = template.get("spec") or {}
    images = [container.get("image") for container in _containers(spec)]
    images += [(volume.get("image") or {}).get("reference") for volume in spec.get("volumes") or ()]
    return tuple(dict.fromkeys(str(image) for image in images if image))


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]


def _failures(
    snapshot: SetSnapshot, names: Mapping[str, str], results: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield node and reason of each failure. Of the rejected writes, only creates of these Jobs count, not
    creates of Jobs for a former revision.
    """
    creates = {f"cannot create Job {name}" for name in names}
    rejected = next(
        (rejection.words for rejection in snapshot.rejections if rejection.subject in creates), ""
    )
    facts = snapshot.prewarm or PrewarmFacts()
    uids = {name_of(job): uid_of(job) for job in facts.jobs}
    for name, node in names.items():
        result = results.get(_hash_in(name))
        if result is not None:
            why = result if result != _COMPLETE else ""
        else:
            why = facts.refused.get(uids[name], "") if name in uids else rejected
        if why:
            yield node, why


# --- Plan the Jobs.


def plan_prewarm(snapshot: SetSnapshot, state: Prewarming | None, target: TargetRevision) -> Plan:
    """Create missing Jobs, at most `parallelism` running at a time, and delete Jobs that no rollout needs."""
    facts, settings = snapshot.prewarm, snapshot.spec.prewarm
    if facts is None or (state is not None and state.is_over):
        # Until the status records the end of prewarming, only the ended Jobs show it: keep them. The next
        # pass deletes them; the record is our own write, which starts no pass.
        return Plan(again_after=_SOON if facts is not None and facts.jobs else None)
    names = _names(snapshot, target, state.needs) if state is not None else {}
    # Do not interrupt a pull because the group of the node is briefly not ready.
    nodes = [str(annotations_of(job).get(PREWARM_NODE_ANNOTATION)) for job in facts.jobs]
    names_to_keep = {**names, **(_names(snapshot, target, nodes) if state is not None else {})}
    sequences: list[tuple[Create | Delete, ...]] = [
        (Delete(Reference.to(job), "Background", why="no rollout waits for it"),)
        for job in facts.jobs
        if name_of(job) not in names_to_keep and not is_terminating(job)
    ]
    if state is None or settings is None:
        return Plan(tuple(sequences))
    remaining = state.deadline - snapshot.now
    running = [job for job in facts.jobs if name_of(job) in names and not has_ended(job)]
    # A Job whose pods are rejected pulls nothing, so it does not count towards `parallelism`.
    pulling = [job for job in running if names[name_of(job)] not in state.failed]
    existing = {name_of(job) for job in facts.jobs}
    missing = [
        (name, node) for name, node in names.items() if name not in existing and node not in state.ended
    ]
    for name, node in missing[: max(0, settings.parallelism - len(pulling))]:
        intent = build_job(snapshot, target, name, node, state.needs[node], remaining)
        sequences.append(
            (Create(intent, why=f"node {node} pulls the new images before its group is replaced"),)
        )
    idle = timing.SHORT_OF_PODS_FOR.total_seconds() if any(map(is_idle, running)) else None
    return Plan(tuple(sequences), again_after=soonest((max(_SOON, remaining.total_seconds()), idle)))


def is_idle(job: Object) -> bool:
    """Return whether the Job has not ended but has no running pod."""
    return not has_ended(job) and not (job.get("status") or {}).get("active")


def prewarmed(snapshot: SetSnapshot, state: Prewarming | None) -> tuple[Announce, ...]:
    """Announce the end of prewarming. The Event is written once, with the status that records the end."""
    if state is None or not state.is_over or not state.needs or snapshot.prewarm is None:
        return ()
    failed = dict(state.failed)
    failed |= {
        node: "DeadlineExceeded" for node in state.needs if node not in state.ended and node not in failed
    }
    # Without a command of the user, this reason only means that the image lacks `true`: the image was pulled.
    if not (snapshot.spec.prewarm and snapshot.spec.prewarm.command):
        failed = {node: why for node, why in failed.items() if why != "BackoffLimitExceeded"}
    done, about = len(state.needs) - len(failed), Reference.to(snapshot.lws)
    note = (
        f"{done} of {len(state.needs)} nodes are prewarmed for revision {state.revision}: its rollout begins"
    )
    if not failed:
        return (Announce(about, "Prewarmed", "Update", note),)
    failures = "; ".join(f"{node}: {why}" for node, why in list(failed.items())[:_MOST_NAMED])
    more = f"; {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
    return (Announce(about, "PrewarmIncomplete", "Update", f"{note}. {failures}{more}", "Warning"),)


def job_prefix(lws: Object) -> str:
    return f"{name_of(lws)[:_LONGEST_PREFIX]}-prewarm-"


def _names(snapshot: SetSnapshot, target: TargetRevision, needs: Iterable[str]) -> dict[str, str]:
    """Return the nodes by name of their Job."""
    prefix, settings = job_prefix(snapshot.lws), snapshot.spec.prewarm
    # The command is not part of the revision, so a changed command needs another name.
    command = json.dumps(settings.command) if settings is not None else ""

    def name(node: str) -> str:
        content = f"{name_of(snapshot.lws)}/{target.name}/{node}/{command}"
        digest = hashlib.sha256(content.encode()).hexdigest()
        return f"{prefix}{digest[:10]}"

    return {name(node): node for node in needs}


def build_job(
    snapshot: SetSnapshot, target: TargetRevision, name: str, node: str, need: Need, remaining: timedelta
) -> Object:
    """Build the Job for one node. remaining: time until the deadline."""
    lws, settings = snapshot.lws, snapshot.spec.prewarm
    seconds = max(1, math.ceil(remaining.total_seconds()))
    command = settings.command if settings is not None else ()
    labels = {NAME_LABEL: name_of(lws), REVISION_LABEL: target.key}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "labels": labels,
            "annotations": {PREWARM_NODE_ANNOTATION: node},
            "ownerReferences": [snapshot.owner.owner_reference],
        },
        "spec": {
            "backoffLimit": _COMMAND_RETRIES if command else 0,
            # An evicted or preempted pod has not failed: the next pod pulls the image.
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
            "activeDeadlineSeconds": seconds,
            # Kubernetes deletes the Job if this controller is gone. Until the deadline the Job must exist,
            # because it shows that the node is done.
            "ttlSecondsAfterFinished": seconds,
            "template": {
                "metadata": {
                    # An injected sidecar would keep the pod running.
                    "labels": {PREWARM_LABEL: name_of(lws), "sidecar.istio.io/inject": "false"},
                },
                "spec": _pod(snapshot.spec, node, need, command),
            },
        },
    }


def _pod(spec: SetSpec, node: str, need: Need, command: tuple[str, ...]) -> dict[str, Any]:
    """Build the pod spec of the Job of one node, from the pod specs of the set that run on the node."""
    sources = [
        template.get("spec") or {}
        for template, runs in ((spec.worker_template, need.works), (spec.leader_template, need.leads))
        if runs
    ]
    main = sources[0]
    listed = [
        toleration
        for source in sources
        for toleration in (*(source.get("tolerations") or ()), *_device_tolerations(source))
    ]
    listed += [dict(toleration) for toleration in (*_group_tolerations(spec, need.group), _CORDONED)]
    # Compared by ==, because stored tolerations may have values of any type.
    tolerations = [
        toleration for number, toleration in enumerate(listed) if toleration not in listed[:number]
    ]
    secrets = {
        str(secret.get("name")): secret
        for source in sources
        for secret in source.get("imagePullSecrets") or ()
    }
    copied = ("serviceAccountName", "securityContext", "runtimeClassName", "os")
    for_command = ("volumes", "hostNetwork", "dnsPolicy", "dnsConfig", "hostAliases", "hostUsers")
    pod = {field: main[field] for field in (*copied, *(for_command if command else ())) if field in main}
    container_images = {container.get("image") for source in sources for container in _containers(source)}
    pulled = [image for image in need.images if image in container_images]
    containers = [_pull_container(sources, number, image) for number, image in enumerate(pulled)]
    volumes = [
        volume for source in sources for volume in source.get("volumes") or () if _is_new(volume, need.images)
    ]
    if command:
        containers.append(_command_container(main, command))
        volumes += main.get("volumes") or ()
    elif not containers:
        # Only image volumes are new: a container has to mount them.
        images = [container.get("image") for container in _containers(main)]
        containers.append(_pull_container(sources, 0, str(next(reversed(images), ""))))
    volumes = list({str(volume.get("name")): volume for volume in volumes}.values())
    for number, volume in enumerate(volume for volume in volumes if _is_new(volume, need.images)):
        mounts = containers[0].setdefault("volumeMounts", [])
        if all(mount.get("name") != volume.get("name") for mount in mounts):
            mounts.append({"name": volume.get("name"), "mountPath": f"/prewarm-{number}", "readOnly": True})
    # Select the node by name, as the DaemonSet controller does: the host name label may be missing, or be on
    # two nodes.
    pod |= {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "affinity": with_required_node({}, node),
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


def _group_tolerations(spec: SetSpec, index: int) -> tuple[Mapping[str, str], ...]:
    """Return the tolerations that an annotation of the set gives to the group with this index."""
    try:
        return nodes_of_group(spec.placement, namespace_of(spec.lws), name_of(spec.lws), index).tolerations
    except ValueError:
        return ()


def _device_tolerations(pod: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return tolerations that the plugin ExtendedResourceToleration adds to pods that request devices."""
    resources = [container.get("resources") or {} for container in _containers(pod)]
    amounts = [entry.get(kind) or {} for entry in resources for kind in ("requests", "limits")]
    names = dict.fromkeys(name for amount in amounts for name in amount)
    return [
        {"key": name, "operator": "Exists"} for name in names if "/" in name and "kubernetes.io/" not in name
    ]


def _is_new(volume: Mapping[str, Any], images: Collection[str]) -> bool:
    reference = (volume.get("image") or {}).get("reference")
    return reference is not None and reference in images


def _pull_container(pods: Iterable[Mapping[str, Any]], number: int, image: str) -> dict[str, Any]:
    """Build a container that only pulls an image. Its security context is copied from the container of the
    set with this image, which the namespace admits. Its requests are 0, so that it fits on a full node;
    requests and limits are set because a quota may require them.
    """
    containers = (container for pod in pods for container in _containers(pod))
    like = next((container for container in containers if container.get("image") == image), {})
    container = {
        "name": f"image-{number}",
        "image": image,
        "command": list(_NOTHING),
        "resources": {
            "requests": {"cpu": "0", "memory": "0"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        # CUDA images request all GPUs of the node from the NVIDIA container runtime.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }
    copied = ("imagePullPolicy", "securityContext")
    return {**container, **{field: like[field] for field in copied if field in like}}


def _command_container(pod: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    """Build the container for the user's command: the set's first one without devices, ports and probes."""
    like: Mapping[str, Any] = next(iter(pod.get("containers") or ()), {})
    copied = ("image", "imagePullPolicy", "workingDir", "envFrom", "env", "securityContext")
    volumes = {volume.get("name") for volume in pod.get("volumes") or ()}
    mounts = [mount for mount in like.get("volumeMounts") or () if mount.get("name") in volumes]
    env = list(like.get("env") or ())
    if all(entry.get("name") != "NVIDIA_VISIBLE_DEVICES" for entry in env):
        env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    return {
        **{field: like[field] for field in copied if field in like},
        "name": "command",
        "command": list(command),
        "env": env,
        "resources": {"requests": {"cpu": "0", "memory": "0"}},
        **({"volumeMounts": mounts} if mounts else {}),
    }
