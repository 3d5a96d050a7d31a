"""A rollout in virtual time: our planner and our pacing, the fake StatefulSet controller, and slow groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lws import timing
from lws.leaderworkerset.rollout.plan import is_small_step, plan_rollout
from lws.leaderworkerset.rollout.state import Rollout, make_budget
from lws.runtime.actions import Action, Apply, Delete, Plan, Postponable, Reference
from lws.runtime.throttle import Throttle
from test.bench.paced.figures import Turn, ideal, utilisation
from test.unit.stories.story import Story, Wish, check

_TICK = 0.01
_LEADERS = Reference("apps/v1", "StatefulSet", "ns", "demo", "leaders")


@dataclass(frozen=True)
class Delays:
    """Delays in seconds, by default as in a quiet cluster.

    sync: until the StatefulSet controller reacts. going: from our deletion of a leader until its group is
    gone. seen: until the manager learns of a change.
    """

    sync: float = 0.03
    going: float = 0.15
    seen: float = 0.01


@dataclass(frozen=True)
class Pace:
    """The results of a rollout.

    steps: number of partitions that the StatefulSet got.
    """

    utilisation: float
    of_ideal: float
    seconds: float
    steps: int
    restarted_twice: int


@dataclass
class Paced:
    """One rollout from A to B.

    seconds_of: a function that returns how long the group with an index takes to become ready.
    """

    wish: Wish
    seconds_of: Callable[[int], float]
    has_feature: bool = False
    delays: Delays = field(default_factory=Delays)
    rest: float = timing.MIN_PASS_DELAY_SECONDS

    def __post_init__(self) -> None:
        self._now = 0.0
        self._story = Story(self.wish, self.has_feature).settled("A")
        self._throttle = Throttle(lambda: self._now)
        self._born: dict[int, float] = {}
        self._dying: dict[int, float] = {}
        self._taken: dict[int, float] = {}
        self._ready: dict[int, float] = {}
        self._steps = 0
        self._again = 0
        self._passed_at = -100.0
        self._look_at: float | None = 0.0
        self._sync_at: float | None = None

    def play(self, longest: float = 20_000.0) -> Pace:
        self._story.wish.revision = "B"
        while not self._story.is_finished:
            self._pods()
            self._sync()
            self._look()
            self._now = min(self._events(), default=longest + 1)
            assert self._now <= longest, self._story.states
        limits = make_budget(self.wish.replicas, self.wish.unavailable, self.wish.surge)
        slots = limits.unavailable + limits.surge
        turns = [Turn(self._taken[index], ready) for index, ready in self._ready.items()]
        order = sorted(self._taken, reverse=True)
        best = ideal([self.seconds_of(index) for index in order], slots)
        seconds = max(self._ready.values())
        return Pace(utilisation(turns, slots, 0.0), best / seconds, seconds, self._steps, self._again)

    @property
    def _statefulset(self):
        assert self._story.statefulset is not None
        return self._story.statefulset

    def _events(self) -> list[float]:
        later = [self._look_at, self._sync_at]
        later += [at + self.delays.going for at in self._dying.values()]
        later += [
            self._born[pod.uid] + self.seconds_of(index)
            for index, pod in self._statefulset.pods.items()
            if pod.uid in self._born and not pod.workers_ready and not pod.terminating
        ]
        return [max(at, self._now + 1e-6) for at in later if at is not None]

    def _pods(self) -> None:
        changed = False
        pods = self._statefulset.pods
        for index, pod in list(pods.items()):
            if pod.terminating:
                if pod.uid not in self._dying:
                    self._dying[pod.uid] = self._now
                    changed = True
                if self._now >= self._dying[pod.uid] + self.delays.going - 1e-9:
                    del pods[index], self._dying[pod.uid]
                    changed = True
            elif not pod.workers_ready and self._now >= self._born[pod.uid] + self.seconds_of(index) - 1e-9:
                pod.formed = pod.leader_ready = pod.workers_ready = True
                if pod.revision == "B":
                    self._ready[index] = self._now
                changed = True
        if changed:
            self._news()

    def _news(self) -> None:
        if self._sync_at is None:
            self._sync_at = self._now + self.delays.sync
        self._wake()

    def _wake(self) -> None:
        at = max(self._now + self.delays.seen, self._passed_at + self.rest)
        self._look_at = at if self._look_at is None else min(self._look_at, at)

    def _sync(self) -> None:
        if self._sync_at is None or self._now < self._sync_at - 1e-9:
            return
        self._sync_at = None
        former_uids = {pod.uid for pod in self._statefulset.pods.values()}
        if self._story.sync():
            for index, pod in self._statefulset.pods.items():
                if pod.uid not in former_uids:
                    self._born[pod.uid] = self._now
                    if pod.revision == "B":
                        self._taken.setdefault(index, self._now)
                    else:
                        self._again += 1
            self._pods()
            self._news()

    def _look(self) -> None:
        if self._look_at is None or self._now < self._look_at - 1e-9:
            return
        self._look_at, self._passed_at = None, self._now
        story, statefulset = self._story, self._statefulset
        states = story.states
        state = story._rollout_state(states)
        rollout = plan_rollout(state)
        check(self.wish, states, statefulset, rollout)
        stored = state.statefulset
        assert stored is not None
        deletes = [
            Delete(Reference("v1", "Pod", "ns", str(index), str(index)), "Foreground", "it moves")
            for index in rollout.within(stored).replace
        ]
        is_changed = (rollout.replicas, rollout.partition) != (statefulset.replicas, statefulset.partition)
        is_changed |= statefulset.revision != self.wish.revision
        applying = [Apply({"kind": "StatefulSet"}, why=rollout.why)] if is_changed else []
        postponable = (Postponable(_LEADERS, tuple(applying)),) if is_small_step(state, rollout) else ()
        plan = self._throttle.due(Plan(((*deletes, *applying),), postponable=postponable))
        for action in plan.sequences[0] if plan.sequences else ():
            self._carry_out(action, rollout)
        if plan.again_after is not None:
            at = self._now + plan.again_after
            self._look_at = at if self._look_at is None else min(at, self._look_at)

    def _carry_out(self, action: Action, rollout: Rollout) -> None:
        statefulset = self._statefulset
        if isinstance(action, Delete):
            index = int(action.target.name)
            statefulset.pods[index].terminating = True
            self._taken.setdefault(index, self._now)
            self._pods()
            return
        self._steps += 1
        self._story._apply(statefulset, rollout)
        self._throttle.record_write(
            {"kind": "StatefulSet", "metadata": {"uid": "leaders"}, "spec": {"replicas": rollout.replicas}}
        )
        self._news()
