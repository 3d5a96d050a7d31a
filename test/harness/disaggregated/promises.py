"""Check that every promise about a DisaggregatedSet was kept at every moment.

The checks know what is promised, and nothing of how it is kept. A manager sees other clients' changes a
moment later, so a write counts as wrong only if it was wrong in every scene that the manager may have seen:
any scene within `_UNSEEN_SECONDS`. Only managers change the number of groups of a child. Children that
another client deletes are named (`lost`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lws_api.disaggregatedset.v1 import KIND
from test.harness.disaggregated.scenes import Child, RoleKey, Scene, Step
from test.harness.world import SET

_UNSEEN_SECONDS = 3.0
# Users that delete pods as a result of what managers do; "" stands for an unknown user.
_OF_MANAGERS = frozenset(
    ("", "lws-controller-manager", "statefulset-controller", "generic-garbage-collector", "kwok")
)


@dataclass(frozen=True)
class Violation:
    """A broken promise.

    position: the position of the step that broke it.
    what: a description that begins with the name of the promise.
    """

    position: int
    what: str


@dataclass(frozen=True)
class _Write:
    """One child before and after a step that created, scaled or deleted it."""

    position: int
    step: Step
    recent: Sequence[Scene]
    before: Child | None
    after: Child | None

    @property
    def child(self) -> Child:
        child = self.after or self.before
        assert child is not None
        return child

    @property
    def had(self) -> int:
        return self.before.desired if self.before is not None else 0

    @property
    def has(self) -> int:
        return self.after.desired if self.after is not None else 0

    @property
    def is_of_target(self) -> bool:
        """Whether the child is of the target revision now or was a moment ago."""
        return any(scene.target == self.child.key for scene in self.recent)

    def violation(self, message: str) -> Violation:
        child = self.child
        return Violation(self.position, f"{message}: {child.name} {self.had} → {self.has}")


def violations(steps: Sequence[Step], lost: Collection[str] = ()) -> list[Violation]:
    """Return every broken promise.

    lost: names of children and keys of revisions that other clients have deleted.
    """
    broken: list[Violation] = []
    starts = _Starts()
    keys: dict[tuple[str, str], frozenset[str]] = {}
    for position, step in enumerate(steps):
        starts.follow(step.before, step.after)
        recent = _recent(steps, position)
        if step.kind == "Pod":
            broken += _restarts(position, step, recent, lost)
        if step.kind == KIND:
            broken += _said_too_early(position, step, recent)
        if step.kind != SET or step.before.asked is None:
            continue
        for write in _writes(position, step, recent):
            broken += [
                *_too_many(write),
                *_too_few(write, starts, lost),
                *_wrong_way(write, lost),
                *_unrecorded(write, keys, lost),
                *_halves(write, starts, lost),
                *_deletions(write, lost),
            ]
    return broken


class _Starts:
    """The children that existed when the target revision became the target."""

    def __init__(self) -> None:
        self.key = ""
        self.desired: dict[RoleKey, dict[str, int]] = {}
        self.had_groups: set[str] = set()

    def follow(self, before: Scene, after: Scene) -> None:
        self.had_groups |= {child.uid for child in after.children.values() if child.desired}
        if after.target == self.key or not after.target:
            return
        self.key, self.desired = after.target, {}
        for child in before.children.values():
            if not child.is_terminating:
                self.desired.setdefault(child.role_key, {})[child.name] = child.desired

    def initial(self, role_key: RoleKey, lost: Collection[str]) -> int:
        """Return the groups at that moment, without the groups of children that other clients have deleted
        since.
        """
        return sum(count for name, count in self.desired.get(role_key, {}).items() if name not in lost)


def _writes(position: int, step: Step, recent: Sequence[Scene]) -> Iterator[_Write]:
    before, after = step.before.children, step.after.children
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old.uid != new.uid:
            old = None
        if old is None or new is None or old.desired != new.desired:
            yield _Write(position, step, recent, old, new)


def _too_many(write: _Write) -> Iterator[Violation]:
    """Surge: no write raises a role above its target plus maxSurge."""
    if write.after is None or write.has <= write.had:
        return
    role_key = write.after.role_key
    most = max(scene.wish(role_key).ceiling for scene in write.recent)
    most = max(most, write.step.before.present(role_key))
    # A StatefulSet that is not scaled down yet may have created a pod that the manager has not seen.
    if (now := write.step.after.present(role_key, write.recent)) > most:
        yield write.violation(f"surge: {role_key} {now} > {most}")


def _too_few(write: _Write, starts: _Starts, lost: Collection[str]) -> Iterator[Violation]:
    """Floor: no write takes ready groups below min(initial, target) - maxUnavailable."""
    if write.has >= write.had or write.child.name in lost:
        return
    role_key = write.child.role_key
    targets = {scene.wish(role_key).target for scene in write.recent}
    if write.is_of_target and write.has in targets:
        # The target was lowered.
        return
    removed = range(write.has, write.had)
    if not all(
        scene.ready.get(write.child.name, frozenset()).intersection(removed) for scene in write.recent
    ):
        return
    initial = starts.initial(role_key, lost)
    worst = max(
        _serving(scene, write.step.after, role_key, lost)
        - (min(initial, scene.wish(role_key).target) - scene.wish(role_key).unavailable)
        for scene in write.recent
    )
    if worst < 0:
        yield write.violation(f"floor: {role_key} {-worst} groups too few, {initial} at the start")


def _serving(scene: Scene, after: Scene, role_key: RoleKey, lost: Collection[str]) -> int:
    """Count the ready groups of a scene that remain, given the desired groups afterwards."""
    total = 0
    for child in scene.at(role_key):
        now = after.children.get(child.name)
        desired = now.desired if now is not None and now.uid == child.uid else 0
        if now is None and child.name in lost:
            desired = child.desired
        total += sum(group < desired for group in scene.ready.get(child.name, ()))
    return total


def _wrong_way(write: _Write, lost: Collection[str]) -> Iterator[Violation]:
    """Direction: old counts never rise, and new counts fall only with their target."""
    if write.has > write.had and not write.is_of_target:
        if write.before is None and write.child.name in lost:
            return
        yield write.violation("direction: an old revision grows")
    targets = {scene.wish(write.child.role_key).target for scene in write.recent}
    is_only_target = all(scene.target == write.child.key for scene in write.recent)
    if write.after is not None and write.has < write.had and is_only_target and write.has not in targets:
        yield write.violation("direction: the new revision shrinks")


def _unrecorded(
    write: _Write, keys: dict[tuple[str, str], frozenset[str]], lost: Collection[str]
) -> Iterator[Violation]:
    """Record: no child has a key that no revision records, and no two templates share a key."""
    if write.before is not None or write.after is None:
        return
    is_recorded = any(write.after.key in scene.keys for scene in write.recent)
    if not is_recorded and write.after.key not in lost:
        yield write.violation("record: no revision has its key")
    images = keys.setdefault((write.after.key, write.after.role_key[1]), write.after.images)
    if images != write.after.images:
        yield write.violation(f"record: {sorted(images)} had the key of {sorted(write.after.images)}")


def _halves(write: _Write, starts: _Starts, lost: Collection[str]) -> Iterator[Violation]:
    """Pairs: while a revision lacks some of its roles, the next write is to that revision.

    The counts of one step are written one after another, so a revision may lack a role between two writes. If
    a role has no surge, its last old group may have to make room before the last groups of its siblings can
    be deleted (docs/design/disaggregated-rollout.md).
    """
    if write.has == write.had or write.after is None or write.before is None:
        return
    if write.has < write.had and write.is_of_target:
        return
    for key, role in half_revisions(write.step.before, write.child.role_key[0], starts.had_groups, lost):
        makes_room = write.step.before.wish((write.child.role_key[0], role)).surge == 0
        if key != write.child.key and not makes_room:
            yield write.violation(f"pairs: {key} has no {role} when another revision is written")


def half_revisions(
    scene: Scene, index: int, had_groups: Collection[str], lost: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return the keys that have groups of only some of their roles in a slice, each with a role that lacks
    groups although it had or needs some.

    had_groups: UIDs of the children that ever had groups.
    """
    by_key: dict[str, list[Child]] = {}
    for child in scene.children.values():
        if child.role_key[0] == index and not child.is_terminating:
            by_key.setdefault(child.key, []).append(child)
    halves = []
    for key, children in by_key.items():
        if not any(child.desired for child in children):
            continue
        for child in children:
            is_desired = (
                scene.wish(child.role_key).target > 0 if key == scene.target else child.uid in had_groups
            )
            if not child.desired and is_desired and child.name not in lost:
                halves.append((key, child.role_key[1]))
    return halves


