"""LeaderWorkerSet as a kind of sets that commands take.

In: what a command asks. Out: answers of `lws.cli.facts`, as `lws.cli.views` show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lws.cli.blocks import Block, Table, Text
from lws.cli.facts import creation, lookup
from lws.cli.facts.changes import restart, undo_patch
from lws.cli.facts.impact import impact, impact_lines
from lws.cli.facts.revisions import is_same, past_of
from lws.cli.facts.set_status import StatusReport, report_on
from lws.cli.kinds.kind import History, Planned, SetKind, SetState
from lws.cli.session import Session
from lws.cli.views import diff, plan, status
from lws.cli.views import history as views
from lws.cli.views.screen import yaml_text
from lws.leaderworkerset.assessment.assessment import assess, begun
from lws.leaderworkerset.revisions.history import Recorded, describe, record
from lws.leaderworkerset.rollout.simulation import simulate
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET


class _Standing(SetState):
    def __init__(self, facts: StatusReport) -> None:
        self.facts = facts

    @property
    def obj(self) -> Object:
        return self.facts.objects.lws

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
    def __init__(self, objects: lookup.SetObjects) -> None:
        self._objects = objects
        self._past = past_of(objects.snapshot, objects.revisions)

    @property
    def obj(self) -> Object:
        return self._objects.lws

    @property
    def revisions(self) -> Sequence[Recorded]:
        return self._past.recorded

    @property
    def wanted(self) -> Recorded | None:
        return self._past.wanted

    @property
    def complaints(self) -> Sequence[str]:
        return list(self._past.complaints())

    def numbered(self, number: int) -> Recorded:
        return self._past.numbered(number)

    def before(self, revision: Recorded | None) -> Recorded:
        return self._past.before(revision)

    def table(self, now: datetime, wide: bool) -> Table:
        return views.history_table(self._past, now, wide)

    def one(self, revision: Recorded, now: datetime) -> Iterable[Block]:
        return views.one_revision(self._past, revision, now, yaml_text(views.template_of(revision)))

    def data(self, revisions: Sequence[Recorded], *, whole: bool) -> dict[str, Any]:
        return views.history_data(self._past, revisions, with_spec=whole)

    def differences(self, old: Recorded, new: Recorded) -> Sequence[str]:
        return list(describe(old, new))

    def compared(self, revision: Recorded) -> Any:
        return diff.compared(revision)

    def is_wanted(self, revision: Recorded) -> bool:
        wanted = self._past.wanted
        return wanted is not None and (wanted.uid == revision.uid or is_same(wanted, revision))

    def check(self, target: Recorded) -> None:
        undo_patch.check(self.obj, target)

    def operations(self, read: Object, target: Recorded) -> list[dict[str, Any]]:
        return undo_patch.operations(read, target)

    def consequences(self, after: Object, target: Recorded) -> Iterable[Text]:
        return impact_lines(impact(self._objects.snapshot, {}, after))


class LeaderWorkerSets(SetKind):
    """The registration."""

    resource = LEADER_WORKER_SET

    async def find(self, session: Session, name: str) -> Object:
        return await lookup.find_set(session, name)

    async def standing(self, session: Session, obj: Object) -> _Standing:
        return _Standing(report_on(await lookup.all_of(session, obj)))

    def table(self, standings: Sequence[_Standing], with_namespace: bool, wide: bool) -> Table:
        return status.sets_table([standing.facts for standing in standings], with_namespace, wide)

    async def history(self, session: Session, name: str) -> _History:
        return _History(await lookup.find_history(session, name))

    def is_paused(self, obj: Object) -> bool:
        return SetSpec.of(obj).paused

    def restart_patch(self, obj: Object, now: datetime) -> dict[str, Any]:
        return restart.of_set(obj, now)

    def as_stored(self, manifest: Object) -> dict[str, Any]:
        return creation.as_stored(manifest)

    def created(self, obj: Object, now: datetime, steps: bool) -> Planned:
        simulation = simulate(creation.update_from_rest(obj, now)) if steps else None
        planned = plan.SetPlan(obj, "created", None, simulation)
        return Planned(obj, "created", tuple(plan.plan_blocks(planned)), plan.plan_data(planned))

    async def changed(self, session: Session, stored: Object, after: Object, steps: bool) -> Planned:
        objects = await lookup.all_of(session, stored)
        effect = impact(objects.snapshot, objects.groups, after, objects.unknown)
        action = "unchanged" if after["spec"] == stored["spec"] else "configured"
        begins = begun(replace(objects.snapshot, lws=after), effect.after)
        simulation = simulate(effect.after.rollout, begins) if steps else None
        planned = plan.SetPlan(after, action, effect, simulation)
        return Planned(after, action, tuple(plan.plan_blocks(planned)), plan.plan_data(planned))

    def key_and_text(self, obj: Object) -> tuple[str, str]:
        recorded = record(obj)
        return recorded.key, recorded.text

    async def key(self, session: Session, obj: Object) -> str:
        return assess((await lookup.history_of(session, obj)).snapshot).target.key
