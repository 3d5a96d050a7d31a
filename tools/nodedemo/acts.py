"""Answers: what is done in each step of the tour on a real node, and what must be true afterwards?

In: a stage. Out: for every act its checks: of objects, and of what processes say that run in the pods.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tools.demo.check import Check, equal
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import CommandError
from tools.nodedemo.stage import (
    GROUPS,
    SET,
    SIZE,
    Stage,
    all_ready,
    group_of,
    is_ready,
    name_of,
    uid_of,
)
from tools.realnode.images import MEMBERS
from tools.realnode.members import addresses_of, end, given_to

MANIFEST = Path(__file__).with_name("members.yaml")
VICTIM = f"{SET}-1-2"
_MANAGERS = "control-plane=controller-manager"
_EXIT_CODE = 3


def install(stage: Stage) -> list[Check]:
    """The chart with its defaults, from this checkout, with the image that was made of it."""
    stage.helm(
        "install", "lws", str(CHART), "-n", NAMESPACE, "--create-namespace", "--wait", "--timeout", "300s"
    )
    managers = stage.pods(_MANAGERS, NAMESPACE)
    lease = stage.object("lease", "-n", NAMESPACE)["items"][0]["spec"]["holderIdentity"]
    webhooks = stage.object("validatingwebhookconfiguration", "lws-validating-webhook-configuration")[
        "webhooks"
    ]
    services = {each["clientConfig"]["service"]["name"] for each in webhooks}
    return [
        equal("two replicas are ready, says the kubelet", 2, len([pod for pod in managers if is_ready(pod)])),
        equal("one of them holds the Lease", True, any(lease.startswith(name_of(pod)) for pod in managers)),
        equal("the API server calls the webhooks by their Service", {"lws-webhook-service"}, services),
        equal(
            "…and they answer: a rollout without steps is refused",
            True,
            "admission webhook" in _refusal(stage),
        ),
    ]


def create(stage: Stage) -> list[Check]:
    """Processes come up, and each tells what it was given."""
    stage.kubectl("apply", "-f", os.path.relpath(MANIFEST))
    pods = stage.until(f"{GROUPS} groups of {SIZE} to be ready", all_ready)
    given = {name_of(pod): given_to(pod) for pod in pods}
    leaders = {group_of(pod): pod["status"]["podIP"] for pod in pods if name_of(pod).count("-") == 1}
    address = {name: each.variables["LWS_LEADER_ADDRESS"] for name, each in given.items()}
    workers = [pod for pod in pods if name_of(pod).count("-") > 1]
    for name, each in given.items():
        stage.show.say(f"{name}: {' '.join(each.arguments)}, {each.variables['LWS_WORKER_INDEX']} of {SIZE}")
    return [
        equal(
            "every process knows the size of its group",
            {str(SIZE)},
            {it.variables["LWS_GROUP_SIZE"] for it in given.values()},
        ),
        equal(
            "every process has its leader's address among its arguments",
            {name: (f"--leader={address[name]}",) for name in given},
            {name: each.arguments for name, each in given.items()},
        ),
        equal(
            "every worker found its leader by DNS before it was ready itself",
            {name_of(pod): (leaders[group_of(pod)],) for pod in workers},
            {name_of(pod): given[name_of(pod)].resolved[address[name_of(pod)]] for pod in workers},
        ),
        equal(
            "leader 0 finds every worker by name",
            {name_of(pod): [pod["status"]["podIP"]] for pod in workers},
            {name_of(pod): addresses_of(pods[0], f"{name_of(pod)}.{SET}") for pod in workers},
        ),
    ]


def lose_worker(stage: Stage) -> list[Check]:
    """A process ends; the kubelet says so; its group is made anew."""
    before = stage.pods()
    (victim,) = (pod for pod in before if name_of(pod) == VICTIM)
    group = group_of(victim)
    stage.show.say(f"the process in pod {VICTIM} ends with exit code {_EXIT_CODE}")
    end(victim, _EXIT_CODE)
    old = {uid_of(pod) for pod in before if group_of(pod) == group}
    now = stage.until(
        f"group {group} to be recreated", lambda pods: all_ready(pods) and not old & set(map(uid_of, pods))
    )
    kept = {uid_of(pod) for pod in before if group_of(pod) != group}
    return [
        equal(f"all {SIZE} pods of group {group} are new", SIZE, len({uid_of(pod) for pod in now} - kept)),
        equal("the other group kept its pods", kept, {uid_of(pod) for pod in now if group_of(pod) != group}),
    ]


def update(stage: Stage) -> list[Check]:
    """A new image rolls over the groups."""
    before, lowest = stage.pods(), [GROUPS]
    place = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
    patch = json.dumps([{"op": "replace", "path": place, "value": MEMBERS[1]}])
    stage.kubectl("patch", "lws", SET, "--type=json", "-p", patch)
    old = {uid_of(pod) for pod in before}

    def done(pods: list[dict[str, object]]) -> bool:
        lowest.append(
            len(
                {
                    group_of(pod)
                    for pod in pods
                    if sum(is_ready(it) for it in pods if group_of(it) == group_of(pod)) == SIZE
                }
            )
        )
        return all_ready(pods) and not old & set(map(uid_of, pods))

    now = stage.until("all groups to run the new image", done)
    return [
        equal(
            f"every pod runs {MEMBERS[1]}",
            {MEMBERS[1]},
            {pod["spec"]["containers"][0]["image"] for pod in now},
        ),
        equal("one group at least was ready whenever it was looked at", True, min(lowest) >= GROUPS - 1),
    ]


def uninstall(stage: Stage) -> list[Check]:
    """The chart goes; sets and their processes stay."""
    before = {uid_of(pod) for pod in stage.pods()}
    stage.helm("uninstall", "lws", "-n", NAMESPACE, "--wait")
    pods = stage.pods()
    return [
        equal("all pods of the set are the same", before, {uid_of(pod) for pod in pods}),
        equal(
            "every process answers still", GROUPS * SIZE, sum(bool(given_to(pod).hostname) for pod in pods)
        ),
        equal("the set is there still", SET, stage.object("lws", SET)["metadata"]["name"]),
    ]


ACTS: tuple[tuple[str, Callable[[Stage], list[Check]]], ...] = (
    ("helm install, with the chart's defaults: the manager runs in pods", install),
    (f"{GROUPS} groups of {SIZE} processes come up", create),
    (f"The process of worker {VICTIM} ends: its group is recreated as a whole", lose_worker),
    ("A new image: rolling update", update),
    ("helm uninstall: what runs goes on running", uninstall),
)
"""Title and act of every step, in order."""


def _refusal(stage: Stage) -> str:
    """What only the webhook refuses, not the definition: a rollout that could never take a step."""
    stuck = "  rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 0}}\n"
    wrong = MANIFEST.read_text("utf-8").replace("  replicas:", f"{stuck}  replicas:")
    try:
        stage.cluster.kubectl("apply", "-f", "-", input=wrong)
    except CommandError as refusal:
        return str(refusal)
    return "accepted"