def _deletions(write: _Write, lost: Collection[str]) -> Iterator[Violation]:
    """Reason: a child is deleted only if it has no groups or if its slice is removed."""
    if write.after is not None or write.before is None or write.child.name in lost:
        return
    index = write.child.role_key[0]
    specs = [scene.asked for scene in write.recent]
    if write.had and all(spec is not None and index < spec.slices for spec in specs):
        yield write.violation("reason: it is deleted with its groups")


def _restarts(
    position: int, step: Step, recent: Sequence[Scene], lost: Collection[str]
) -> Iterator[Violation]:
    """Reason: a pod is deleted because its child is deleted or scaled down, because it failed, or by another
    client.

    The StatefulSet of a lost child recreates pods while the garbage collector deletes the StatefulSet.
    """
    for name, pod in step.before.pods.items():
        now = step.after.pods.get(name)
        if pod.is_going or pod.is_damaged or (now is not None and now.uid == pod.uid and not now.is_going):
            continue
        children = [scene.children.get(pod.child) for scene in recent]
        stays = all(
            child is not None
            and child.uid == pod.born_of
            and not child.is_terminating
            and pod.group < child.desired
            for child in children
        )
        is_ours = step.who in _OF_MANAGERS and pod.child not in lost
        if stays and is_ours and step.before.asked is not None:
            yield Violation(position, f"reason: pod {name} was deleted although its group is desired")


