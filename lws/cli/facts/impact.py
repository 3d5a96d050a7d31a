"""Predict which groups of a set a change restarts, adds and removes, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lws.cli.blocks import Text
from lws.kube.differences.comparison import explain
from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.assessment import Assessment, assess
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.leaderworkerset.revisions.history import describe, record
from lws.leaderworkerset.rollout import outlook
from lws.leaderworkerset.rollout.reasons import counted, named
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Delete, Object

_RECORDED = ("leaderWorkerTemplate", "networkConfig")


@dataclass(frozen=True)
class Impact:
    """What a change does.

    before, after: the set as it is and as it would be. left_alone: why the controller does not act on it, if
    it does not. template: what changes in what pods depend on, a line each. at_once: what changes besides.
    restarts: groups that the change restarts, by a rollout. moving: groups that restart anyway, by the
    rollout that is under way. recreated: groups that restart at once, with the reason. unknown: groups of
    which nobody can say that, with the reason.
    """

    before: Assessment
    after: Assessment
    left_alone: str = ""
    template: tuple[str, ...] = ()
    at_once: tuple[str, ...] = ()
    restarts: tuple[int, ...] = ()
    moving: tuple[int, ...] = ()
    recreated: Mapping[int, str] = field(default_factory=dict)
    unknown: Mapping[int, str] = field(default_factory=dict)

    @property
    def added(self) -> range:
        """Groups that are made."""
        return range(self.before.rollout.replicas, self.after.rollout.replicas)

    @property
    def removed(self) -> range:
        """Groups that go."""
        return range(self.after.rollout.replicas, self.before.rollout.replicas)

    @property
    def staying(self) -> tuple[int, ...]:
        """Groups that run the new template already."""
        return tuple(group.index for group in self.after.groups if not group.outdated and self.template)


def impact(
    snapshot: SetSnapshot,
    groups: Mapping[int, GroupSnapshot],
    after: Object,
    unknown: Mapping[int, str] = MappingProxyType({}),
) -> Impact:
    """What it does to a set to become `after`; groups: by index, for what does not wait for a rollout.
    unknown: why others are not among them.
    """
    now, then = assess(snapshot), assess(replace(snapshot, lws=after))
    is_rolling = now.target.key == then.target.key and not now.rollout.paused
    moving, outdated = now.rollout.outdated if is_rolling else (), then.rollout.outdated
    problem = why_left_alone(after, is_covered=True)
    return Impact(
        before=now,
        after=then,
        left_alone=problem.message if problem is not None else "",
        template=tuple(describe(record(snapshot.lws), record(after))),
        at_once=tuple(explain(_immediate(snapshot.lws), _immediate(after))),
        restarts=tuple(index for index in outdated if index not in moving),
        moving=tuple(index for index in moving if index in outdated),
        recreated=_recreated(groups, after),
        unknown=unknown,
    )


def impact_lines(what: Impact) -> Iterator[Text]:
    """The impact in sentences; the first one says it all."""
    if what.left_alone:
        yield Text(f"nothing happens: {what.left_alone}", "bold red")
        return
    yield _verdict(what)
    for index, why in sorted(what.recreated.items()):
        yield Text(f"  group {index} is recreated at once: {why}", "red")
    for index, why in sorted(what.unknown.items()):
        yield Text(f"  whether group {index} is recreated at once is unknown: {why}", "yellow")
    if pinned := what.after.rollout.pinned:
        yield Text(f"  {outlook.pinned(pinned)}")
    if what.moving:
        yield Text(f"  {named(what.moving)} {_verb(what.moving)} anyway: a rollout is under way")
    if what.added:
        yield Text(f"  {named(what.added)} will be created", "green")
    for line in what.template:
        yield Text(f"  {line}", "yellow")
    for line in what.at_once:
        yield Text(f"  {line} (at once)")
    if what.after.ownership in (Ownership.CLASH, Ownership.LEAVING):
        yield Text("  a StatefulSet of this name is in the way: see `status`", "red")


def _verdict(what: Impact) -> Text:
    now, then = what.before.rollout, what.after.rollout
    parts = []
    if what.restarts:
        parts.append(outlook.restarts(what.restarts, then.budget, then.paused))
    if what.recreated:
        parts.append(f"{named(what.recreated)} {_verb(what.recreated)} at once")
    if what.removed:
        parts.append(f"{named(what.removed)} {_verb(what.removed, 'is', 'are')} removed")
    if parts:
        stay = ""
        if what.staying and what.restarts:
            stay = f"; {named(what.staying)} {_verb(what.staying, 'stays as it is', 'stay as they are')}"
        return Text("; ".join(parts) + stay, "bold red")
    if now.statefulset is None and then.statefulset is None:
        return Text(f"{counted(then.replicas)} to be created; no pod is restarted", "bold green")
    if what.unknown:
        return Text("no pod is restarted, as far as is known", "bold yellow")
    has_change = what.template or what.at_once
    return Text("no pod is restarted" if has_change else "no pod is restarted: nothing changes", "bold green")


def _verb(groups: Sized, one: str = "restarts", many: str = "restart") -> str:
    return one if len(groups) == 1 else many


def _recreated(groups: Mapping[int, GroupSnapshot], after: Object) -> dict[int, str]:
    """Groups that the controller would delete as soon as it sees the change, and would not today."""
    reasons = {}
    for index, group in groups.items():
        today, then = (_deletion(state) for state in (group, replace(group, lws=after)))
        if then is not None and today is None:
            reasons[index] = then.why
    return reasons


def _deletion(group: GroupSnapshot) -> Delete | None:
    actions = (action for sequence in plan_group(group).sequences for action in sequence)
    return next((action for action in actions if isinstance(action, Delete)), None)


def _immediate(lws: Object) -> dict[str, object]:
    """What takes effect without a rollout."""
    rest = {key: value for key, value in lws["spec"].items() if key not in _RECORDED}
    template = lws["spec"].get("leaderWorkerTemplate") or {}
    return {**rest, **{key: template[key] for key in LIVE if key in template}}
