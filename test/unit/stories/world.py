"""One set with everything around it: its user, the product, the controllers of Kubernetes, and bad luck.

A broken promise raises an AssertionError. Chance comes from one seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from lws.kube.metadata import controller_of, is_terminating
from lws.leaderworkerset.labels import must_return_to
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
FAULTS = ("crash", "stuck", "evicted", "node gone", "deleted", "cordoned")
_SETTLED: dict[tuple[bool, str, int], FakeCluster] = {}


class World:
    """One set in a cluster of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.nodes = FakeNodes(cluster)
        self.told: list[str] = []
        """What the product did, and why."""
        self.is_sound = True
        """No promise has been broken so far."""
        self._loop = loop
        self.floor = Floor(cluster)
        """What holds in truth, whatever the caches show."""
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
        """Nothing is there but the set. has_feature: MaxUnavailableStatefulSet is on."""
        cluster = FakeCluster(has_feature)
        cluster.add(make_set(NAME, image=revision, size=promises.SIZES[revision], replicas=replicas))
        return cls(loop, cluster)

    @classmethod
    def settled(
        cls, loop: asyncio.AbstractEventLoop, has_feature: bool, revision: str, replicas: int
    ) -> World:
        """Everything is there and ready; the manager has just begun."""
        key = (has_feature, revision, replicas)
        if key not in _SETTLED:
            world = cls.new(loop, has_feature, revision, replicas)
            world.settle()
            _SETTLED[key] = world.cluster
        settled = cls(loop, _SETTLED[key].copy())
        settled.floor.claim()
        return settled

    # The user.

    @property
    def lws(self) -> dict[str, Any]:
        """The set as it is stored."""
        found = self.cluster.find(KIND, NAME)
        assert found is not None
        return found

    @property
    def revision(self) -> str:
        """The revision that the user wants."""
        return promises.revision_of(self.lws["spec"]["leaderWorkerTemplate"]["workerTemplate"])

    @property
    def is_paused(self) -> bool:
        """The user holds the rollout."""
        return bool(self.lws["spec"]["rolloutStrategy"].get("paused"))

    def change(self, revision: str) -> None:
        """Another template, maybe a former one."""
        if revision != self.revision:
            self.floor.change_mind()
        template = {
            **self.lws["spec"]["leaderWorkerTemplate"],
            "workerTemplate": make_pod_template(revision),
            "size": promises.SIZES[revision],
        }
        self._edit(leaderWorkerTemplate=template)

    def scale(self, replicas: int) -> None:
        """More groups or fewer."""
        self.floor.give_up()
        self._edit(replicas=replicas)

    def configure(self, **rolling: Any) -> None:
        """partition, maxUnavailable, maxSurge."""
        strategy = self.lws["spec"]["rolloutStrategy"]
        known = strategy.get("rollingUpdateConfiguration", {})
        self._edit(rolloutStrategy={**strategy, "rollingUpdateConfiguration": {**known, **rolling}})

    def set_policies(self, restart: str, startup: str, termination: str) -> None:
        """When groups are recreated, and when their workers are created and terminated."""
        template = {**self.lws["spec"]["leaderWorkerTemplate"], "restartPolicy": restart}
        self._edit(leaderWorkerTemplate=template, startupPolicy=startup, podTerminationPolicy=termination)

    def start_in_waves(self, **strategy: int) -> None:
        """seedGroups, growthFactor."""
        self._edit(startStrategy=strategy)

    def prewarm(self, seconds: int, parallelism: int, is_cold: bool) -> None:
        """Nodes get what a rollout needs, before it begins. is_cold: none does."""
        self.nodes.is_cold = is_cold
        asked = {"deadlineSeconds": seconds, "parallelism": parallelism, "command": ["load"]}
        self._edit(rolloutStrategy={**self.lws["spec"]["rolloutStrategy"], "prewarm": asked})

    def return_to_nodes(self, how: str, are_doomed: bool) -> None:
        """Recreated pods go back to their nodes. how: Preferred or Required. are_doomed: each
        node is cordoned once a pod must return to it.
        """
        self.nodes.are_doomed = are_doomed
        self.cluster.change(self.lws, {"annotations": {NODE_RETURN_ANNOTATION: how}})

    def pause(self, is_paused: bool) -> None:
        """Hold the rollout, or let it go on."""
        self._edit(rolloutStrategy={**self.lws["spec"]["rolloutStrategy"], "paused": is_paused})

    def _edit(self, **spec: Any) -> None:
        self.cluster.change(self.lws, spec={**self.lws["spec"], **spec})

    # Bad luck.

    def strike(self, fault: str, number: int) -> None:
        """Something befalls one of the pods."""
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
            self.cluster.condemn(pod)
        else:
            self.nodes.hang(pod)

    def garble(self) -> None:
        """The record of the replicas last asked for is lost."""
        statefulset = self.cluster.find("StatefulSet", NAME)
        if statefulset is not None:
            annotations = {**statefulset["metadata"]["annotations"], REPLICAS_ANNOTATION: "many"}
            self.cluster.change(statefulset, {"annotations": annotations})

    def lose_statefulset(self, leaves_pods: bool) -> None:
        """Somebody deletes the leader StatefulSet, with or without its pods."""
        statefulset = self.cluster.find("StatefulSet", NAME)
        if statefulset is None:
            return
        self.floor.give_up()
        if leaves_pods:
            for child in self.cluster.owned_by(statefulset["metadata"]["uid"]):
                self.cluster.change(child, {"ownerReferences": None})
        self.cluster.end(statefulset)

    def restart(self) -> None:
        """The manager ends; the next one begins with a list."""
        self.manager = self._new_manager()

    def stand_by(self) -> FakeManager:
        """A manager that has listed by now, and hears nothing more until it takes over."""
        return FakeManager(self.cluster, self._loop, self._on_plan)

    def take_over(self, standby: FakeManager) -> None:
        """The manager ends; this one holds the Lease, and lists before its first pass."""
        for kind in self.cluster.log:
            standby.relist(kind)
        standby.resync()
        self.manager, self._is_alive = standby, True

    def miss(self, kind_number: int) -> None:
        """A stream breaks; what it had not shown yet comes by a list."""
        late = self.manager.late
        if late:
            self.manager.relist(late[kind_number % len(late)])

    def repeat(self, events: int) -> None:
        """Every stream shows its last events again."""
        for kind in list(self.cluster.log):
            self.manager.reread(kind, events)

    # Time.

    def go_on(self, moves: int, seed: int, trouble: float = 0.0) -> None:
        """So many moves, in random order; writes meet trouble now and then."""
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
        """So many rounds in which everybody does what there is to do; True if the last changed anything."""
        has_changed, self.is_sound = False, False
        for _ in range(rounds):
            has_changed = self._round()
        self.is_sound = True
        return has_changed

    def settle(self) -> None:
        """Everything takes its course, fairly, until nothing moves any more; then all is as wished."""
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
        """Every controller does all it can, then every pod makes a move; True if anything changed.

        Passes that look again now and then, and find nothing to do, change nothing.
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
        choices += [lambda each=each: self.nodes.sync(each) for each in self.cluster.of_kind("StatefulSet")]
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
        """Between two writes of ours others act, the API server refuses, or the process ends."""
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

    # What must hold.

    def check(self) -> None:
        """No group is a mix of revisions, and enough of them serve."""
        self.floor.check()
        for statefulset in self.cluster.of_kind("StatefulSet"):
            owner = controller_of(statefulset)
            leader = self.cluster.find("Pod", statefulset["metadata"]["name"])
            if owner and leader and owner["uid"] == leader["metadata"]["uid"]:
                promises.check_workers(statefulset, leader, self.cluster.images)
        promises.check_meetings(self.cluster.of_kind("Pod"), self.cluster.made_for)

    @property
    def picture(self) -> str:
        """How things are, on one line per object."""
        lines = [f"{self.lws['spec']['replicas']} of {self.revision}, {self.lws['spec']['rolloutStrategy']}"]
        for (kind, name), obj in sorted(self.cluster.objects.items()):
            if kind == "Pod":
                uid, status = obj["metadata"]["uid"], obj["status"]
                ready = [each["status"] for each in status.get("conditions", ())]
                marks = [self.cluster.images[uid], status["phase"], *ready]
                marks += ["terminating"] * is_terminating(obj)
                lines.append(f"{kind} {name} {' '.join(marks)}")
            elif kind == "StatefulSet":
                told = obj["spec"].get("updateStrategy")
                lines.append(f"{kind} {name} {obj['spec']['replicas']} {told} {obj.get('status')}")
        return "\n".join([*lines, *self.told[-40:]])

    def _on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        for sequence in plan.sequences:
            for action in sequence:
                self.told.append(f"{key.kind} {key.name}: {type(action).__name__.lower()}, {action.why}")
        images = self.cluster.images
        if key.kind == "set":
            promises.check_set_pass(snapshot, plan, images)
        else:
            promises.check_group_pass(snapshot, plan, images, self._incidents)

    def _place(self, pod: Any) -> str:
        """One node for all, unless pods return: then the preferred node, else one of the pod's own."""
        metadata, preferred = pod["metadata"], must_return_to(pod) or preferred_node(pod)
        if NODE_RETURN_ANNOTATION not in self.lws["metadata"].get("annotations", {}):
            assert not preferred, f"nobody asked for the return of {metadata['name']}"
            return "node"
        if not preferred or preferred in self.cluster.cordoned:
            return f"node-of-{metadata['uid']}"
        namesakes = (
            each for _, each in self.cluster.log["Pod"] if each["metadata"]["name"] == metadata["name"]
        )
        nodes = {each["spec"].get("nodeName") for each in namesakes}
        assert preferred in nodes, f"{metadata['name']} returns to {preferred}, where it has never been"
        return preferred

    def _leader_of(self, pod: Any) -> str:
        """UID of the leader of the pod's group; empty if that is gone."""
        owner = controller_of(pod)
        if owner is None or owner["name"] == NAME:
            return str(pod["metadata"]["uid"])
        leader = self.cluster.find("Pod", owner["name"])
        return leader["metadata"]["uid"] if leader is not None else ""

    def _is_waiting(self) -> bool:
        """A pod waits for a node that takes none: the pass that sees it may be one of many that are due."""
        return any(must_return_to(pod) in self.cluster.cordoned for pod in self.cluster.of_kind("Pod"))

    def _mend(self) -> bool:
        """What no controller can do: nodes come back, pods of the target revision get ready after all, and
        the user resumes, or fixes a revision that never works. True if there was anything.
        """
        if self.nodes.held:
            self.nodes.held.clear()
            return True
        if self.revision in self.nodes.hopeless:
            self.change(next(each for each in promises.SIZES if each not in self.nodes.hopeless))
            return True
        if self.is_paused:
            self.pause(False)
            return True
        pods = list(self.cluster.of_kind("Pod"))
        wanted = {pod["metadata"]["uid"] for pod in pods if self._is_wanted(pod)}
        found = wanted & self.nodes.stuck
        self.nodes.stuck -= found
        return bool(found)

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
            told = statefulset["spec"]
            partition = told["updateStrategy"]["rollingUpdate"]["partition"]
            assert (told["replicas"], partition) == (spec["replicas"], 0), self.picture
            leaders = self.cluster.owned_by(statefulset["metadata"]["uid"], "Pod")
            assert len(leaders) == spec["replicas"], self.picture
        self._check_rest()

    def _check_rest(self) -> None:
        """A manager that looks at everything anew has nothing to do."""
        writes = self.cluster.writes
        self.manager.resync()
        self._catch_up()
        assert self.cluster.writes == writes, f"restless: {self.picture}"
