"""`lws undo`: roll a set back to an earlier revision, without restarting groups that still run it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from lws.cli.arguments import (
    EXIT_CODES,
    OBJECT_FORMATS,
    cluster_options,
    output_option,
    revision_option,
    set_argument,
)
from lws.cli.histories import RolesHistory, history_of
from lws.cli.impact import impact, impact_lines
from lws.cli.screen import Text, warn
from lws.cli.session import ClusterOptions, Refusal, Session, run
from lws.cli.sets import NamedSet, caution, changed, find, refuse_paused, report, write_unless_changed
from lws.disaggregatedset.children.upkeep import waiting_edits
from lws.disaggregatedset.revisions.record import RecordedRoles, undo_operations
from lws.disaggregatedset.spec import parse
from lws.kube.metadata import annotations_of
from lws.kube.patches import json_patch
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import LIVE, equality_tree
from lws.leaderworkerset.revisions.history import Recorded, record, restore
from lws.runtime.actions import Object, Reference
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.v1 import KIND

FIELD_MANAGER = "lws-undo"
# Field managers of tools that keep their own record of what they applied, without server-side apply.
_CLIENT_SIDE_APPLIERS = ("argocd-controller", "helm", "kubectl-client-side-apply")

_TEMPLATE, _NETWORK = "leaderWorkerTemplate", "networkConfig"
_ROLES = "roles"
_NO_DRY_RUN, _DRY_RUN = "none", "server"


class _Command(click.Command):
    """Accepts `--dry-run` without a value, as kubectl does. The next argument is then not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{arg}={_DRY_RUN}" if arg == "--dry-run" else arg for arg in args])


@click.command(cls=_Command, epilog=EXIT_CODES)
@set_argument()
@revision_option(
    "--to-revision",
    "number",
    lowest=0,
    help="Revision to go back to (default: the one before the current revision).",
)
@click.option(
    "--dry-run",
    type=click.Choice((_NO_DRY_RUN, _DRY_RUN)),
    default=_NO_DRY_RUN,
    help="Show what would happen; nothing is changed. Without a value: server.",
)
@output_option(*OBJECT_FORMATS)
@cluster_options
def undo(name: NamedSet, number: int | None, dry_run: str, output: str | None, target: ClusterOptions) -> int:
    """Go back to an earlier revision of a set.

    Groups that still run that revision are not restarted; the others follow in a rollout.
    """
    # As in kubectl, 0 stands for the revision before the current one.
    is_dry = dry_run == _DRY_RUN
    return run(target, lambda session: _undo(session, name, number or None, output, dry_run=is_dry))


async def _undo(
    session: Session, name: NamedSet, number: int | None, output: str | None, *, dry_run: bool = False
) -> int:
    obj = await find(session, name)
    history, rules = await history_of(session, obj), _UNDO_RULES[obj["kind"]]
    target = history.numbered(number) if number is not None else history.before(history.target)
    refuse_paused(obj, "undo")
    rules.check(obj, target)
    if history.target is not None and history.is_same(history.target, target):
        skipped = f"skipped rollback (current template already matches revision {target.number})"
        report(obj, output, [changed(obj, skipped)])
        return 0
    if message := caution(obj, "undo"):
        warn(message)
    for manager in appliers(obj):
        warn(
            f"{manager} applies the template of this set: its next apply will undo this undo. Change it "
            f"there too"
        )

    def go_back(read: Object) -> Awaitable[dict[str, Any]]:
        operations = rules.operations(history, read, target)
        return session.cluster.json_patch(Reference.to(read), operations, FIELD_MANAGER, dry_run=dry_run)

    after = await write_unless_changed(session, obj, go_back)
    headline = changed(after, f"rolled back to revision {target.number}", dry_run)
    report(after, output, [headline, *rules.consequences(history, after, target)])
    return 0


@dataclass(frozen=True, slots=True)
class _UndoRules:
    """How to roll back a kind of sets, if `check` raises no Refusal.

    operations: returns the JSON patch (RFC 6902) for the set as it is when it is written. consequences:
    yields what follows for the set.
    """

    check: Callable[[Object, Any], None]
    operations: Callable[[Any, Object, Any], list[dict[str, Any]]]
    consequences: Callable[[Any, Object, Any], Iterator[Text]]


