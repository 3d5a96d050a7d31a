"""One set with everything around it: its user, the product, the controllers of Kubernetes, and faults.

A broken promise raises an AssertionError. All randomness comes from one seed.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Self

from lws import timing
from lws.kube.metadata import annotations_of, controller_of, is_terminating, labels_of
from lws.kube.pods import gate_of
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import errors_in
from lws.leaderworkerset.assessment.prewarm import has_ended
from lws.leaderworkerset.pod_identity import must_return_to
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.runtime.actions import Delete, Key, Plan
from lws.runtime.errors import Conflict, Throttled
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    KIND,
    NAME_LABEL,
    RECOVER_ANNOTATION,
    REPLICAS_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_pod_template, make_set
from test.unit.stories import promises
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.fake_manager import Crash, FakeManager, with_gangs
from test.unit.stories.fake_nodes import FakeNodes, preferred_node
from test.unit.stories.standing import Reader, Standing
from test.unit.stories.truth import Floor

MOST_ROUNDS = 400
LONGEST_DEADLINE = 900
"""Longest `progressDeadlineSeconds` of a set."""
LONGEST_WAIT = max(timing.RESTART_DELAY.longest, LONGEST_DEADLINE) + timing.SKEW_SECONDS
"""Maximum time until the next pass, in seconds, also after the clock was set."""
FAULTS = ("crash", "stuck", "evicted", "node gone", "deleted", "cordoned")
_SETTLED: dict[tuple[bool, str, int, frozenset[str]], FakeCluster] = {}

HASH, GANG, SCHEDULING, ROLE = "Hash", "gang", "spec.scheduling", "role of a DisaggregatedSet"
LASTING = (HASH, GANG, SCHEDULING, ROLE)
"""Features that a set has from its creation on."""


class World:
    """One set in a cluster of its own.

    lasting: the features, of those in LASTING, that the set has.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cluster: FakeCluster,
        lasting: frozenset[str] = frozenset(),
    ) -> None:
        self.cluster = cluster
        self.lasting = lasting
        self.nodes = FakeNodes(cluster)
        self.log: list[str] = []
        """What the product did, with its reasons."""
        self.is_sound = True
        """Whether no promise has been broken so far."""
        self._loop = loop
        self.floor = Floor(cluster)
        """The check of what really serves, independent of the caches."""
        self.reader = Reader(cluster, self.nodes)
        self.refused: list[str] = []
        """Why admission has refused edits of the user."""
        self.cleans = False
        """Whether somebody deletes Jobs as soon as they have ended."""
        self._most_groups = 0
        self._restarts: Counter[tuple[str, int | str]] = Counter()
        self._jobs_before = 0
        self._incidents: set[str] = set()
        self._trouble = 0.0
        self._random = random.Random(0)
        self._is_alive = True
        provider = "volcano" if GANG in lasting else "kubernetes" if SCHEDULING in lasting else ""
        self._settings = with_gangs(provider, SCHEDULING in lasting)
        cluster.before_write = self._before_write
        cluster.has_former = lambda pod: self.manager.has_former(pod)
        cluster.former_node = lambda pod: self.manager.former_node(pod)
        if provider:
            cluster.gang_marks = lambda *of_pod: self.manager.gang_marks(*of_pod)
        self.nodes.place = self._place
        self.manager = self._new_manager()

    @classmethod
    def new(
        cls,
        loop: asyncio.AbstractEventLoop,
        has_feature: bool,
        revision: str,
        replicas: int,
        lasting: frozenset[str] = frozenset(),
    ) -> Self:
        """Return a world with nothing but the set.

        has_feature: whether MaxUnavailableStatefulSet is on.
        """
        cluster = FakeCluster(has_feature)
        more: dict[str, Any] = {"groupIdentity": "Hash"} if HASH in lasting else {}
        more |= {"scheduling": {"replica": {}}} if SCHEDULING in lasting else {}
        size = promises.SIZES[revision]
        lws = make_set(NAME, image=revision, size=size, replicas=replicas, **more)
        cluster.add(cls._wrapped(lws))
        world = cls(loop, cluster, lasting)
        world._edited()
        return world

    @classmethod
    def settled(
        cls,
        loop: asyncio.AbstractEventLoop,
        has_feature: bool,
        revision: str,
        replicas: int,
        lasting: frozenset[str] = frozenset(),
    ) -> Self:
        """Return a world with all objects created and ready, and a manager that has just started."""
        key = (has_feature, revision, replicas, lasting)
        if key not in _SETTLED:
            world = cls.new(loop, has_feature, revision, replicas, lasting)
            world.settle()
            _SETTLED[key] = world.cluster
        settled = cls(loop, _SETTLED[key].copy(), lasting)
        if not lasting & {HASH, ROLE}:
            settled.floor.claim()
        settled._edited()
        return settled

    @classmethod
    def _wrapped(cls, lws: dict[str, Any]) -> dict[str, Any]:
        """Return the object that the user creates to get this set."""
        return lws

    # Actions of the user.

    @property
    def lws(self) -> dict[str, Any]:
        """The set as it is stored."""
        stored = self.cluster.find(KIND, NAME)
        assert stored is not None
        return stored

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the set as its user wants it."""
        spec: dict[str, Any] = self.lws["spec"]
        return spec

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the set as its user wants them."""
        return annotations_of(self.lws)

    @property
    def is_hash(self) -> bool:
        return HASH in self.lasting

    @property
    def revision(self) -> str:
        """The revision that the user wants."""
        return promises.revision_of(self.spec["leaderWorkerTemplate"]["workerTemplate"])

    @property
    def is_paused(self) -> bool:
        """Whether the user has paused the rollout."""
        return bool(self.spec["rolloutStrategy"].get("paused"))

    def change(self, revision: str) -> None:
        """Set another template, which may be a former one."""
        if revision != self.revision:
            self.floor.change_mind()
        template = {
            **self.spec["leaderWorkerTemplate"],
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
        strategy = self.spec["rolloutStrategy"]
        configuration = strategy.get("rollingUpdateConfiguration", {})
        self._edit(rolloutStrategy={**strategy, "rollingUpdateConfiguration": {**configuration, **rolling}})

    def set_policies(self, restart: str, startup: str, termination: str) -> None:
        """Set the policies of restart, startup and termination."""
        template = {**self.spec["leaderWorkerTemplate"], "restartPolicy": restart}
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
        self._edit(rolloutStrategy={**self.spec["rolloutStrategy"], "prewarm": settings})

    def return_to_nodes(self, how: str, are_doomed: bool) -> None:
        """Request that recreated pods return to their nodes.

        how: Preferred or Required. are_doomed: whether each node is cordoned once a pod must return to it.
        """
        self.nodes.are_doomed = are_doomed
        self._annotate(NODE_RETURN_ANNOTATION, how)

    def limit_restarts(self, limit: int, is_upstream: bool) -> None:
        """Limit the restarts of each group. is_upstream: by the field of upstream."""
        if is_upstream:
            template = {**self.spec["leaderWorkerTemplate"], "maxGroupRestarts": limit}
            self._edit(leaderWorkerTemplate=template)
        else:
            self._edit(maxGroupRestarts=limit)

    def back_off(self, base: int, cap: int) -> None:
        """Request that failed groups wait before they are recreated."""
        backoff = {"baseSeconds": base, "capSeconds": cap}
        self._edit(leaderWorkerTemplate={**self.spec["leaderWorkerTemplate"], "restartBackoff": backoff})

    def limit_disruptions(self, groups: int) -> None:
        """Request a PodDisruptionBudget."""
        self._edit(podDisruptionBudget={"maxUnavailableGroups": groups})

    def expect_progress(self, seconds: int) -> None:
        """Set the deadline after which a set without progress is stalled."""
        self._edit(progressDeadlineSeconds=seconds)

    def replace_at_once(self) -> None:
        """Let new Hash groups start while former ones terminate."""
        self._edit(groupReplacementPolicy="Immediate")

    def recover(self) -> None:
        """Request new groups in place of those that have used up their restarts."""
        self._restarts.clear()
        for pod in list(self.cluster.of_kind("Pod")):
            if is_exhausted(pod):
                self.cluster.change(pod, {"annotations": {**annotations_of(pod), RECOVER_ANNOTATION: "true"}})

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the rollout."""
        self._edit(rolloutStrategy={**self.spec["rolloutStrategy"], "paused": is_paused})

    def _edit(self, **spec: Any) -> None:
        """Change the spec unless admission refuses it. None removes a field."""
        changed = {name: value for name, value in {**self.lws["spec"], **spec}.items() if value is not None}
        new = copy.deepcopy({**self.lws, "spec": changed})
        default(new)
        if errors := errors_in(new, self.lws):
            self.refused += map(str, errors)
        else:
            self.cluster.change(self.lws, spec=new["spec"])
        self._edited()

    def _edited(self) -> None:
        """Begin to count anew: after an edit, groups may be recreated and nodes prepared once more."""
        self._restarts.clear()
        self._jobs_before = len(self.cluster.log["Job"])
        self._most_groups = max(self._most_groups, self.spec["replicas"] + self._surge)
        self.reader.look()

    @property
    def _surge(self) -> int:
        return promises.limits(self.spec)[1]

    def _annotate(self, name: str, value: str) -> None:
        self.cluster.change(self.lws, {"annotations": {**annotations_of(self.lws), name: value}})

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
        statefulset = self.cluster.find("StatefulSet", self.lws["metadata"]["name"])
        if statefulset is not None:
            annotations = {**statefulset["metadata"]["annotations"], REPLICAS_ANNOTATION: "many"}
            self.cluster.change(statefulset, {"annotations": annotations})

    def lose_leaders(self, leaves_pods: bool) -> None:
        """Delete the StatefulSet or Deployment of the leaders, with or without its pods, as a user does."""
        kind = "Deployment" if self.is_hash else "StatefulSet"
        statefulset = self.cluster.find(kind, self.lws["metadata"]["name"])
        if statefulset is None:
            return
        self.floor.give_up()
        if leaves_pods:
            for child in self.cluster.owned_by(statefulset["metadata"]["uid"]):
                self.cluster.change(child, {"ownerReferences": None})
        self.cluster.end(statefulset)

    def lose_set(self, number: int) -> None:
        """Delete a set that somebody else creates again. This user's own set stays."""

    def clean(self) -> None:
        """Delete what others are done with: pods that have ended, orphans, and from now on Jobs that have."""
        self.cleans = True
        for pod in [pod for pod in self.cluster.of_kind("Pod") if pod["status"]["phase"] == "Failed"]:
            self._incidents.add(self._leader_of(pod))
            self.floor.give_up()
            self.cluster.request_deletion(pod)
        for kind in ("StatefulSet", "ReplicaSet"):
            for orphan in self.cluster.orphans(kind):
                self.floor.give_up()
                self.cluster.request_deletion(orphan)

    def restart(self) -> None:
        """Replace the manager process. The next one begins with a list."""
        self.manager = self._new_manager()

    def stand_by(self) -> FakeManager:
        """Return a manager that has listed, and reads nothing more until it takes over."""
        return FakeManager(self.cluster, self._loop, self._on_plan, settings=self._settings)

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
        for kind in self.manager.kinds:
            self.manager.reread(kind, events)

    # The passage of time.

    _patience = 0.0
    """Seconds after which groups that are not ready count as broken, for controllers that wait for them."""

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

    def rest(self) -> None:
        """Play fair rounds until nothing changes any more, and check how the set stands."""
        self.is_sound = False
        rings, has_waited = 0, False
        for _ in range(MOST_ROUNDS):
            if self._round():
                rings, has_waited = 0, False
            elif rings < (30 if self._is_waiting() else 3) and self.manager.ring():
                rings += 1
            elif self._patience and not has_waited and not self._is_available():
                self.cluster.pass_time(self._patience)
                rings, has_waited = 0, True
            else:
                self.reader.check_rest()
                self.is_sound = True
                return
        raise AssertionError(f"no end: {self.picture}")

    def _is_available(self) -> bool:
        return all(standing.is_available for standing in self.reader.standings())

    def settle(self) -> None:
        """Play and mend until there is nothing left to mend, and check that the user's wishes are met."""
        self.rest()
        while self._mend():
            self.rest()
        self.is_sound = False
        self._check_end()
        self.is_sound = True

    def _round(self) -> bool:
        """Run every controller to its end, then one move of every pod. Return whether anything changed.

        Periodic passes that find nothing to do change nothing.
        """
        version = self.cluster.version
        self._catch_up()
        self.reader.check_now()
        self.nodes.sync_all()
        self.cluster.collect()
        for move in self.nodes.moves():
            move()
        self._clean_jobs()
        self.check()
        return self.cluster.version != version

    def _clean_jobs(self) -> None:
        for job in list(self.cluster.of_kind("Job")) if self.cleans else ():
            known = self.manager.known(job)
            if known is not None and has_ended(known):
                self.cluster.end(job)

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
        return [*choices, *self.nodes.syncs(), self.cluster.collect]

    def _run_pass(self, key: Key | None = None) -> bool:
        try:
            return self.manager.run_pass(key)
        except Crash:
            self.restart()
            return True

    def _new_manager(self) -> FakeManager:
        self._is_alive = True
        return FakeManager(self.cluster, self._loop, self._on_plan, settings=self._settings)

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
        self.reader.look()
        for statefulset in self.cluster.of_kind("StatefulSet"):
            owner = controller_of(statefulset) or {"kind": "", "name": "", "uid": ""}
            leader = self.cluster.find("Pod", owner["name"]) if owner["kind"] == "Pod" else None
            if leader and owner["uid"] == leader["metadata"]["uid"]:
                promises.check_workers(statefulset, leader, self.cluster.images)
        promises.check_meetings(self.cluster.of_kind("Pod"), self.cluster.made_for)
        if self.lasting & {HASH, ROLE} and self.spec.get("groupReplacementPolicy") != "Immediate":
            groups, most = promises.groups_with_nodes(self._members()), self._most_groups
            assert len(groups) <= most, f"{groups} hold nodes, at most {most} may: {self.picture}"
        made = Counter(
            job["metadata"]["name"]
            for is_gone, job in self.cluster.log["Job"][self._jobs_before :]
            if not is_gone and not job.get("status")
        )
        again = [name for name, count in made.items() if count > 2]
        assert not again, f"{again} are created again and again: {self.picture}"

    def _members(self) -> list[dict[str, Any]]:
        """Return all pods of the set."""
        return [pod for pod in self.cluster.of_kind("Pod") if labels_of(pod)[NAME_LABEL] == NAME]

    @property
    def picture(self) -> str:
        """All objects as text, one per line."""
        spec = {name: value for name, value in self.spec.items() if name != "leaderWorkerTemplate"}
        lines = [f"{self.revision}, {spec}", f"{self.lws.get('status')}"]
        for (kind, name), obj in sorted(self.cluster.objects.items()):
            if kind == "Pod":
                uid, status = obj["metadata"]["uid"], obj["status"]
                ready = [condition["status"] for condition in status.get("conditions", ())]
                marks = [self.cluster.images[uid], status["phase"], *ready]
                marks += ["terminating"] * is_terminating(obj) + ["gated"] * bool(gate_of(obj))
                lines.append(f"{kind} {name} {' '.join(marks)}")
            elif kind in ("StatefulSet", "ReplicaSet"):
                strategy = obj["spec"].get("updateStrategy")
                lines.append(f"{kind} {name} {obj['spec']['replicas']} {strategy} {obj.get('status')}")
        return "\n".join([*lines, *self.log[-40:]])

    def _on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        for sequence in plan.sequences:
            for action in sequence:
                self.log.append(f"{key.kind} {key.name}: {type(action).__name__.lower()}, {action.why}")
        assert (plan.again_after or 0.0) <= LONGEST_WAIT, f"{key} waits for {plan.again_after} s"
        self.log += [f"{key.kind} {key.name}: status {dict(status.patch)}" for status in plan.statuses]
        images = self.cluster.images
        if key.kind == "set" and not self.is_hash:
            promises.check_set_pass(snapshot, plan, images)
        elif key.kind == "group":
            promises.check_group_pass(snapshot, plan, images, self._incidents)
            self._count_restarts(snapshot, plan)

    def _count_restarts(self, snapshot: Any, plan: Plan) -> None:
        for sequence in plan.sequences:
            for action in sequence:
                if isinstance(action, Delete) and action.target.kind == "Pod":
                    leader, name = snapshot.leader, snapshot.lws["metadata"]["name"]
                    key = (
                        self.cluster.images[leader["metadata"]["uid"]]
                        if self.is_hash
                        else int(leader["metadata"]["name"].rpartition("-")[2])
                    )
                    self.reader.restarts[name, key] = self.reader.restarts.get((name, key), 0) + 1
                    self._check_limit(snapshot.lws["spec"], (name, key))

    def _check_limit(self, spec: dict[str, Any], key: tuple[str, int | str]) -> None:
        """Check that groups are not restarted more often than their limit allows. The last deletion ends the
        group.
        """
        limit = spec.get("maxGroupRestarts", spec["leaderWorkerTemplate"].get("maxGroupRestarts"))
        if limit is None or self._trouble:
            return
        self._restarts[key] += 1
        most = (limit + 1) * (self._most_groups if self.is_hash else 1)
        assert self._restarts[key] <= most, f"{key} is restarted too often: {self.picture}"

    def _place(self, pod: Any) -> str:
        """Pick the node of a pod.

        All pods share one node, unless pods return to their nodes: then it is the preferred node, or else a
        node of the pod's own.
        """
        metadata, preferred = pod["metadata"], must_return_to(pod) or preferred_node(pod)
        if NODE_RETURN_ANNOTATION not in self.annotations:
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
        if owner is None or labels_of(pod).get(WORKER_INDEX_LABEL) == "0":
            return str(pod["metadata"]["uid"])
        workers = self.cluster.find("StatefulSet", owner["name"])
        leader = controller_of(workers) if workers is not None else None
        return str(leader["uid"]) if leader is not None else ""

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
            self.change(
                next(revision for revision in promises.REVISIONS if revision not in self.nodes.hopeless)
            )
            return True
        if self.is_paused:
            self.pause(False)
            return True
        if self.spec.get("maxGroupRestarts") is not None:
            self._edit(maxGroupRestarts=None)
            return True
        if any(is_exhausted(pod) for pod in self.cluster.of_kind("Pod")):
            self.recover()
            return True
        pods = list(self.cluster.of_kind("Pod"))
        wanted_uids = {pod["metadata"]["uid"] for pod in pods if self._is_wanted(pod)}
        stuck = wanted_uids & self.nodes.stuck
        self.nodes.stuck -= stuck
        return bool(stuck)

    def _is_wanted(self, pod: Any) -> bool:
        return self.cluster.images[pod["metadata"]["uid"]] == self.revision

    def _check_end(self) -> None:
        if self.is_hash:
            self._check_end_of_hash()
            return
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

    def _check_end_of_hash(self) -> None:
        standing = Standing(self.cluster, NAME)
        assert standing.is_available and len(standing.groups) == standing.replicas, self.picture
        assert all(group.serves and group.revision == self.revision for group in standing.groups), (
            self.picture
        )
        self._check_rest()

    def _check_rest(self) -> None:
        """Check that a manager that reads everything again has nothing to do."""
        writes = self.cluster.writes
        self.manager.resync()
        self._catch_up()
        assert self.cluster.writes == writes, f"restless: {self.picture}"
