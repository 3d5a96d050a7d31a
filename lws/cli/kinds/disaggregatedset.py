"""DisaggregatedSet as a kind of sets that commands take.

In: what a command asks. Out: answers of `lws.cli.facts.disaggregated`, as `lws.cli.views.disaggregated` show
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lws.cli.blocks import Block, Table, Text
from lws.cli.facts import creation, names
from lws.cli.facts.changes import restart
from lws.cli.facts.disaggregated import history
from lws.cli.facts.disaggregated import impact as effects
from lws.cli.facts.disaggregated.status import DisaggregatedReport, report_on
from lws.cli.facts.disaggregated.steps_ahead import steps_ahead
from lws.cli.kinds.kind import History, Planned, SetKind, SetState
from lws.cli.refusal import Refusal, Unreadable
from lws.cli.session import Session
from lws.cli.views.disaggregated import history as views
from lws.cli.views.disaggregated import plan, status
from lws.cli.views.screen import yaml_text
from lws.disaggregatedset.key import hashed_text, key_of
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.revisions.diff import describe
from lws.disaggregatedset.revisions.record import RecordedRoles, record
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import fault_of, parse
from lws.disaggregatedset.tables import TABLES
from lws.kube.differences.patches import with_merged
from lws.leaderworkerset.tables import TABLES as SET_TABLES
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_LABEL


class _Standing(SetState):
    def __init__(self, facts: DisaggregatedReport) -> None:
        self.facts = facts

    @property
    def obj(self) -> Object:
        return self.facts.obj

    @property
    def is_settled(self) -> bool:
        return self.facts.is_settled

    def blocks(self, most: int | None, wide: bool) -> Iterable[Block]:
        return status.status_blocks(self.facts, most, wide)

    def data(self) -> dict[str, Any]:
        return status.status_data(self.facts)

    def progress(self) -> Text:
        return status.progress_line(self.facts)


class _History(History):
    def __init__(self, past: history.DisaggregatedPast) -> None:
        self._past = past

    @property
    def obj(self) -> Object:
        return self._past.obj

    @property
    def revisions(self) -> Sequence[RecordedRoles]:
        return self._past.revisions

    @property
    def wanted(self) -> RecordedRoles | None:
        return self._past.wanted

    @property
    def complaints(self) -> Sequence[str]:
        return [revision.broken for revision in self._past.revisions if revision.broken]

    def numbered(self, number: int) -> RecordedRoles:
        return self._past.numbered(number)

    def before(self, revision: RecordedRoles | None) -> RecordedRoles:
        return self._past.before(revision)

    def table(self, now: datetime, wide: bool) -> Table:
        return views.history_table(self._past, now, wide)

    def one(self, revision: RecordedRoles, now: datetime) -> Iterable[Block]:
        return views.one_revision(self._past, revision, now, yaml_text(self.compared(revision)))

    def data(self, revisions: Sequence[RecordedRoles], *, whole: bool) -> dict[str, Any]:
        return views.history_data(self._past, revisions, with_roles=whole)

    def differences(self, old: RecordedRoles, new: RecordedRoles) -> Sequence[str]:
        return describe(old.record, new.record)

    def compared(self, revision: RecordedRoles) -> Any:
        return list(revision.record.parts)

    def is_wanted(self, revision: RecordedRoles) -> bool:
        wanted = self._past.wanted
        return wanted is not None and wanted.record.forms == revision.record.forms

    def check(self, target: RecordedRoles) -> None:
        history.check(self._past)

    def operations(self, read: Object, target: RecordedRoles) -> list[dict[str, Any]]:
        return history.operations(self._past, read, target)

    def consequences(self, after: Object, target: RecordedRoles) -> Iterator[Text]:
        for role in history.returning(self._past, target):
            yield Text(f"role {role} comes back; look at its replicas")


class DisaggregatedSets(SetKind):
    """The registration."""

    resource = DISAGGREGATED_SET

    async def find(self, session: Session, name: str) -> Object:
        return await find(session, name)

    async def standing(self, session: Session, obj: Object) -> _Standing:
        return _Standing(report_on(await snapshot_of(session, obj)))

    def table(self, standings: Sequence[_Standing], with_namespace: bool, wide: bool) -> Table:
        return status.sets_table([standing.facts for standing in standings], with_namespace, wide)

    async def history(self, session: Session, name: str) -> _History:
        return _History(await history.past_of(session, await self.find(session, name)))

    def is_paused(self, obj: Object) -> bool:
        return parse(obj).paused

    def restart_patch(self, obj: Object, now: datetime) -> dict[str, Any]:
        return restart.of_roles(obj, now)

    def as_stored(self, manifest: Object) -> dict[str, Any]:
        return creation.disaggregated_as_stored(manifest)

    def created(self, obj: Object, now: datetime, steps: bool) -> Planned:
        blocks: list[Block] = list(effects.creation(obj, now))
        snapshot = DisaggregatedSnapshot(obj, now)
        effect = effects.impact(snapshot, obj)
        data = {**_names(obj, "created"), "key": effect.after.key, **plan.effect_data(effect)}
        if steps:
            rest = steps_ahead(snapshot).end
            paused = {"spec": {"rolloutStrategy": {"paused": None}}}
            updated = with_merged(with_merged(rest.obj, paused), restart.of_roles(rest.obj, now))
            ahead = steps_ahead(replace(rest, obj=updated))
            key = effects.impact(rest, updated).after.key
            blocks += [Text("a later update of all its groups:"), *plan.steps_blocks(ahead, key)]
            data |= plan.steps_data(ahead)
        return Planned(obj, "created", tuple(blocks), data)

    async def changed(self, session: Session, stored: Object, after: Object, steps: bool) -> Planned:
        snapshot = await snapshot_of(session, stored)
        effect = effects.impact(snapshot, after)
        action = "unchanged" if after["spec"] == stored["spec"] else "configured"
        blocks: list[Block] = list(effects.impact_lines(effect))
        data = {**_names(after, action), "key": effect.after.key, **plan.effect_data(effect)}
        if steps:
            ahead = steps_ahead(replace(snapshot, obj=after))
            blocks += plan.steps_blocks(ahead, effect.after.key)
            data |= plan.steps_data(ahead)
        return Planned(after, action, tuple(blocks), data)

    def key_and_text(self, obj: Object) -> tuple[str, str]:
        roles = record(obj).roles
        return key_of(roles), hashed_text(roles)

    async def key(self, session: Session, obj: Object) -> str:
        return (await history.past_of(session, obj)).target.key


def _names(obj: Object, action: str) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {"name": metadata["name"], "namespace": metadata["namespace"], "action": action}


_KINDS = (CHILD_KIND, "ControllerRevision", "Service", SCALER_KIND)
# Names of LeaderWorkerSets in one selector: more would make an address that some proxies refuse.
_AT_ONCE = 50


async def find(session: Session, name: str) -> Object:
    """The set of this name."""
    return readable(await names.find(session, DISAGGREGATED_SET, name))


def readable(obj: Object) -> Object:
    """The set; a definition of another release may have let anything in."""
    if fault := fault_of(obj):
        raise Unreadable(obj["metadata"]["name"], fault)
    return obj


async def snapshot_of(session: Session, obj: Object) -> DisaggregatedSnapshot:
    """Everything that belongs to a set."""
    namespace, name = readable(obj)["metadata"]["namespace"], obj["metadata"]["name"]
    store = Store(lambda before, after: None, [*SET_TABLES, *TABLES])
    store.put(obj)
    for kind in _KINDS:
        for stored in await session.cluster.listed(kind, namespace, f"{NAME_LABEL}={name}"):
            store.put(stored)
    children = [
        child["metadata"]["name"] for child in store.controlled_by(obj["metadata"]["uid"], CHILD_KIND)
    ]
    for batch in _portions(sorted(children)):
        for kind in ("StatefulSet", "Pod"):
            selector = f"{CHILD_LABEL} in ({','.join(batch)})"
            for stored in await session.cluster.listed(kind, namespace, selector):
                store.put(stored)
    observer = DisaggregatedObserver(session.cluster, store, DisaggregatedMemory(store))
    snapshot = await observer.observe(namespace, name, session.now)
    if snapshot is None:
        raise Refusal(f"DisaggregatedSet {name} was deleted meanwhile")
    return snapshot


def _portions(children: Sequence[str]) -> Iterator[Iterable[str]]:
    for start in range(0, len(children), _AT_ONCE):
        yield children[start : start + _AT_ONCE]
