"""`lws plan`: predict, without a write, which groups a manifest would restart, why, and in which steps."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO

import click

from lws.cli.arguments import EXIT_CODES, cluster_options, output_option, set_argument
from lws.cli.commands.restart import restart_patch
from lws.cli.histories import all_of
from lws.cli.impact import Impact, change_lines, impact, impact_lines, metadata_beside_template
from lws.cli.manifests import as_stored, sets_in, title_of
from lws.cli.screen import Block, Table, Text, dump, row, show, warn
from lws.cli.session import ClusterOptions, Refusal, Session, connected, run, worded
from lws.cli.sets import RESOURCES, NamedSet, changed, find, kind_of, print_names, readable
from lws.cli.states import snapshot_of
from lws.cli.steps_ahead import Counts, StepAhead, StepsAhead, steps_ahead
from lws.disaggregatedset.children.upkeep import waiting_edits
from lws.disaggregatedset.revisions import record as roles_record
from lws.disaggregatedset.rollout import state as roles_outlook
from lws.disaggregatedset.slices.state import RoleTargets
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.disaggregatedset.target import target_revision
from lws.kube.comparison import explain
from lws.kube.metadata import LAST_APPLIED_ANNOTATION, annotations_of, copied, labels_of, without
from lws.kube.patches import with_merged
from lws.leaderworkerset import fields
from lws.leaderworkerset.assessment.assessment import assess, initial_rollout
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import scheduler_seen, why_left_alone
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.simulation import SimulatedStep, Simulation, simulate
from lws.leaderworkerset.rollout.state import RolloutState, format_count, statefulset_max_unavailable
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec, has_hash_groups
from lws.runtime.actions import Delete, Object, Reference
from lws.runtime.client.kubeconfig import NoCluster
from lws.runtime.errors import ClusterError, Conflict, Forbidden, NotFound
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.v1 import KIND

_WORDS = {"created": "would be created", "configured": "would be changed", "unchanged": "unchanged"}
_TEMPLATE = fields.LEADER_WORKER_TEMPLATE.name
_APART = frozenset({"roles", "placementPolicy"})
_OF_ROLES_APART = frozenset(
    {
        fields.REPLICAS.name,
        fields.NETWORK_CONFIG.name,
        fields.GROUP_IDENTITY.name,
        fields.SCHEDULING.name,
        _TEMPLATE,
    }
)
_LATER = Text("a later update of all its groups:")
_PACED_BY_DEPLOYMENT = Text("steps: the Deployment controller paces rollouts of Hash groups")


@dataclass(frozen=True)
class Planned:
    """What an apply would do to one set.

    obj: the set as it would be stored. action: `created`, `configured` or `unchanged`, as in kubectl. blocks:
    what is shown below the headline. data: the plan as data.
    """

    obj: Object
    action: str
    blocks: tuple[Block, ...]
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of the apply that is planned. steps: whether to show the steps of the rollout."""

    steps: bool = False
    server_side: bool = False
    force_conflicts: bool = False


@click.command(
    short_help="Show what `kubectl apply` would do to sets, or what a set is about to do.", epilog=EXIT_CODES
)
@set_argument(required=False)
@click.option("-f", "--filename", type=click.File("rb"), help="Manifest (YAML or JSON), or - for stdin.")
@click.option("--steps", is_flag=True, help="Show the steps of the rollout.")
@click.option("--server-side", is_flag=True, help="Plan `kubectl apply --server-side`.")
@click.option("--force-conflicts", is_flag=True, help="Take fields from other managers (with --server-side).")
@output_option("json", "yaml", "name")
@cluster_options
def plan(
    name: NamedSet | None,
    filename: BinaryIO | None,
    steps: bool,
    output: str | None,
    target: ClusterOptions,
    **manner: bool,
) -> int:
    """Show what `kubectl apply` of a manifest would do to the sets in it, or what is ahead of a set as it is.

    Nothing is changed: the API server gets a dry run. If no cluster is configured, plan shows what would be
    created, and --steps shows a later update of all groups.
    """
    how = PlanOptions(steps=steps, **manner)
    if (name is None) == (filename is None):
        raise click.UsageError("either NAME or '-f' / '--filename' is required")
    if how.server_side and filename is None:
        raise click.UsageError("--server-side requires '-f' / '--filename'")
    if how.force_conflicts and not how.server_side:
        raise click.UsageError("--force-conflicts requires --server-side")
    if name is not None:
        _print([run(target, lambda session: _ahead(session, name, steps))], output)
    elif filename is not None:
        _print(_of_manifest(filename, how, target), output)
    return 0


