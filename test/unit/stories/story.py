"""A rollout played to its end: our planner, the fake StatefulSet controller and the pods, one move at a time.

The promises are checked after each of our passes: the surge ceiling, the availability floor, and that nothing
is deleted before the StatefulSet controller has seen the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Rollout, RolloutState, make_budget
from lws.leaderworkerset.spec import StartWaves
from test.unit.stories.letters import letters_of
from test.unit.stories.statefulset_controller import FakePod, FakeStatefulSet

Move = Callable[[], bool]


@dataclass
class Wish:
    """The user's present wishes.

    bad: revisions that never become ready.
    """

    replicas: int
    revision: str = "A"
    unavailable: int = 1
    surge: int = 0
    floor: int = 0
    bad: frozenset[str] = frozenset()
    paused: bool = False
    start_strategy: StartWaves | None = None
    prewarms: bool = False
    """Whether nodes are prepared for a new revision before the rollout starts (`Story.warmed`)."""


@dataclass
class Story:
    """The story of one set.

    has_feature: whether MaxUnavailableStatefulSet is on.
    """

    wish: Wish
    has_feature: bool = False
    statefulset: FakeStatefulSet | None = None
    is_patient: bool = True
    """Whether to await a report of the StatefulSet controller before the partition is lowered again."""
    warm: str = "A"
    """The revision that nodes are prepared for."""
    warming: str = ""
    """The revision that a pass has begun to prepare nodes for."""
    left: list[int] = field(default_factory=list)
    """Leaders that the StatefulSet controller is expected to delete as soon as it sees a step."""
    log: list[str] = field(default_factory=list)
    """One line for each pass that changed something."""

    def settled(self, revision: str = "A") -> Story:
        """Return this story, with all groups ready on `revision`."""
        replicas = self.wish.replicas
        self.statefulset = statefulset = FakeStatefulSet(replicas, revision, last_replicas=replicas)
        statefulset.max_unavailable = self._max_unavailable
        statefulset.sync()
        for pod in statefulset.pods.values():
            pod.formed = pod.leader_ready = pod.workers_ready = True
        statefulset.sync()
        return self

    @property
    def states(self) -> tuple[GroupState, ...]:
        """The groups as our observation shows them."""
        if self.statefulset is None:
            return ()
        return tuple(self._state(index, pod) for index, pod in sorted(self.statefulset.pods.items()))

    def run_pass(self) -> bool:
        """Run one of our passes. Return whether it wrote anything."""
        states = self.states
        state = self._rollout_state(states)
        rollout = plan_rollout(state)
        if self.is_warming:
            self.warming = self.wish.revision
            assert not rollout.replace, "a rollout that waits for nodes replaces groups"
        if self.statefulset is None:
            self.statefulset = FakeStatefulSet(rollout.replicas, self.wish.revision, rollout.partition)
            self.statefulset.last_replicas = self.wish.replicas
            self.statefulset.max_unavailable = self._max_unavailable
            self._log("-", "-", rollout)
            return True
        check(self.wish, states, self.statefulset, rollout)
        stored = f"{self.statefulset.replicas},{self.statefulset.partition}"
        assert state.statefulset is not None
        replaced = rollout.within(state.statefulset).replace
        self.left += [index for index in rollout.replace if index not in replaced]
        for index in replaced:
            self.statefulset.pods[index].terminating = True
        wrote = self._apply(self.statefulset, rollout) or bool(replaced)
        if wrote:
            self._log(stored, letters_of(states, max(self.statefulset.pods, default=-1) + 1) or "-", rollout)
        return wrote

    def sync(self) -> bool:
        """Run one pass of the StatefulSet controller. Return whether it did anything."""
        return self.statefulset is not None and self.statefulset.sync()

    def settle(self) -> bool:
        """Run both controllers, ours first, until neither has anything to do. Return whether either had."""
        has_changed = False
        while self.run_pass() | self.sync():
            has_changed = True
        return has_changed

    def play(self, rounds: int | None = None) -> None:
        """Play rounds, by default to the end: both controllers settle, then every pod makes one move."""
        played = 0
        while (self.settle() or self.moves()) and played != rounds:
            for move in self.moves():
                move()
            played += 1

    def break_group(self, index: int) -> None:
        """Break the group for good."""
        assert self.statefulset is not None
        pod = self.statefulset.pods[index]
        pod.broken, pod.leader_ready, pod.workers_ready = True, False, False

    def lose(self, index: int) -> None:
        """Delete the leader, as a user does."""
        assert self.statefulset is not None
        self.statefulset.pods[index].terminating = True

    def recover(self) -> bool:
        """Let broken groups on the target revision become ready again. Return whether there were any."""
        pods = self.statefulset.pods.values() if self.statefulset is not None else ()
        broken = [pod for pod in pods if pod.broken and pod.revision == self.wish.revision]
        for pod in broken:
            pod.broken = False
        return bool(broken)

    def moves(self) -> list[Move]:
        """Return what may happen next by itself to any pod."""
        pods = self.statefulset.pods if self.statefulset is not None else {}
        return [move for index in sorted(pods) if (move := self._move(index, pods[index])) is not None]

    @property
    def is_warming(self) -> bool:
        """Whether the rollout waits for nodes. As in the assessment, a rollout that has begun continues."""
        wish, statefulset = self.wish, self.statefulset
        if statefulset is None or not wish.prewarms or wish.paused or self.warm == wish.revision:
            return False
        has_moved = statefulset.revision == wish.revision and statefulset.partition < statefulset.replicas
        serving = [state for state in self.states if state.serves_outdated]
        scope = range(wish.floor, wish.replicas)
        return self.warming == wish.revision or not (has_moved or all(s.index not in scope for s in serving))

    def warmed(self) -> bool:
        """End the prewarming, as ended Jobs or the deadline do. Return whether a rollout has waited for
        it.
        """
        was_warming, self.warm = self.is_warming, self.wish.revision
        return was_warming

    @property
    def is_finished(self) -> bool:
        """Whether everything is as the user wants it."""
        wish, statefulset = self.wish, self.statefulset
        if statefulset is None:
            return False
        settled = {state.index for state in self.states if state.settled}
        in_place = all(index in settled for index in range(wish.floor, wish.replicas))
        if wish.floor:
            return in_place
        return in_place and (statefulset.replicas, statefulset.partition) == (wish.replicas, 0)

    @property
    def _max_unavailable(self) -> int | None:
        return max(1, self.wish.unavailable + self.wish.surge) if self.has_feature else None

    def _state(self, index: int, pod: FakePod) -> GroupState:
        assert self.statefulset is not None
        return GroupState(
            index=index,
            ready=pod.is_serving,
            formed=pod.formed,
            outdated=pod.revision != self.wish.revision,
            terminating=pod.terminating,
            leader_ready=pod.is_available,
            replaceable=pod.revision != self.statefulset.update_revision,
        )

    def _rollout_state(self, states: tuple[GroupState, ...]) -> RolloutState:
        wish, statefulset = self.wish, self.statefulset
        limits = make_budget(wish.replicas, wish.unavailable, wish.surge)
        if statefulset is None:
            return RolloutState(wish.replicas, limits, wish.floor, start_strategy=wish.start_strategy)
        observed = statefulset.observed_generation == statefulset.generation
        stored = LeaderStatefulSet(
            replicas=statefulset.replicas,
            partition=statefulset.partition,
            last_replicas=statefulset.last_replicas,
            is_current=statefulset.revision == wish.revision,
            observed=observed,
            awaited=self.is_patient and not observed and statefulset.observed_generation > 0,
            max_unavailable=statefulset.max_unavailable,
        )
        return RolloutState(
            wish.replicas,
            limits,
            wish.floor,
            states,
            stored,
            paused=wish.paused,
            start_strategy=wish.start_strategy,
            prewarming="images on nodes" if self.is_warming else "",
        )

    def _apply(self, statefulset: FakeStatefulSet, rollout: Rollout) -> bool:
        desired = (rollout.replicas, rollout.partition, self.wish.revision, self._max_unavailable)
        stored = (
            statefulset.replicas,
            statefulset.partition,
            statefulset.revision,
            statefulset.max_unavailable,
        )
        last_replicas, statefulset.last_replicas = statefulset.last_replicas, self.wish.replicas
        if desired == stored:
            return last_replicas != self.wish.replicas
        statefulset.replicas, statefulset.partition, statefulset.revision, statefulset.max_unavailable = (
            desired
        )
        statefulset.generation += 1
        return True

    def _move(self, index: int, pod: FakePod) -> Move | None:
        def gone() -> bool:
            assert self.statefulset is not None
            del self.statefulset.pods[index]
            return True

        def becomes(flag: str) -> Move:
            def move() -> bool:
                setattr(pod, flag, True)
                return True

            return move

        if pod.terminating:
            return gone
        if pod.broken or pod.revision in self.wish.bad:
            return None
        flags = ("formed", "leader_ready", "workers_ready")
        return next((becomes(flag) for flag in flags if not getattr(pod, flag)), None)

    def _log(self, stored: str, letters: str, rollout: Rollout) -> None:
        position = f"{rollout.replicas},{rollout.partition}"
        replaced = ",".join(map(str, rollout.replace)) or "-"
        self.log.append(f"{stored:<7}{letters:<15}{position:<7}{replaced:<10}{rollout.why}".rstrip())


def check(wish: Wish, states: tuple[GroupState, ...], statefulset: FakeStatefulSet, rollout: Rollout) -> None:
    """Check ceiling and floor, and that nothing is deleted before the controller has seen the spec."""

    def where() -> str:
        return f"groups {letters_of(states, statefulset.replicas)}, {wish}, {statefulset}, {rollout}"

    limits = make_budget(wish.replicas, wish.unavailable, wish.surge)
    assert rollout.replicas <= max(wish.replicas + limits.surge, statefulset.replicas), where()
    if statefulset.observed_generation != statefulset.generation:
        assert not rollout.replace, where()
    # Groups that the user scales away are not missed, as long as they are no surge.
    is_scaled_down = statefulset.last_replicas == statefulset.replicas > wish.replicas
    counted = rollout.replicas if is_scaled_down else statefulset.replicas
    before = {state.index for state in states if state.ready and state.index < counted}
    removed = set(rollout.replace) | set(range(rollout.replicas, statefulset.replicas))
    if rollout.partition < statefulset.partition:
        # From now on the StatefulSet controller may take every outdated group at or above the partition.
        removed |= {state.index for state in states if state.outdated and state.index >= rollout.partition}
    floor = min(wish.replicas - limits.unavailable, len(before) - 1)
    if before & removed:
        assert len(before - removed) >= floor, where()
    if wish.start_strategy is not None and not wish.paused:
        _check_starts(wish, wish.start_strategy, states, statefulset, rollout, where)


def _check_starts(
    wish: Wish,
    strategy: StartWaves,
    states: tuple[GroupState, ...],
    statefulset: FakeStatefulSet,
    rollout: Rollout,
    where: Callable[[], str],
) -> None:
    """Check that no step starts more groups than a multiple of the ready ones allows."""
    by_index = {state.index: state for state in states if state.index < statefulset.replicas}
    updated = [state for state in by_index.values() if not state.outdated]
    is_current = statefulset.revision == wish.revision
    moved = statefulset.partition if is_current else rollout.partition
    on_their_way = [
        index
        for index in range(moved, statefulset.replicas)
        if index not in by_index or (by_index[index].outdated and by_index[index].terminating)
    ]
    newly = set(rollout.replace) | set(range(statefulset.replicas, rollout.replicas))
    newly |= {
        i for i in range(rollout.partition, statefulset.partition) if i in by_index and by_index[i].outdated
    }
    if newly - set(on_their_way):
        most = max(strategy.seed, strategy.growth * sum(state.settled for state in states))
        assert len(updated) + len(newly | set(on_their_way)) <= most, where()
