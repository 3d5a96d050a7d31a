"""Did a bad day leave its marks? What is asked of every record, and how failures are shown.

In: a record and the sets in it. Out: nothing, or a failure that names every promise that was broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from test.integration.bad_days.proxied import credential_of
from test.integration.chaos.invariants import fewest_ready, violations, writes_out_of_turn
from test.integration.chaos.record import Record
from test.integration.chaos.replay import Step, groups_of, steps_of
from tools.deployment import NAMESPACE, ManagerProcess


def judge(record: Record, namespace: str, names: Iterable[str]) -> Mapping[str, Sequence[Step]]:
    """Fail if a promise about any of the sets was broken; returns what happened to each."""
    changes = record.changes()
    played = {name: steps_of(name, changes) for name in names}
    found = [each for name, steps in played.items() for each in violations(name, steps)]
    for name, steps in played.items():
        leaders = {group: [pod.key for pod in pods] for group, pods in groups_of(steps)}
        print(f"{namespace}/{name}: {len(steps)} steps; revisions of leaders by group: {leaders}")
    assert found == []
    return played


def assert_never_below_the_budget(
    played: Mapping[str, Sequence[Step]], since: datetime, floors: Mapping[str, int]
) -> None:
    """Where no pod was lost, the groups that serve were never fewer than the budget allows."""
    fewest = {name: fewest_ready(steps, since) for name, steps in played.items()}
    assert {name: least for name, least in fewest.items() if least is None or least < floors[name]} == {}


def assert_one_acts(
    record: Record, namespace: str, managers: Sequence[ManagerProcess], deadline: timedelta
) -> None:
    """No write was issued by a manager that could not be sure of its Lease."""
    names = {credential_of(each): each.log_path.stem for each in managers}
    entries = [each for each in record.entries() if each.namespace in (namespace, NAMESPACE)]
    assert any(each.namespace == namespace and each.credential in names for each in entries)
    assert writes_out_of_turn(entries, names, namespace, deadline) == []


def now() -> datetime:
    """The time that the audit log shows."""
    return datetime.now(UTC)
