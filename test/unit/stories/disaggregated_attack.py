"""A DisaggregatedSet in a cluster in memory while everything fails, with every write of its passes judged.

A scenario chooses the write at which something happens. An AssertionError begins with the name of the broken
promise.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, cast

from lws import timing
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.slices.state import RoleTargets, rollout_record
from lws.disaggregatedset.spec import parse
from lws.disaggregatedset.target import target_revision
from lws.kube.metadata import is_terminating
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Key
from lws.runtime.errors import ApiError, Conflict, Forbidden, Unreachable
from lws_api.disaggregatedset.v1 import KIND, REVISION_LABEL
from test.unit.stories.disaggregated_judge import Pods, Steps, check_record
from test.unit.stories.disaggregated_world import CHILD, World
from test.unit.stories.fake_manager import Crash, FakeManager

FAULTS: dict[str, Callable[[], Exception]] = {
    "500": lambda: ApiError(500, "InternalError", "broken"),
    "409": lambda: Conflict(409, "Conflict", "changed meanwhile"),
    "403": lambda: Forbidden(403, "Forbidden", "not allowed"),
    "late": lambda: Unreachable("timed out"),
    "crash": Crash,
    "crash late": Crash,
}


class Attack:
    """A set under attack.

    at: number of the write, counted from 1. hit: a function called before it. fault: how the write fails; ""
    if it does not. dice: the randomness of late streams; None if streams are read at once. floors: groups
    that were desired when the target changed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random | None = None) -> None:
        self.world, self.loop, self.dice = World(loop), loop, dice
        self.at, self.fault = 0, ""
        self.hit: Callable[[World], None] = lambda world: None
        self.writes: list[str] = []
        self.floors: Counter[tuple[int, str]] = Counter()
        self.is_judged = True
        self.roles: dict[tuple[int, str], Any] = {}
        self.key, self.spec = "", cast(Any, None)
        cluster: Any = self.world.cluster
        self.pods, self.steps, self.has_failed = Pods(cluster, self.world.nodes), Steps(), False
        for verb in ("create", "apply", "merge", "delete"):
            setattr(cluster, verb, self._around(verb, getattr(cluster, verb)))
        self.restart()

    def _on_plan(self, key: Key, snapshot: Any, planned: Any) -> None:
        self.world.passes.append(key)
        if key.kind != "disaggregatedset" or snapshot.fault or is_terminating(snapshot.obj):
            return
        former, self.key = self.key, target_revision(snapshot).key
        self.spec = parse(snapshot.obj)
        self.is_judged = True
        if self.key != former:
            self.floors = self._desired()
        targets = RoleTargets(snapshot, self.spec, self.key)
        self.roles = {
            (index, target.name): target
            for index in range(self.spec.slices)
            for target in targets.slice_state(index, rollout_record(snapshot.obj, index)).roles
        }
        self.steps.check_decisions()

    def _around(self, verb: str, call: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def write(*args: Any, **more: Any) -> Any:
            if self.world.passes[-1].kind != "disaggregatedset":
                return await call(*args, **more)
            target = args[0]
            kind = target["kind"] if isinstance(target, dict) else target.kind
            name = target["metadata"]["name"] if isinstance(target, dict) else target.name
            description = f"{verb} {kind} {name} {args[1] if verb == 'merge' else ''}"
            self.writes.append(description)
            is_it = len(self.writes) == self.at
            if is_it:
                version = self.world.cluster.version
                self.hit(self.world)
                # The pass has observed already: only the next pass knows of a loss.
                self.is_judged = version == self.world.cluster.version
                if self.fault and "late" not in self.fault:
                    self.has_failed = True
                    raise FAULTS[self.fault]()
            before, child = self._serving(), self._child(name) if kind == CHILD else None
            total = self._present()
            # A request that never gets a response fails, too.
            self.has_failed, before_it = True, self.has_failed
            answer = await call(*args, **more)
            if kind == CHILD and self.is_judged:
                self._judge(verb, args, child, self._child(name), before, total)
            if is_it and self.fault:
                raise FAULTS[self.fault]()
            self.has_failed = before_it
            return answer

        return write

    def _child(self, name: str) -> Any:
        return self.world.cluster.find(CHILD, name)

    def _where(self, child: Any) -> tuple[int, str]:
        identity = identity_of("demo", child["metadata"]["name"])
        assert identity is not None
        return identity.slice_index, identity.role

    def _groups(self) -> Any:
        for child in self.world.children:
            name = child["metadata"]["name"]
            pods = {
                int(pod["metadata"]["name"].rpartition("-")[2]): pod
                for pod in self.world.cluster.of_kind("Pod")
                if pod["metadata"]["name"].rpartition("-")[0] == name
            }
            yield child, 0 if is_terminating(child) else child["spec"]["replicas"], pods

    def _desired(self) -> Counter[tuple[int, str]]:
        counts: Counter[tuple[int, str]] = Counter()
        for child, desired, _ in self._groups():
            counts[self._where(child)] += desired
        return counts

    def _serving(self) -> Counter[tuple[int, str]]:
        """Count serving groups as far as the manager has read its streams: it cannot know later changes."""
        counts: Counter[tuple[int, str]] = Counter()
        read_pod = self.world.manager.known
        for child, desired, pods in self._groups():
            seen = [read_pod(pod) for index, pod in pods.items() if index < desired]
            counts[self._where(child)] += sum(
                pod is not None and not is_terminating(pod) and _is_ready(pod) for pod in seen
            )
        return counts

    def _present(self) -> Counter[tuple[int, str]]:
        counts: Counter[tuple[int, str]] = Counter()
        for child, desired, pods in self._groups():
            counts[self._where(child)] += max(desired, len(pods))
        for pod in self.world.cluster.of_kind("Pod"):
            # Count pods of deleted children. If another owner's object has the name, they are its own pods.
            name = pod["metadata"]["name"].rpartition("-")[0]
            identity = identity_of("demo", name) if self._child(name) is None else None
            if identity is not None:
                counts[identity.slice_index, identity.role] += 1
        return counts

    def _judge(self, verb: str, args: Any, old: Any, new: Any, serving: Any, total: Any) -> None:
        child = new or old
        where, replicas = self._where(child), new["spec"]["replicas"] if new else 0
        key = child["metadata"]["labels"][REVISION_LABEL]
        before = old["spec"]["replicas"] if old else 0
        role = self.roles.get(where)
        description = self.writes[-1]
        if where[0] < self.spec.slices:
            self.steps.check_write(where, key, verb, replicas)
        if verb == "create":
            check_record(self.world.cluster, new)
        if verb != "create" and new:
            assert _runs(old) == _runs(new), f"reason: {description} restarts its pods"
        if verb == "delete":
            assert where[0] >= self.spec.slices or not before, f"reason: {description}"
            return
        if role is None:
            assert replicas == before, f"reason: {description}"
            return
        if replicas > before:
            assert key == self.key or verb == "create", f"direction: {description} target {self.key}"
            most = max(role.target + role.surge, total[where])
            assert self._present()[where] <= most, f"surge: {description} {self._present()[where]} > {most}"
        if replicas < before and key == self.key:
            assert replicas == role.target, f"direction: {description} target {role.target}"
        if replicas < before:
            after = self._serving()[where]
            least = min(self.floors[where], role.target) - role.unavailable
            is_kept = after >= min(least, serving[where])
            is_kept |= self.steps.is_last_resort(where, key, before - replicas)
            assert is_kept, f"floor: {description} {serving[where]} -> {after} < {least}"

    def go(self, rounds: int = 0) -> None:
        """Play this many rounds; 0 plays until nothing changes any more, however long it takes."""
        if rounds:
            for _ in range(rounds):
                self._round()
            return
        for _ in range(600):
            moved = self._round()
            if not moved and not self.world.manager.ring():
                return
            if not moved and self._is_quiet():
                return
        raise AssertionError(f"end: it does not come to rest {self.writes[-6:]}")

    def _is_quiet(self) -> bool:
        """Return whether nothing changes for longer than any group may take to become ready."""
        cluster = self.world.cluster
        until = cluster.now + 2 * timing.GROUP_STARTS_WITHIN
        while cluster.now < until:
            version = cluster.version
            if self._round() or version != cluster.version:
                return False
            if not self.world.manager.ring():
                break
        return not self._round()

    def _round(self) -> bool:
        world, manager = self.world, self.world.manager
        version = world.cluster.version
        for _ in range(400):
            manager = world.manager
            for kind in manager.late:
                if self.dice is None or self.dice.random() < 0.3 or not manager.queue.keys:
                    manager.read(kind)
            if not manager.queue.keys:
                if not manager.late:
                    break
                continue
            try:
                self._pass()
            except Crash:
                self.restart()
        else:
            raise AssertionError(f"end: passes without end {self.writes[-4:]}")
        world.nodes.sync_all()
        world.cluster.collect()
        for move in world.nodes.moves():
            if self.dice is None or self.dice.random() < 0.7:
                move()
        return version != world.cluster.version

    def _pass(self) -> None:
        self.has_failed = False
        with self.steps.watched():
            self.world.manager.run_pass()
        if self.is_judged and not self.has_failed:
            self.steps.check_end()

    def restart(self) -> None:
        """Replace the manager process."""
        self.world.manager = FakeManager(self.world.cluster, self.loop, self._on_plan, REGISTRATIONS)

    def check_end(self) -> None:
        """Check that the set is settled on its newest spec and that no pass writes."""
        spec = self.world.get(KIND)["spec"]
        slices = spec.get("slices", 1)
        actual: dict[tuple[int, str, str], int] = {}
        for child in self.world.children:
            where = (*self._where(child), child["metadata"]["labels"][REVISION_LABEL])
            actual[where] = child["spec"]["replicas"]
        expected = {
            (index, role["name"], self.key): self.roles[index, role["name"]].target
            for index in range(slices)
            for role in spec["roles"]
        }
        assert actual == expected, f"end: {actual} != {expected} {self.world.status}"
        status = self.world.status
        assert status["currentRevision"] == status["updateRevision"], f"end: {status}"
        assert self.world.conditions.get("Available") == "True", f"end: {status}"
        assert self.world.conditions.get("Progressing") != "True", f"end: {status}"
        before = len(self.writes)
        for _ in range(3):
            self.world.manager.resync()
            self.go()
        assert len(self.writes) == before, f"end: a settled set writes {self.writes[before:]}"


def _runs(child: Any) -> list[Any]:
    """Return the templates and the size of a child, which its pods are created from."""
    template = child["spec"]["leaderWorkerTemplate"]
    return [template.get(part) for part in ("leaderTemplate", "workerTemplate", "size")]


def _is_ready(pod: Any) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
