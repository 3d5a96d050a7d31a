"""Predict which groups of a DisaggregatedSet a change restarts, adds and removes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lws.cli.blocks import Text
from lws.disaggregatedset.children.upkeep import waiting_edits
from lws.disaggregatedset.revisions.diff import describe
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.revisions.target import TargetRevision, target_revision
from lws.disaggregatedset.rollout.outlook import of_roles, restarts
from lws.disaggregatedset.slices.targets import RoleTargets
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.kube.differences.comparison import explain
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.leaderworkerset.rollout.reasons import counted
from lws.runtime.actions import Object

_TEMPLATE = fields.TEMPLATE.name
_APART = frozenset({"roles", "placementPolicy"})
_OF_ROLES_APART = frozenset({fields.REPLICAS.name, fields.NETWORK.name, _TEMPLATE})


@dataclass(frozen=True)
class DisaggregatedImpact:
    """What a change does.

    before, after: the target revision as it is and as it would be. counts: groups of each role over all
    slices, before and after; None where its scaler is missing. restarts: groups of each role that are on
    other revisions. staying: groups that run the target revision already. template: what changes in what pods
    depend on, a line each. at_once: what changes besides. waiting: paths of what waits for the next revision.
    """

    before: TargetRevision
    after: TargetRevision
    counts: Mapping[str, tuple[int | None, int | None]]
    restarts: Mapping[str, int]
    staying: int
    is_paused: bool
    template: tuple[str, ...] = ()
    at_once: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """The rollout has begun before the change, and goes on."""
        return self.before.key == self.after.key and not self.template


def impact(snapshot: DisaggregatedSnapshot, after: Object) -> DisaggregatedImpact:
    """What it does to a set to become `after`."""
    changed = replace(snapshot, obj=after)
    now, then = target_revision(snapshot), target_revision(changed)
    spec = parse(after)
    before = RoleTargets(snapshot, parse(snapshot.obj), now.key).in_all()
    wanted = RoleTargets(changed, spec, then.key).in_all()
    children = [
        child for child in snapshot.children if not child.is_leaving and child.slice_index < spec.slices
    ]
    restarts: dict[str, int] = {}
    for child in children:
        if child.key != then.key and child.wanted and spec.role(child.role):
            restarts[child.role] = restarts.get(child.role, 0) + child.wanted
    return DisaggregatedImpact(
        before=now,
        after=then,
        counts={role: (before.get(role, 0), wanted.get(role, 0)) for role in (*wanted, *before)},
        restarts=restarts,
        staying=sum(child.wanted for child in children if child.key == then.key),
        is_paused=spec.paused,
        template=tuple(describe(record(snapshot.obj), record(after))),
        at_once=tuple(_at_once(snapshot.obj["spec"], after["spec"])),
        waiting=waiting_edits(spec, then.content.record.spec),
    )


def impact_lines(what: DisaggregatedImpact) -> Iterator[Text]:
    """The impact in sentences; the first one says it all."""
    yield _verdict(what)
    for role, (before, after) in what.counts.items():
        if before is None or after is None or before == after:
            continue
        if not after:
            yield Text(f"  role {role} loses all of its groups ({before})", "red")
        else:
            yield Text(f"  role {role} is to have {counted(after)} instead of {before}", "green")
    for line in what.template:
        yield Text(f"  {line}", "yellow")
    for line in what.at_once:
        yield Text(f"  {line} (at once)")
    for path in what.waiting:
        yield Text(f"  {path} waits for the next revision; `restart` brings it", "yellow")


def _verdict(what: DisaggregatedImpact) -> Text:
    if not what.restarts:
        is_scaled = any(before != after for before, after in what.counts.values())
        is_change = is_scaled or what.template or what.at_once or what.waiting
        unchanged = "" if is_change else ": nothing changes"
        return Text(f"no pod is restarted{unchanged}", "bold green")
    restart = restarts(what.restarts, what.is_paused, what.is_under_way)
    stay = f"; {counted(what.staying)} {'stays as it is' if what.staying == 1 else 'stay as they are'}"
    return Text(f"{restart}{stay if what.staying else ''}", "bold red")


def creation(obj: Object, now: datetime) -> Iterator[Text]:
    """What comes of a set that does not exist yet."""
    spec, snapshot = parse(obj), DisaggregatedSnapshot(obj, now)
    key = target_revision(snapshot).key
    wanted = RoleTargets(snapshot, spec, key)
    counts: dict[str, int] = {}
    for index in range(spec.slices):
        for target in wanted.in_slice(index, None).targets:
            counts[target.name] = counts.get(target.name, 0) + target.target
    pods = sum(counts[role.name] * int(fields.SIZE.of({"spec": role.spec}) or 1) for role in spec.roles)
    yield Text(f"new: {of_roles(counts)}, {pods} pods in all, under key {key}", "bold green")
    for role in spec.roles:
        if role.start_after:
            yield Text(
                f"  {role.name} is created once there is a ready group of {', '.join(role.start_after)}"
            )


def _at_once(before: Object, after: Object) -> Iterator[str]:
    """What takes effect without a rollout; numbers of groups are told apart."""
    rest = [{key: value for key, value in obj.items() if key not in _APART} for obj in (before, after)]
    yield from explain(*rest)
    former = {role["name"]: role for role in before["roles"]}
    for role in after["roles"]:
        if role_before := former.get(role["name"]):
            lines = explain(_beside_template(role_before), _beside_template(role))
            yield from (f"role {role['name']} {line}" for line in lines)


def _beside_template(role: Object) -> Object:
    spec, template = role["spec"], role["spec"].get(_TEMPLATE) or {}
    return {
        **{key: value for key, value in role.items() if key not in ("name", "spec")},
        **{key: value for key, value in spec.items() if key not in _OF_ROLES_APART},
        **{key: template[key] for key in LIVE if key in template},
    }