def _of_manifest(filename: BinaryIO, options: PlanOptions, target: ClusterOptions) -> Sequence[Planned]:
    manifests = list(sets_in(filename))
    if not manifests:
        raise Refusal(
            f"{title_of(filename)} holds no {' and no '.join(resource.kind for resource in RESOURCES)}"
        )

    async def plan_all(session: Session) -> Sequence[Planned]:
        return [await _planned(session, _placed(manifest, session), options) for manifest in manifests]

    try:
        return asyncio.run(connected(target, plan_all))
    except NoCluster as error:
        warn(f"{error.message}; without a cluster, only creation can be planned")
        return [_without_cluster(manifest, options.steps) for manifest in manifests]
    except ClusterError as error:
        raise worded(error) from error


def _print(plans: Sequence[Planned], output: str | None) -> None:
    if output == "name":
        print_names(planned.obj for planned in plans)
    elif output is not None:
        dump({"items": [planned.data for planned in plans]}, output)
    else:
        for planned in plans:
            show([changed(planned.obj, _WORDS[planned.action]), *planned.blocks])


async def _ahead(session: Session, name: NamedSet, steps: bool) -> Planned:
    obj = await find(session, name)
    return await _PLANS[obj["kind"]].changed(session, obj, obj, steps)


async def _planned(session: Session, manifest: Object, options: PlanOptions) -> Planned:
    kind = manifest["kind"]
    try:
        stored = await session.cluster.get(kind, manifest["metadata"]["namespace"], _name_of(manifest))
    except NotFound:
        created = readable(await _tried(session, manifest, None, options))
        return _PLANS[kind].created(created, session.now, options.steps)
    written = await _tried(session, manifest, stored, options)
    stored_fault, fault = kind_of(stored).fault(stored), kind_of(written).fault(written)
    if fault:
        is_kept = fault == stored_fault
        what = "the stored set has it, and this apply would keep it" if is_kept else "remove it"
        raise Refusal(f"set {_name_of(manifest)} could not be read after this apply: {fault}; {what}")
    after = readable(written)
    if not stored_fault:
        return await _PLANS[kind].changed(session, stored, after, options.steps)
    # Nobody has acted on the stored spec, so what follows is what is ahead of the corrected one.
    planned = await _PLANS[kind].changed(session, after, after, options.steps)
    line = Text(f"corrects the stored set, which is left alone: {stored_fault}", "bold green")
    data = {**planned.data, "action": "configured"}
    return replace(planned, action="configured", blocks=(line, *planned.blocks), data=data)


async def _tried(
    session: Session, manifest: Object, stored: Object | None, options: PlanOptions
) -> dict[str, Any]:
    try:
        if options.server_side:
            return await session.cluster.try_apply(manifest, force=options.force_conflicts)
        if stored is None:
            return await session.cluster.try_create(manifest)
        return await session.cluster.try_merge(Reference.to(stored), apply_patch(manifest, stored))
    except NotFound as error:
        raise Refusal(
            f"the server rejected it: {error.message.strip()}; is the chart installed, and is there a "
            f"namespace {manifest['metadata']['namespace']}?"
        ) from error
    except Conflict as error:
        raise Refusal(f"{error.message} (--force-conflicts takes the fields)") from error
    except Forbidden as error:
        # The message is from RBAC, and `worded` handles it.
        if " cannot " in error.message:
            raise
        raise Refusal(f"it would be rejected: {error.message}") from error


def _without_cluster(manifest: dict[str, Any], steps: bool) -> Planned:
    _name_of(manifest)
    return _PLANS[manifest["kind"]].created(as_stored(manifest), datetime.now(UTC), steps)


def _placed(manifest: dict[str, Any], session: Session) -> dict[str, Any]:
    """Return the manifest with its namespace. Raises a Refusal if -n names another one, as kubectl does."""
    name, written = _name_of(manifest), manifest["metadata"].get("namespace")
    if written is not None and session.explicit_namespace not in (None, written):
        raise Refusal(
            f"set {name} is for namespace {written} by its manifest, and -n says {session.explicit_namespace}"
        )
    namespace = written or session.namespace
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _name_of(manifest: Object) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise Refusal("a set in the manifest has no metadata.name: plan needs to know which one is meant")
    return name