def _said_too_early(position: int, step: Step, recent: Sequence[Scene]) -> Iterator[Violation]:
    """End: the condition Available becomes true only at the end of a rollout."""
    before, after = step.before.asked, step.after.asked
    if after is None or not after.is_done or (before is not None and before.is_done):
        return
    if not any(_is_done(scene) for scene in (*recent, step.after)):
        yield Violation(position, f"end: it is reported as available with {_counts(step.after)}")


def _is_done(scene: Scene) -> bool:
    ready_at: dict[RoleKey, int] = {}
    for child in scene.children.values():
        if child.key != scene.target and (child.desired or scene.leaders.get(child.name)):
            return False
        ready = scene.ready.get(child.name, frozenset())
        if child.key == scene.target and ready.issuperset(range(child.desired)):
            ready_at[child.role_key] = child.desired
    return all(ready_at.get(role_key, 0) == wish.target for role_key, wish in scene.wishes.items())


def _counts(scene: Scene) -> list[str]:
    return sorted(
        f"{child.name}: {len(scene.ready.get(child.name, ()))} of {child.desired} ready"
        for child in scene.children.values()
    )


def described(steps: Sequence[Step], last: int = 40) -> list[str]:
    """Describe the last steps: what changed, and the state of the set afterwards."""
    return [
        f"{step.at:.1f} {step.who} {step.kind} {step.name} → {step.after.target}: "
        f"{', '.join(_counts(step.after))}"
        for step in steps[-last:]
    ]


def _recent(steps: Sequence[Step], position: int) -> list[Scene]:
    """Return the scenes before a step that a manager may still see: the last scene, and all scenes of
    `_UNSEEN_SECONDS`.
    """
    scenes = [steps[position].before]
    since = steps[position].at - _UNSEEN_SECONDS
    for step in reversed(steps[:position]):
        if step.at < since:
            break
        scenes.append(step.before)
    return scenes