def check(lws: Object, target: Recorded) -> None:
    """Raise a Refusal if a LeaderWorkerSet cannot be rolled back to a revision."""
    old, new = equality_tree(lws["spec"])[_TEMPLATE], equality_tree(target.record.spec)[_TEMPLATE]
    if record(lws).claims != target.record.claims:
        raise Refusal(
            f"revision {target.number} has other volumeClaimTemplates, and those of a StatefulSet cannot be "
            f"changed: create a new set, or restore the pod templates by hand"
        )
    if (old.get("subGroupPolicy") is None) != (new.get("subGroupPolicy") is None):
        has = "no subGroupPolicy" if new.get("subGroupPolicy") is None else "a subGroupPolicy"
        raise Refusal(
            f"revision {target.number} has {has}, and that can be neither added nor removed: create a new set"
        )


def operations(lws: Object, target: Recorded) -> list[dict[str, Any]]:
    """Return the JSON patch that rolls a LeaderWorkerSet back. It fails if the set is written in between."""
    now = lws["spec"]
    template = {key: value for key, value in target.record.spec[_TEMPLATE].items() if key not in LIVE}
    template |= {key: now[_TEMPLATE][key] for key in LIVE if key in now[_TEMPLATE]}
    policy = fields.SUBDOMAIN_POLICY
    network = target.record.spec.get(_NETWORK) or {policy.name: policy.stored_default}
    version = lws["metadata"]["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": f"/spec/{_TEMPLATE}", "value": template},
        {"op": "replace" if _NETWORK in now else "add", "path": f"/spec/{_NETWORK}", "value": network},
        *_annotations(lws, target),
    ]


def _annotations(lws: Object, target: Recorded) -> Iterator[dict[str, Any]]:
    """Yield the operations that restore the placement annotations, which are part of a revision."""
    now, then = (dict(annotations_of(obj)) for obj in (lws, restore(lws, target)))
    if now or not then:
        yield from json_patch(now, then, "/metadata/annotations")
    else:
        yield {"op": "add", "path": "/metadata/annotations", "value": then}


def returning(history: RolesHistory, target: RecordedRoles) -> dict[str, int]:
    """Return each restored role with its number of groups: as many as are left of the role, or one."""
    existing = {role.name for role in parse(history.obj).roles}
    counts = {name: 1 for name in target.record.roles if name not in existing}
    for child in history.snapshot.children:
        if child.role in counts:
            counts[child.role] = max(counts[child.role], fields.REPLICAS.effective_in(child.obj))
    return counts


def roles_operations(history: RolesHistory, obj: Object, target: RecordedRoles) -> list[dict[str, Any]]:
    """Return the JSON patch that rolls a DisaggregatedSet back."""
    return undo_operations(obj, target.record, returning(history, target))


def _roles_consequences(history: RolesHistory, after: Object, target: RecordedRoles) -> Iterator[Text]:
    for role in returning(history, target):
        yield Text(f"role {role} is restored: check its replicas")
    for path in waiting_edits(parse(after), target.record.spec):
        yield Text(f"{path} differs from revision {target.number} and is kept")


_UNDO_RULES: Mapping[str, _UndoRules] = {
    KIND: _UndoRules(
        check,
        lambda history, lws, target: operations(lws, target),
        lambda history, after, target: impact_lines(impact(history.snapshot, after)),
    ),
    ROLES_KIND: _UndoRules(lambda obj, target: None, roles_operations, _roles_consequences),
}


def appliers(lws: Object) -> list[str]:
    """Return the field managers that apply fields that undo writes, and would therefore revert the undo."""
    managers = set()
    for entry in lws["metadata"].get("managedFields") or ():
        if entry.get("subresource") or entry.get("manager") == FIELD_MANAGER:
            continue
        is_applier = entry.get("operation") == "Apply" or entry.get("manager") in _CLIENT_SIDE_APPLIERS
        owned = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if is_applier and any(f"f:{part}" in owned for part in (_TEMPLATE, _NETWORK, _ROLES)):
            managers.add(str(entry["manager"]))
    return sorted(managers)