def apply_patch(manifest: Object, stored: Object) -> dict[str, Any]:
    """Return the merge patch of `kubectl apply` (RFC 7386).

    It contains fields of the manifest that differ from the stored ones, and null for fields that only the
    last applied manifest had. Fields that others set, such as defaults, stay. Lists are replaced as a whole.
    """
    metadata = manifest["metadata"]
    # There are always annotations, because kubectl's own record is one, which it replaces. The API server
    # reports invalid ones.
    written = metadata.get("annotations")
    annotations = {} if written is None else written
    if isinstance(written, Mapping):
        annotations = without(written, (LAST_APPLIED_ANNOTATION,))
    desired = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    return _merge(last_applied(stored), desired, stored)


def last_applied(stored: Object) -> Mapping[str, Any]:
    """Return the manifest that kubectl applied last; empty if there is none."""
    text = annotations_of(stored).get(LAST_APPLIED_ANNOTATION)
    try:
        manifest = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        # kubectl reports invalid JSON with a better error.
        return {}
    return manifest if isinstance(manifest, Mapping) else {}


def _merge(original: Any, desired: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    before: Mapping[str, Any] = original if isinstance(original, Mapping) else {}
    patch: dict[str, Any] = {}
    for key, value in desired.items():
        actual = stored.get(key)
        if isinstance(value, Mapping) and isinstance(actual, Mapping):
            below = _merge(before.get(key), value, actual)
            if below:
                patch[key] = below
        elif value != actual:
            patch[key] = value
    for key in before:
        if desired.get(key) is None and stored.get(key) is not None:
            patch[key] = None
    return patch


@dataclass(frozen=True, slots=True)
class _Plans:
    """Plans for one kind: of a new set, on request with a later update, and of a change of a stored set."""

    created: Callable[[Object, datetime, bool], Planned]
    changed: Callable[[Session, Object, Object, bool], Awaitable[Planned]]


def _names(obj: Object, action: str) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {"name": metadata["name"], "namespace": metadata["namespace"], "action": action}


def _action(stored: Object, after: Object) -> str:
    # A server-side apply may change kubectl's own annotation, too.
    tools = (LAST_APPLIED_ANNOTATION,)
    before, now = (
        (obj["spec"], labels_of(obj), without(annotations_of(obj), tools)) for obj in (stored, after)
    )
    return "unchanged" if now == before else "configured"


def created_set(lws: Object, now: datetime, steps: bool) -> Planned:
    """Plan a LeaderWorkerSet that does not exist yet."""
    spec, key = SetSpec.of(lws), record(lws).key
    replicas, size = spec.replicas, spec.size
    if problem := why_left_alone(lws, True, scheduler_seen(lws)):
        nothing = {"key": key, "replicas": replicas, "added": [], "leftAlone": problem.message}
        line = Text(f"new, and nothing happens: {problem.message}", "bold red")
        return Planned(lws, "created", (line,), {**_names(lws, "created"), **nothing})
    pods = f"{format_count(replicas)} of {size} pod{'' if size == 1 else 's'}"
    blocks: list[Block] = [Text(f"new: {pods}, {replicas * size} in all, under key {key}", "bold green")]
    data = {**_names(lws, "created"), "key": key, "replicas": replicas, "added": list(range(replicas))}
    if steps and has_hash_groups(lws):
        blocks.append(_PACED_BY_DEPLOYMENT)
    elif steps:
        simulation = simulate(update_when_ready(lws, now))
        blocks += [_LATER, *steps_blocks(simulation)]
        data |= steps_data(simulation)
    return Planned(lws, "created", tuple(blocks), data)


def update_when_ready(lws: Object, now: datetime) -> RolloutState:
    """Return the state of a set whose groups are all ready and whose template has just been changed."""
    state = assess(SetSnapshot(lws=copied(lws), now=now)).rollout
    groups = tuple(
        GroupState(index, ready=True, outdated=True, leader_ready=True, replaceable=True)
        for index in range(state.replicas)
    )
    stored = LeaderStatefulSet(
        replicas=state.replicas, partition=state.floor, last_replicas=state.replicas, is_current=False
    )
    return replace(state, groups=groups, statefulset=stored)


async def _changed_set(session: Session, stored: Object, after: Object, steps: bool) -> Planned:
    objects = await all_of(session, stored)
    effect = impact(objects.snapshot, after, recreated(objects.groups, after), objects.unknown)
    action = _action(stored, after)
    if not steps and after is stored and (waiting_for := plan_set(objects.snapshot).waiting_for):
        planned = changed_set(after, action, effect, None)
        return replace(planned, blocks=(*planned.blocks, Text(f"waits for {waiting_for}", "yellow")))
    if effect.left_alone or not steps:
        return changed_set(after, action, effect, None)
    if has_hash_groups(after):
        planned = changed_set(after, action, effect, None)
        return replace(planned, blocks=(*planned.blocks, _PACED_BY_DEPLOYMENT))
    begins = initial_rollout(replace(objects.snapshot, lws=after), effect.after)
    limit = statefulset_max_unavailable(SetSpec.of(after))
    simulation = simulate(replace(effect.after.rollout, prewarming=""), begins, limit)
    return changed_set(after, action, effect, simulation)


def changed_set(after: Object, action: str, effect: Impact, simulation: Simulation | None) -> Planned:
    """Plan the change of an existing LeaderWorkerSet. simulation: its rollout; None to show no steps."""
    blocks: list[Block] = list(impact_lines(effect))
    data = {
        **_names(after, action),
        "key": effect.after.target.key,
        "replicas": SetSpec.of(after).replicas,
        "added": list(effect.added),
        "removed": list(effect.removed),
        "restarts": list(effect.restarts),
        "restartsAnyway": list(effect.restart_anyway),
        "recreated": [{"index": index, "why": why} for index, why in sorted(effect.recreated.items())],
        "unknown": [{"index": index, "why": why} for index, why in sorted(effect.unknown.items())],
        "changes": list(effect.template),
        "changesAtOnce": list(effect.at_once),
        "leftAlone": effect.left_alone,
    }
    if simulation is not None:
        blocks += steps_blocks(simulation)
        data |= steps_data(simulation)
    return Planned(after, action, tuple(blocks), data)


def recreated(groups: Mapping[int, GroupSnapshot], after: Object) -> dict[int, str]:
    """Return the groups that the controller would recreate at once because of the change: index → reason."""
    reasons = {}
    for index, group in groups.items():
        now, then = (_deletion(snapshot) for snapshot in (group, replace(group, lws=after)))
        if then is not None and now is None:
            reasons[index] = then.why
    return reasons


def _deletion(group: GroupSnapshot) -> Delete | None:
    actions = (action for sequence in plan_group(group).sequences for action in sequence)
    return next((action for action in actions if isinstance(action, Delete)), None)


def _steps(columns: tuple[str, ...], rows: Iterable[tuple[Text, ...]], waiting_for: str) -> Iterator[Block]:
    if rows := tuple(rows):
        yield Text("steps, if every new group gets ready:")
        yield Table(columns, rows)
    else:
        yield Text("no steps: everything is as the set asks")
    if waiting_for:
        yield Text(f"and then waits for {waiting_for}", "yellow")


def steps_blocks(simulation: Simulation) -> Iterator[Block]:
    """Show the steps of a LeaderWorkerSet in a table with one row for each."""
    columns = ("STEP", "READY", "UPDATED", "PARTITION", "REPLICAS", "WHAT")
    rows = (_step_row(number, step) for number, step in enumerate(simulation.steps, start=1))
    return _steps(columns, rows, simulation.waiting_for)


def steps_data(simulation: Simulation) -> dict[str, Any]:
    steps = [
        {
            "ready": sum(group.ready for group in step.groups),
            "updated": sum(group.updated for group in step.groups),
            "partition": step.rollout.partition,
            "replicas": step.rollout.replicas,
            "why": step.rollout.why,
        }
        for step in simulation.steps
    ]
    return {"steps": steps, "waitingFor": simulation.waiting_for}


def _step_row(number: int, step: SimulatedStep) -> tuple[Text, ...]:
    return row(
        str(number),
        str(sum(group.ready for group in step.groups)),
        str(sum(group.updated for group in step.groups)),
        _moved(step.partition, step.rollout.partition),
        _moved(step.replicas, step.rollout.replicas),
        step.rollout.why,
    )


def _moved(before: int | None, after: int) -> str:
    return str(after) if before is None or before == after else f"{before} → {after}"


@dataclass(frozen=True)
class DisaggregatedImpact:
    """What a change does to a DisaggregatedSet.

    key: the key of the target revision. counts: role → number of groups over all slices before and after;
    None if the role's scaler is missing. restarts: role → number of groups on other revisions. staying:
    number of groups that already run the target revision. is_under_way: whether the rollout began before the
    change and continues after it. template: changes that affect pods, one line each; at_once: all others.
    waiting: paths of edits that wait for the next revision.
    """

    key: str
    counts: Mapping[str, tuple[int | None, int | None]]
    restarts: Mapping[str, int]
    staying: int
    is_paused: bool
    is_under_way: bool
    template: tuple[str, ...]
    at_once: tuple[str, ...]
    waiting: tuple[str, ...]


def roles_impact(snapshot: DisaggregatedSnapshot, after: Object) -> DisaggregatedImpact:
    becoming = replace(snapshot, obj=after)
    now, then = target_revision(snapshot), target_revision(becoming)
    spec = parse(after)
    former = RoleTargets(snapshot, parse(snapshot.obj), now.key).in_all()
    desired = RoleTargets(becoming, spec, then.key).in_all()
    children = [
        child for child in snapshot.children if not child.is_terminating and child.slice_index < spec.slices
    ]
    restarts = Counter[str]()
    for child in children:
        if child.key != then.key and child.desired and spec.role(child.role):
            restarts[child.role] += child.desired
    template = tuple(roles_record.describe(roles_record.record(snapshot.obj), roles_record.record(after)))
    return DisaggregatedImpact(
        key=then.key,
        counts={role: (former.get(role, 0), desired.get(role, 0)) for role in (*desired, *former)},
        restarts=restarts,
        staying=sum(child.desired for child in children if child.key == then.key),
        is_paused=spec.paused,
        is_under_way=now.key == then.key and not template,
        template=template,
        at_once=tuple(_at_once(snapshot.obj, after)),
        waiting=waiting_edits(spec, then.content.record.spec),
    )


def roles_impact_lines(effect: DisaggregatedImpact) -> Iterator[Text]:
    """Yield the impact in sentences, the first of which is a summary."""
    yield _roles_verdict(effect)
    for role, (before, after) in effect.counts.items():
        if before is None or after is None or before == after:
            continue
        if not after:
            yield Text(f"  role {role} loses all of its groups ({before})", "red")
        else:
            yield Text(f"  role {role} is to have {format_count(after)} instead of {before}", "green")
    yield from change_lines(effect.template, effect.at_once)
    for path in effect.waiting:
        yield Text(f"  {path} waits for the next revision; `restart` brings it", "yellow")


def _roles_verdict(effect: DisaggregatedImpact) -> Text:
    if not effect.restarts:
        is_scaled = any(before != after for before, after in effect.counts.values())
        is_change = is_scaled or effect.template or effect.at_once or effect.waiting
        unchanged = "" if is_change else ": nothing changes"
        return Text(f"no pod is restarted{unchanged}", "bold green")
    restart = roles_outlook.restarts(effect.restarts, effect.is_paused, effect.is_under_way)
    stay = (
        f"; {format_count(effect.staying)} {'stays as it is' if effect.staying == 1 else 'stay as they are'}"
    )
    return Text(f"{restart}{stay if effect.staying else ''}", "bold red")


def _creation(snapshot: DisaggregatedSnapshot, key: str) -> Iterator[Text]:
    spec = parse(snapshot.obj)
    targets = RoleTargets(snapshot, spec, key)
    counts = Counter[str]()
    for index in range(spec.slices):
        for target in targets.slice_state(index, None).roles:
            counts[target.name] += target.target
    pods = sum(
        counts[role.name] * int(fields.SIZE.stored_in({"spec": role.spec}) or 1) for role in spec.roles
    )
    yield Text(f"new: {roles_outlook.of_roles(counts)}, {pods} pods in all, under key {key}", "bold green")
    for role in spec.roles:
        if role.start_after:
            yield Text(
                f"  {role.name} is created once there is a ready group of {', '.join(role.start_after)}"
            )


def _at_once(before: Object, after: Object) -> Iterator[str]:
    """Yield the changes that take effect without a rollout, except numbers of groups."""
    remaining = [
        {
            **{key: value for key, value in obj["spec"].items() if key not in _APART},
            "metadata": metadata_beside_template(obj),
        }
        for obj in (before, after)
    ]
    yield from explain(*remaining)
    former = {role["name"]: role for role in before["spec"]["roles"]}
    for role in after["spec"]["roles"]:
        if role_before := former.get(role["name"]):
            lines = explain(_beside_template(role_before), _beside_template(role))
            yield from (f"role {role['name']} {line}" for line in lines)


def _beside_template(role: Object) -> Object:
    spec, template = role["spec"], role["spec"].get(_TEMPLATE) or {}
    return {
        **{key: value for key, value in role.items() if key not in ("name", "spec")},
        **{key: value for key, value in spec.items() if key not in _OF_ROLES_APART},
        **{key: template[key] for key in LIVE if key in template},
        "metadata": metadata_beside_template(role),
    }


def created_roles(obj: Object, now: datetime, steps: bool) -> Planned:
    """Plan a DisaggregatedSet that does not exist yet."""
    snapshot = DisaggregatedSnapshot(obj, now)
    effect = roles_impact(snapshot, obj)
    blocks: list[Block] = list(_creation(snapshot, effect.key))
    data = {**_names(obj, "created"), **_roles_data(effect)}
    if steps:
        end = steps_ahead(snapshot).end
        resumed = with_merged(end.obj, {"spec": {"rolloutStrategy": {"paused": None}}})
        updated = with_merged(resumed, restart_patch(resumed, now))
        ahead = steps_ahead(replace(end, obj=updated))
        blocks += [_LATER, *roles_steps_blocks(ahead, roles_impact(end, updated).key)]
        data |= roles_steps_data(ahead)
    return Planned(obj, "created", tuple(blocks), data)


async def _changed_roles(session: Session, stored: Object, after: Object, steps: bool) -> Planned:
    snapshot = await snapshot_of(session, stored)
    effect, action = roles_impact(snapshot, after), _action(stored, after)
    blocks: list[Block] = list(roles_impact_lines(effect))
    data = {**_names(after, action), **_roles_data(effect)}
    if steps:
        ahead = steps_ahead(replace(snapshot, obj=after))
        blocks += roles_steps_blocks(ahead, effect.key)
        data |= roles_steps_data(ahead)
    return Planned(after, action, tuple(blocks), data)


def roles_steps_blocks(ahead: StepsAhead, key: str) -> Iterator[Block]:
    """Show the steps in a table with a row for each slice that a pass changes; `key` is the target's."""
    numbers = {revision.key: revision.number for revision in ahead.end.revisions}
    rows = (_roles_row(number, step, key, numbers) for number, step in enumerate(ahead.steps, start=1))
    return _steps(("STEP", "SLICE", "OLD", "NEW", "WHAT"), rows, ahead.waiting_for)


def roles_steps_data(ahead: StepsAhead) -> dict[str, Any]:
    steps = [
        {
            "slice": step.slice_index,
            "changes": [
                {"role": change.role, "key": change.key, "before": change.before, "after": change.after}
                for change in step.changes
            ],
            "groups": {key: dict(counts) for key, counts in step.counts.items()},
        }
        for step in ahead.steps
    ]
    return {"steps": steps, "waitingFor": ahead.waiting_for}


def _roles_data(effect: DisaggregatedImpact) -> dict[str, Any]:
    return {
        "key": effect.key,
        "replicas": {role: after for role, (_, after) in effect.counts.items()},
        "restarts": dict(effect.restarts),
        "changes": list(effect.template),
        "changesAtOnce": list(effect.at_once),
        "changesLater": list(effect.waiting),
    }


def _roles_row(number: int, step: StepAhead, key: str, numbers: Mapping[str, int]) -> tuple[Text, ...]:
    of_key: dict[str, list[str]] = {}
    for change in step.changes:
        of_key.setdefault(change.key, []).append(f"{change.role} {change.before} → {change.after}")
    summary = "; ".join(f"revision {numbers.get(name, name)}: {', '.join(of)}" for name, of in of_key.items())
    old = {name: counts for name, counts in step.counts.items() if name != key}
    new = {key: step.counts.get(key, {})}
    return row(str(number), str(step.slice_index), _summed(old), _summed(new), summary)


def _summed(counts: Counts) -> str:
    """Return the number of groups of each role over all revisions, such as `prefill 2, decode 1`."""
    sums = Counter[str]()
    for roles in counts.values():
        sums.update(roles)
    return ", ".join(f"{role} {groups}" for role, groups in sums.items()) or "-"


_PLANS: Mapping[str, _Plans] = {
    KIND: _Plans(created_set, _changed_set),
    ROLES_KIND: _Plans(created_roles, _changed_roles),
}
