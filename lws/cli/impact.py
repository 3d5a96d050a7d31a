"""Predict which groups of a LeaderWorkerSet a change restarts, adds and removes, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lws.cli.screen import Text
from lws.kube.comparison import explain
from lws.kube.metadata import LAST_APPLIED_ANNOTATION, annotations_of, labels_of, without
from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.assessment import Assessment, assess
from lws.leaderworkerset.assessment.prewarm import describe_prewarming
from lws.leaderworkerset.left_alone import scheduler_seen, why_left_alone
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.leaderworkerset.revisions.history import describe, record
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.rollout import state
from lws.leaderworkerset.rollout.state import format_count, format_groups
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws.runtime.actions import Object

_RECORDED = ("leaderWorkerTemplate", "networkConfig")


@dataclass(frozen=True)
class Impact:
    """The consequences of a change.

    before, after: the assessments of the set. left_alone: why the controller ignores the set after the
    change; empty if it does not. template: changes that affect pods, one line each; at_once: all others.
    restarts: groups that a rollout restarts because of the change; restart_anyway: those that the current
    rollout restarts with or without it. recreated: group that is recreated at once → reason; unknown: group
    of which this cannot be predicted → reason. added, removed: groups that the change of `replicas` creates
    and deletes. prewarm: how nodes are prepared before the rollout; empty if they are not.
    """

    before: Assessment
    after: Assessment
    left_alone: str = ""
    template: tuple[str, ...] = ()
    at_once: tuple[str, ...] = ()
    restarts: tuple[int, ...] = ()
    restart_anyway: tuple[int, ...] = ()
    recreated: Mapping[int, str] = field(default_factory=dict)
    unknown: Mapping[int, str] = field(default_factory=dict)
    added: range = range(0)
    removed: range = range(0)
    prewarm: str = ""

    def named(self, groups: Collection[int]) -> str:
        """Name groups by their indices. Hash groups have none, so name only their number."""
        return format_groups(groups) if self.after.rollout.deployment is None else format_count(len(groups))

    @property
    def is_change(self) -> bool:
        return bool(self.template or self.at_once)

    @property
    def staying(self) -> tuple[int, ...]:
        return tuple(group.index for group in self.after.groups if not group.outdated and self.template)


def impact(
    snapshot: SetSnapshot,
    after: Object,
    recreated: Mapping[int, str] = MappingProxyType({}),
    unknown: Mapping[int, str] = MappingProxyType({}),
) -> Impact:
    """Return the impact of changing a set to `after`. recreated, unknown: see `Impact`."""
    now, then = assess(snapshot), assess(replace(snapshot, lws=after))
    is_rolling = now.target.key == then.target.key and not now.rollout.paused
    restart_anyway, outdated = now.rollout.outdated if is_rolling else (), then.rollout.outdated
    problem = why_left_alone(after, True, scheduler_seen(snapshot.lws), spec_fault(after))
    change = Impact(
        before=now,
        after=then,
        left_alone=problem.message if problem is not None else "",
        template=tuple(describe(record(snapshot.lws), record(after))),
        at_once=tuple(explain(_immediate(snapshot.lws), _immediate(after))),
    )
    if change.left_alone:
        return change
    return replace(
        change,
        restarts=tuple(index for index in outdated if index not in restart_anyway),
        restart_anyway=tuple(index for index in restart_anyway if index in outdated),
        recreated=recreated,
        unknown=unknown,
        added=range(now.rollout.replicas, then.rollout.replicas),
        removed=range(then.rollout.replicas, now.rollout.replicas),
        prewarm=describe_prewarming(snapshot.lws, after),
    )


def impact_lines(effect: Impact) -> Iterator[Text]:
    """Yield the impact in sentences, the first of which is a summary."""
    if effect.left_alone:
        yield Text(f"nothing happens: {effect.left_alone}", "bold red")
        return
    yield _verdict(effect)
    if effect.restarts and effect.prewarm:
        yield Text(f"  {effect.prewarm}")
    for index, why in sorted(effect.recreated.items()):
        yield Text(f"  group {index} is recreated at once: {why}", "red")
    for index, why in sorted(effect.unknown.items()):
        yield Text(f"  whether group {index} is recreated at once is unknown: {why}", "yellow")
    if pinned := effect.after.rollout.pinned:
        yield Text(f"  {state.pinned_reason(pinned)}")
    if (anyway := effect.restart_anyway) and effect.is_change:
        yield Text(f"  {effect.named(anyway)} {_verb(anyway)} anyway: a rollout is under way")
    if effect.added:
        yield Text(f"  {effect.named(effect.added)} will be created", "green")
    yield from change_lines(effect.template, effect.at_once)
    if effect.after.ownership in (Ownership.NAME_CLASH, Ownership.TERMINATING):
        yield Text("  another object has this name, or one that is being deleted: see `lws status`", "red")


def change_lines(template: Iterable[str], at_once: Iterable[str]) -> Iterator[Text]:
    """Yield the changes of templates, and the changes that take effect without a rollout."""
    for line in template:
        yield Text(f"  {line}", "yellow")
    for line in at_once:
        yield Text(f"  {line} (at once)")


def _verdict(effect: Impact) -> Text:
    now, then = effect.before.rollout, effect.after.rollout
    parts = []
    if effect.restarts:
        has_indices = then.deployment is None
        parts.append(state.restarts(effect.restarts, then.budget, then.paused, has_indices))
    if effect.recreated:
        parts.append(f"{effect.named(effect.recreated)} {_verb(effect.recreated)} at once")
    if effect.removed:
        parts.append(f"{effect.named(effect.removed)} {_verb(effect.removed, 'is', 'are')} removed")
    if parts:
        stay = ""
        if effect.staying and effect.restarts:
            verb = _verb(effect.staying, "stays as it is", "stay as they are")
            stay = f"; {effect.named(effect.staying)} {verb}"
        return Text("; ".join(parts) + stay, "bold red")
    if now.statefulset is None and then.statefulset is None and not now.groups:
        return Text(f"{format_count(then.replicas)} to be created; no pod is restarted", "bold green")
    if effect.unknown:
        return Text("no pod is restarted, as far as is known", "bold yellow")
    if effect.is_change:
        return Text("no pod is restarted", "bold green")
    if effect.restart_anyway:
        return Text(f"still to restart, by the rollout: {effect.named(effect.restart_anyway)}", "bold red")
    return Text("no pod is restarted: nothing changes", "bold green")


def _verb(groups: Sized, singular: str = "restarts", plural: str = "restart") -> str:
    return singular if len(groups) == 1 else plural


def _immediate(lws: Object) -> dict[str, object]:
    unrecorded = {key: value for key, value in lws["spec"].items() if key not in _RECORDED}
    template = lws["spec"].get("leaderWorkerTemplate") or {}
    live = {key: template[key] for key in LIVE if key in template}
    return {**unrecorded, **live, "metadata": metadata_beside_template(lws)}


def metadata_beside_template(obj: Object) -> Object:
    """Return the labels and annotations of a set or a role on which no pod template depends."""
    left_out = (*PLACEMENT_ANNOTATIONS, LAST_APPLIED_ANNOTATION)
    return {"labels": labels_of(obj), "annotations": without(annotations_of(obj), left_out)}
