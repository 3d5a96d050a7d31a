"""One set with everything around it: its user, the product, the controllers of Kubernetes, and faults.

A broken promise raises an AssertionError. All randomness comes from one seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from lws import timing
from lws.kube.metadata import controller_of, is_terminating
from lws.leaderworkerset.pod_identity import must_return_to
from lws.runtime.actions import Key, Plan
from lws.runtime.errors import Conflict, Throttled
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import KIND, REPLICAS_ANNOTATION
from test.unit.builders import make_pod_template, make_set
from test.unit.stories import promises
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.fake_manager import Crash, FakeManager
from test.unit.stories.fake_nodes import FakeNodes, preferred_node
from test.unit.stories.truth import Floor

MOST_ROUNDS = 400
LONGEST_WAIT = timing.RESTART_DELAY.longest + timing.SKEW_SECONDS
"""Maximum time until the next pass, in seconds, also after the clock was set."""
FAULTS = ("crash", "stuck", "evicted", "node gone", "deleted", "cordoned")
_SETTLED: dict[tuple[bool, str, int], FakeCluster] = {}


class World:
    """One set in a cluster of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.nodes = FakeNodes(cluster)
        self.log: list[str] = []
        """What the product did, with its reasons."""
        self.is_sound = True
        """Whether no promise has been broken so far."""
        self._loop = loop
        self.floor = Floor(cluster)
        """The check of what really serves, independent of the caches."""
        self._incidents: set[str] = set()
        self._trouble = 0.0
        self._random = random.Random(0)
        self._is_alive = True
        cluster.before_write = self._before_write
        cluster.has_former = lambda pod: self.manager.has_former(pod)
        cluster.former_node = lambda pod: self.manager.former_node(pod)
        self.nodes.place = self._place
        self.manager = self._new_manager()

    @classmethod
    def new(cls, loop: asyncio.AbstractEventLoop, has_feature: bool, revision: str, replicas: int) -> World:
        """Return a world with nothing but the set.

        has_feature: whether MaxUnavailableStatefulSet is on.
        """
        cluster = FakeCluster(has_feature)
        cluster.add(make_set(NAME, image=revision, size=promises.SIZES[revision], replicas=replicas))
        return cls(loop, cluster)

    @classmethod
    def settled(
        cls, loop: asyncio.AbstractEventLoop, has_feature: bool, revision: str, replicas: int
    ) -> World:
        """Return a world with all objects created and ready, and a manager that has just started."""
        key = (has_feature, revision, replicas)
        if key not in _SETTLED:
            world = cls.new(loop, has_feature, revision, replicas)
            world.settle()
            _SETTLED[key] = world.cluster
        settled = cls(loop, _SETTLED[key].copy())
        settled.floor.claim()
        return settled

    # Actions of the user.

    @property
    def lws(self) -> dict[str, Any]:
        """The set as it is stored."""
        stored = self.cluster.find(KIND, NAME)
        assert stored is not None
        return stored

    @property
    def revision(self) -> str:
        """The revision that the user wants."""
        return promises.revision_of(self.lws["spec"]["leaderWorkerTemplate"]["workerTemplate"])

    @property
    def is_paused(self) -> bool:
        """Whether the user has paused the rollout."""
        return bool(self.lws["spec"]["rolloutStrategy"].get("paused"))

    def change(self, revision: str) -> None:
        """Set another template, which may be a former one."""
        if revision != self.revision:
            self.floor.change_mind()
        template = {
            **self.lws["spec"]["leaderWorkerTemplate"],
            "workerTemplate": make_pod_template(revision),
            "size": promises.SIZES[revision],
        }
        self._edit(leaderWorkerTemplate=template)

    def scale(self, replicas: int) -> None:
        """Set another number of groups."""
        self.floor.give_up()
        self._edit(replicas=replicas)

    def configure(self, **rolling: Any) -> None:
        """Set partition, maxUnavailable or maxSurge."""
        strategy = self.lws["spec"]["rolloutStrategy"]
        configuration = strategy.get("rollingUpdateConfiguration", {})
        self._edit(rolloutStrategy={**strategy, "rollingUpdateConfiguration": {**configuration, **rolling}})

    def set_policies(self, restart: str, startup: str, termination: str) -> None:
        """Set the policies of restart, startup and termination."""
        template = {**self.lws["spec"]["leaderWorkerTemplate"], "restartPolicy": restart}
        self._edit(leaderWorkerTemplate=template, startupPolicy=startup, podTerminationPolicy=termination)

    def start_in_waves(self, **strategy: int) -> None:
        """Set seedGroups and growthFactor."""
        self._edit(startStrategy=strategy)

    def prewarm(self, seconds: int, parallelism: int, is_cold: bool) -> None:
        """Request that nodes be prepared before a rollout begins.

        is_cold: whether no node ever is.
        """
        self.nodes.is_cold = is_cold
        settings = {"deadlineSeconds": seconds, "parallelism": parallelism, "command": ["load"]}
        self._edit(rolloutStrategy={**self.lws["spec"]["rolloutStrategy"], "prewarm": settings})

    def return_to_nodes(self, how: str, are_doomed: bool) -> None:
        """Request that recreated pods return to their nodes.

        how: Preferred or Required. are_doomed: whether each node is cordoned once a pod must return to it.
        """
        self.nodes.are_doomed = are_doomed
        self.cluster.change(self.lws, {"annotations": {NODE_RETURN_ANNOTATION: how}})

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the rollout."""
        self._edit(rolloutStrategy={**self.lws["spec"]["rolloutStrategy"], "paused": is_paused})

    def _edit(self, **spec: Any) -> None:
        self.cluster.change(self.lws, spec={**self.lws["spec"], **spec})

    # Faults.

    def strike(self, fault: str, number: int) -> None:
        """Inflict a fault on one of the pods."""
        pods = [pod for pod in self.cluster.of_kind("Pod") if not is_terminating(pod)]
        if not pods:
            return
        self.floor.give_up()
        if fault == "cordoned":
            self.nodes.are_doomed = True
            return
        pod = pods[number % len(pods)]
        self._incidents.add(self._leader_of(pod))
        if fault == "crash":
            self.nodes.crash(pod)
        elif fault == "evicted":
            self.nodes.fail(pod)
        elif fault == "node gone":
            self.nodes.lose_node(pod)
        elif fault == "deleted":
            self.cluster.request_deletion(pod)
        else:
            self.nodes.hang(pod)

    def garble(self) -> None:
        """Overwrite the record of the last requested replicas."""
        statefulset = self.cluster.find("StatefulSet", NAME)
        if statefulset is not None:
            annotations = {**statefulset["metadata"]["annotations"], REPLICAS_ANNOTATION: "many"}
            self.cluster.change(statefulset, {"annotations": annotations})

    def lose_statefulset(self, leaves_pods: bool) -> None:
        """Delete the leader StatefulSet, with or without its pods, as a user does."""
        statefulset = self.cluster.find("StatefulSet", NAME)
        if statefulset is None:
            return
        self.floor.give_up()
        if leaves_pods:
            for child in self.cluster.owned_by(statefulset["metadata"]["uid"]):
                self.cluster.change(child, {"ownerReferences": None})
        self.cluster.end(statefulset)

    def restart(self) -> None:
        """Replace the manager process. The next one begins with a list."""
        self.manager = self._new_manager()

    def stand_by(self) -> FakeManager:
        """Return a manager that has listed, and reads nothing more until it takes over."""
        return FakeManager(self.cluster, self._loop, self._on_plan)

    def take_over(self, standby: FakeManager) -> None:
        """End the manager and continue with the standby, which holds the Lease and lists before its first
        pass.
        """
        for kind in self.cluster.log:
            standby.relist(kind)
        standby.resync()
        self.manager, self._is_alive = standby, True

    def miss(self, kind_number: int) -> None:
        """Break a stream. A list replaces the events that it has not delivered."""
        late = self.manager.late
        if late:
            self.manager.relist(late[kind_number % len(late)])

    def repeat(self, events: int) -> None:
        """Deliver the last events of every stream again."""
        for kind in list(self.cluster.log):
            self.manager.reread(kind, events)

    # The passage of time.

    def go_on(self, moves: int, seed: int, trouble: float = 0.0) -> None:
        """Make this many moves in random order. `trouble` is the probability that a write fails or is
        interrupted.
        """
        self.is_sound = False
        self._random, self._trouble = random.Random(seed), trouble
        for _ in range(moves):
            choices = self._choices()
            if not choices:
                break
            self._random.choice(choices)()
            self.check()
        self._trouble, self.is_sound = 0.0, True

    def go_on_fairly(self, rounds: int) -> bool:
        """Play rounds in which every controller and pod acts. Return whether the last changed anything."""
        has_changed, self.is_sound = False, False
        for _ in range(rounds):
            has_changed = self._round()
        self.is_sound = True
        return has_changed

    def settle(self) -> None:
        """Play fair rounds until nothing changes any more, and check that the user's wishes are met."""
        rings, self.is_sound = 0, False
        for _ in range(MOST_ROUNDS):
            if self._round():
                rings = 0
            elif rings < (30 if self._is_waiting() else 3) and self.manager.ring():
                rings += 1
            elif self._mend():
                rings = 0
            else:
                self._check_end()
                self.is_sound = True
                return
        raise AssertionError(f"no end: {self.picture}")

    def _round(self) -> bool:
        """Run every controller to its end, then one move of every pod. Return whether anything changed.

        Periodic passes that find nothing to do change nothing.
        """
        version = self.cluster.version
        self._catch_up()
        self.nodes.sync_all()
        self.cluster.collect()
        for move in self.nodes.moves():
            move()
        self.check()
        return self.cluster.version != version

    def _catch_up(self) -> None:
        while self.manager.late or self.manager.queue.keys:
            for kind in self.manager.late:
                self.manager.read(kind)
            self._run_pass()

    def _choices(self) -> list[Callable[[], object]]:
        manager, pick = self.manager, self._random
        choices: list[Callable[[], object]] = [*self.nodes.moves()]
        choices += [lambda kind=kind: manager.read(kind, pick.randint(1, 4)) for kind in manager.late]
        choices += [lambda key=key: self._run_pass(key) for key in sorted(manager.queue.keys)]
        choices += [
            lambda statefulset=statefulset: self.nodes.sync(statefulset)
            for statefulset in self.cluster.of_kind("StatefulSet")
        ]
        return [*choices, self.cluster.collect]

    def _run_pass(self, key: Key | None = None) -> bool:
        try:
            return self.manager.run_pass(key)
        except Crash:
            self.restart()
            return True

    def _new_manager(self) -> FakeManager:
        self._is_alive = True
        return FakeManager(self.cluster, self._loop, self._on_plan)

    def _before_write(self) -> None:
        """Let another controller act, the API server reject the write, or the process end."""
        if not self._is_alive:
            raise Crash
        if self._random.random() >= self._trouble:
            return
        event = self._random.choice(["sync", "sync", "collect", "move", "refuse", "refuse", "crash"])
        if event == "sync":
            self.nodes.sync_all()
        elif event == "collect":
            self.cluster.collect()
        elif event == "move" and (moves := self.nodes.moves()):
            self._random.choice(moves)()
        elif event == "refuse":
            raise self._random.choice(
                [Conflict(409, "Conflict", "try again"), Throttled(429, "TooManyRequests", "later", 1.0)]
            )
        elif event == "crash":
            self._is_alive = False
            raise Crash

    # Checks.

    def check(self) -> None:
        """Check that no group mixes revisions and that enough groups serve."""
        self.floor.check()
        for statefulset in self.cluster.of_kind("StatefulSet"):
            owner = controller_of(statefulset)
            leader = self.cluster.find("Pod", statefulset["metadata"]["name"])
            if owner and leader and owner["uid"] == leader["metadata"]["uid"]:
                promises.check_workers(statefulset, leader, self.cluster.images)
        promises.check_meetings(self.cluster.of_kind("Pod"), self.cluster.made_for)

    @property
    def picture(self) -> str:
        """All objects as text, one per line."""
        lines = [f"{self.lws['spec']['replicas']} of {self.revision}, {self.lws['spec']['rolloutStrategy']}"]
        for (kind, name), obj in sorted(self.cluster.objects.items()):
            if kind == "Pod":
                uid, status = obj["metadata"]["uid"], obj["status"]
                ready = [condition["status"] for condition in status.get("conditions", ())]
                marks = [self.cluster.images[uid], status["phase"], *ready]
                marks += ["terminating"] * is_terminating(obj)
                lines.append(f"{kind} {name} {' '.join(marks)}")
            elif kind == "StatefulSet":
                strategy = obj["spec"].get("updateStrategy")
                lines.append(f"{kind} {name} {obj['spec']['replicas']} {strategy} {obj.get('status')}")
        return "\n".join([*lines, *self.log[-40:]])

    def _on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        for sequence in plan.sequences:
            for action in sequence:
                self.log.append(f"{key.kind} {key.name}: {type(action).__name__.lower()}, {action.why}")
        assert (plan.again_after or 0.0) <= LONGEST_WAIT, f"{key} waits for {plan.again_after} s"
        images = self.cluster.images
        if key.kind == "set":
            promises.check_set_pass(snapshot, plan, images)
        else:
            promises.check_group_pass(snapshot, plan, images, self._incidents)

    def _place(self, pod: Any) -> str:
        """Pick the node of a pod.

        All pods share one node, unless pods return to their nodes: then it is the preferred node, or else a
        node of the pod's own.
        """
        metadata, preferred = pod["metadata"], must_return_to(pod) or preferred_node(pod)
        if NODE_RETURN_ANNOTATION not in self.lws["metadata"].get("annotations", {}):
            assert not preferred, f"no return was requested for {metadata['name']}"
            return "node"
        if not preferred or preferred in self.cluster.cordoned:
            return f"node-of-{metadata['uid']}"
        namesakes = (pod for _, pod in self.cluster.log["Pod"] if pod["metadata"]["name"] == metadata["name"])
        nodes = {pod["spec"].get("nodeName") for pod in namesakes}
        assert preferred in nodes, f"{metadata['name']} returns to {preferred}, where it has never been"
        return preferred

    def _leader_of(self, pod: Any) -> str:
        """Return the UID of the leader of the pod's group; empty if the leader is gone."""
        owner = controller_of(pod)
        if owner is None or owner["name"] == NAME:
            return str(pod["metadata"]["uid"])
        leader = self.cluster.find("Pod", owner["name"])
        return leader["metadata"]["uid"] if leader is not None else ""

    def _is_waiting(self) -> bool:
        """Return whether a pod waits for a node that takes none. The pass that sees it may be one of many."""
        return any(must_return_to(pod) in self.cluster.cordoned for pod in self.cluster.of_kind("Pod"))

    def _mend(self) -> bool:
        """Do what no controller can. Return whether there was anything to do.

        Nodes recover, pods of the target revision become ready after all, and the user resumes the rollout or
        replaces a revision that never works.
        """
        if self.nodes.held:
            self.nodes.held.clear()
            return True
        if self.revision in self.nodes.hopeless:
            self.change(next(revision for revision in promises.SIZES if revision not in self.nodes.hopeless))
            return True
        if self.is_paused:
            self.pause(False)
            return True
        pods = list(self.cluster.of_kind("Pod"))
        wanted_uids = {pod["metadata"]["uid"] for pod in pods if self._is_wanted(pod)}
        stuck = wanted_uids & self.nodes.stuck
        self.nodes.stuck -= stuck
        return bool(stuck)

    def _is_wanted(self, pod: Any) -> bool:
        return self.cluster.images[pod["metadata"]["uid"]] == self.revision

    def _check_end(self) -> None:
        spec, statefulset = self.lws["spec"], self.cluster.find("StatefulSet", NAME)
        floor = spec["rolloutStrategy"].get("rollingUpdateConfiguration", {}).get("partition", 0)
        assert statefulset is not None, self.picture
        for index in range(floor, spec["replicas"]):
            group = [self.cluster.find("Pod", f"{NAME}-{index}")]
            size = promises.SIZES[self.revision]
            group += [self.cluster.find("Pod", f"{NAME}-{index}-{worker}") for worker in range(1, size)]
            for pod in group:
                assert pod is not None and self._is_wanted(pod), f"group {index}: {self.picture}"
                assert pod["status"]["conditions"][0]["status"] == "True", f"group {index}: {self.picture}"
        if not floor:
            stored = statefulset["spec"]
            partition = stored["updateStrategy"]["rollingUpdate"]["partition"]
            assert (stored["replicas"], partition) == (spec["replicas"], 0), self.picture
            leaders = self.cluster.owned_by(statefulset["metadata"]["uid"], "Pod")
            assert len(leaders) == spec["replicas"], self.picture
        self._check_rest()

    def _check_rest(self) -> None:
        """Check that a manager that reads everything again has nothing to do."""
        writes = self.cluster.writes
        self.manager.resync()
        self._catch_up()
        assert self.cluster.writes == writes, f"restless: {self.picture}"
