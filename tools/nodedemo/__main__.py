"""Play the tour inside the namespaces of a real node, and check both objects and what processes in pods
report: `python -m tools.realnode --product python -m tools.nodedemo [--once]`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL
from tools.demo.check import Check, equal
from tools.demo.facts import name_of
from tools.demo.play import image_patch
from tools.demo.show import Show, play_steps
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import FAILURES, CommandError
from tools.localcluster.pods import is_ready
from tools.realnode.cluster import RealCluster
from tools.realnode.entry import invitation
from tools.realnode.images import MEMBERS
from tools.realnode.kit import NodeError, read_kit
from tools.realnode.members import addresses_of, end, given_to

SET = "members"
GROUPS, SIZE = 2, 3
_SECONDS = 300.0
_POLL_SECONDS = 0.1

Pod = dict[str, Any]
VICTIM = f"{SET}-1-2"
_MANAGERS = "control-plane=controller-manager"
_EXIT_CODE = 3


@dataclass(frozen=True)
class Stage:
    """A cluster, and the show that presents its tour."""

    cluster: RealCluster
    show: Show

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        self.show.say(f"$ kubectl {' '.join(arguments)}")
        return self.cluster.kubectl(*arguments, input=input)

    def helm(self, *arguments: str) -> str:
        words = [os.path.relpath(word) if "/" in word else word for word in arguments]
        self.show.say(f"$ helm {' '.join(words)}")
        return self.cluster.helm(*arguments)

    def object(self, *what: str) -> dict[str, Any]:
        return dict(json.loads(self.cluster.kubectl("get", *what, "-o", "json")))

    def pods(self, selector: str = f"{NAME_LABEL}={SET}", namespace: str = "default") -> list[Pod]:
        """Return the pods of the set, sorted by name, and therefore by group and worker."""
        return sorted(self.cluster.pods.matching(namespace, selector), key=name_of)

    def until(self, goal: str, holds: Callable[[list[Pod]], bool]) -> list[Pod]:
        """Wait until `holds` accepts the pods of the set, and return them. Raises TimeoutError."""
        self.show.wait_for(goal)
        deadline = time.monotonic() + _SECONDS
        while not holds(pods := self.pods()):
            if time.monotonic() > deadline:
                phases = ", ".join(f"{name_of(pod)} {pod['status'].get('phase')}" for pod in pods)
                raise TimeoutError(f"{goal}: not within {_SECONDS:.0f} s; there are: {phases or 'no pods'}")
            time.sleep(_POLL_SECONDS)
        return pods


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def group_of(pod: Pod) -> str:
    return str(pod["metadata"]["labels"].get(GROUP_INDEX_LABEL, ""))


def all_ready(pods: list[Pod]) -> bool:
    """Report whether every pod of every group exists and is ready."""
    return len(pods) == GROUPS * SIZE and all(map(is_ready, pods))


MANIFEST = Path(__file__).with_name("members.yaml")


def install(stage: Stage) -> list[Check]:
    """Install the chart from this checkout with its defaults, and the image built from the checkout."""
    stage.helm(
        "install", "lws", str(CHART), "-n", NAMESPACE, "--create-namespace", "--wait", "--timeout", "300s"
    )
    managers = stage.pods(_MANAGERS, NAMESPACE)
    lease = stage.object("lease", "-n", NAMESPACE)["items"][0]["spec"]["holderIdentity"]
    webhooks = stage.object("validatingwebhookconfiguration", "lws-validating-webhook-configuration")
    services = {webhook["clientConfig"]["service"]["name"] for webhook in webhooks["webhooks"]}
    refused = "admission webhook" in _refusal(stage)
    return [
        equal("two replicas are ready, says the kubelet", 2, len([pod for pod in managers if is_ready(pod)])),
        equal("one of them holds the Lease", True, any(lease.startswith(name_of(pod)) for pod in managers)),
        equal("the API server calls the webhooks by their Service", {"lws-webhook-service"}, services),
        equal("…and they answer: a rollout without steps is refused", True, refused),
    ]


def create(stage: Stage) -> list[Check]:
    """Create a set, and check what each process was given when it started."""
    stage.kubectl("apply", "-f", os.path.relpath(MANIFEST))
    pods = stage.until(f"{GROUPS} groups of {SIZE} to be ready", all_ready)
    processes = {name_of(pod): given_to(pod) for pod in pods}
    leaders = {group_of(pod): pod["status"]["podIP"] for pod in pods if name_of(pod).count("-") == 1}
    address = {name: process.variables["LWS_LEADER_ADDRESS"] for name, process in processes.items()}
    workers = [pod for pod in pods if name_of(pod).count("-") > 1]
    for name, process in processes.items():
        index = process.variables["LWS_WORKER_INDEX"]
        stage.show.say(f"{name}: {' '.join(process.arguments)}, {index} of {SIZE}")
    sizes = {process.variables["LWS_GROUP_SIZE"] for process in processes.values()}
    return [
        equal("every process knows the size of its group", {str(SIZE)}, sizes),
        equal(
            "every process has its leader's address among its arguments",
            {name: (f"--leader={address[name]}",) for name in processes},
            {name: process.arguments for name, process in processes.items()},
        ),
        equal(
            "every worker found its leader by DNS before it was ready itself",
            {name_of(pod): (leaders[group_of(pod)],) for pod in workers},
            {name_of(pod): processes[name_of(pod)].resolved[address[name_of(pod)]] for pod in workers},
        ),
        equal(
            "leader 0 finds every worker by name",
            {name_of(pod): [pod["status"]["podIP"]] for pod in workers},
            {name_of(pod): addresses_of(pods[0], f"{name_of(pod)}.{SET}") for pod in workers},
        ),
    ]


def lose_worker(stage: Stage) -> list[Check]:
    """End a process, which the kubelet reports, and check that its group is recreated."""
    before = stage.pods()
    (victim,) = (pod for pod in before if name_of(pod) == VICTIM)
    group = group_of(victim)
    stage.show.say(f"the process in pod {VICTIM} ends with exit code {_EXIT_CODE}")
    end(victim, _EXIT_CODE)
    old = {uid_of(pod) for pod in before if group_of(pod) == group}
    now = stage.until(
        f"group {group} to be recreated", lambda pods: all_ready(pods) and not old & set(map(uid_of, pods))
    )
    rest = {uid_of(pod) for pod in before if group_of(pod) != group}
    return [
        equal(f"all {SIZE} pods of group {group} are new", SIZE, len({uid_of(pod) for pod in now} - rest)),
        equal("the other group kept its pods", rest, {uid_of(pod) for pod in now if group_of(pod) != group}),
    ]


def update(stage: Stage) -> list[Check]:
    """Change the image, and check that it rolls over the groups."""
    before, lowest = stage.pods(), [GROUPS]
    stage.kubectl("patch", "lws", SET, "--type=json", "-p", image_patch(MEMBERS[1]))
    old = {uid_of(pod) for pod in before}

    def done(pods: list[Pod]) -> bool:
        ready = Counter(group_of(pod) for pod in pods if is_ready(pod))
        lowest.append(sum(count == SIZE for count in ready.values()))
        return all_ready(pods) and not old & set(map(uid_of, pods))

    now = stage.until("all groups to run the new image", done)
    images = {pod["spec"]["containers"][0]["image"] for pod in now}
    return [
        equal(f"every pod runs {MEMBERS[1]}", {MEMBERS[1]}, images),
        equal("one group at least was ready whenever it was looked at", True, min(lowest) >= GROUPS - 1),
    ]


def uninstall(stage: Stage) -> list[Check]:
    """Uninstall the chart, and check that the set and its processes stay."""
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
    """Return the rejection of a rollout that could never take a step, which only the webhook rejects."""
    stuck = "  rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 0}}\n"
    wrong = MANIFEST.read_text("utf-8").replace("  replicas:", f"{stuck}  replicas:")
    try:
        stage.cluster.kubectl("apply", "-f", "-", input=wrong)
    except CommandError as refusal:
        return str(refusal)
    return "accepted"


_EXPECTED = (*FAILURES, NodeError)


def main() -> int:
    """Play every act until a check fails, and keep the cluster unless --once is given."""
    show = Show(sys.stdout)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with RealCluster(read_kit(), report=show.build) as cluster:
            stage = Stage(cluster, show)
            result = play_steps(show, ((title, partial(_perform, act, stage)) for title, act in ACTS))
            show.tell(["", *result.verdict])
            if "--once" not in sys.argv[1:]:
                show.tell(
                    ["", "The cluster stays up until Ctrl-C. In another terminal:", *invitation(cluster)]
                )
                signal.pause()
        return 0 if result.is_good else 1
    except _EXPECTED as error:
        show.fail(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _perform(act: Callable[[Stage], list[Check]], stage: Stage) -> list[Check]:
    try:
        with stage.cluster.clock.watched():
            return act(stage)
    except _EXPECTED as error:
        pods = stage.cluster.kubectl("get", "pods", "-A", "-o", "wide")
        events = stage.cluster.kubectl("get", "events", "-n", NAMESPACE)
        return [Check("the step can be played", False, "no error", f"{error}\n{pods}\n{events}")]


if __name__ == "__main__":
    sys.exit(main())
