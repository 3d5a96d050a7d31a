"""Judge the record of a run: fail with every guarantee that was violated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from test.harness.audit import MANAGER
from test.harness.disaggregated import promises, scenes
from test.harness.proxied import credential_of
from test.integration.chaos.invariants import fewest_ready, hash_violations, violations, writes_out_of_turn
from test.integration.chaos.load import MOST_HASH_GROUPS
from test.integration.chaos.record import KINDS, Change, Record
from test.integration.chaos.replay import Frame, Step, groups_of, steps_of
from tools.deployment import NAMESPACE, ManagerProcess

_DESCRIBED_STEPS = 40
_FIRST_BROKEN = "until the first promise was broken"


def judge(
    record: Record, namespace: str, names: Sequence[str], disaggregated: str = ""
) -> Mapping[str, Sequence[Step]]:
    """Fail if a guarantee for any of the sets was violated; return the steps of each set with indexed groups.

    disaggregated: the name of the DisaggregatedSet, if there is one.
    """
    changes, messages = record.changes(), list[str]()
    hashed = {name: MOST_HASH_GROUPS[name] for name in names if name in MOST_HASH_GROUPS}
    for name, most in hashed.items():
        messages += [f"{name} at {message}" for message in hash_violations(name, changes, most)]
    played = {name: steps_of(name, changes) for name in names if name not in hashed}
    for name, steps in played.items():
        leaders = {group: [pod.key for pod in pods] for group, pods in groups_of(steps)}
        print(f"{namespace}/{name}: {len(steps)} steps; revisions of leaders by group: {leaders}")
        broken = violations(name, steps)
        if broken:
            first = min(violation.position for violation in broken)
            _show(name, _FIRST_BROKEN, describe_steps(name, steps[: first + 1]))
        messages += [
            f"{name} at {steps[violation.position].entry.at:%H:%M:%S.%f}: {violation.what}"
            for violation in broken
        ]
    if disaggregated:
        messages += _broken_of(disaggregated, changes)
    if messages:
        pytest.fail("\n".join(["broken promises:", *messages]))
    return played


def _broken_of(name: str, changes: Iterable[Change]) -> list[str]:
    """Return the violated guarantees of a DisaggregatedSet."""
    steps = scenes.steps_of(
        name,
        (
            scenes.Seen(
                change.entry.at.timestamp(),
                KINDS[change.entry.resource],
                change.objects,
                change.entry.user.rpartition(":")[2],
                change.is_snapshot,
            )
            for change in changes
        ),
    )
    print(f"{name}: {len(steps)} steps; revisions: {sorted(steps[-1].after.revisions.values())}")
    broken = promises.violations(steps)
    if broken:
        first = min(violation.position for violation in broken)
        _show(name, _FIRST_BROKEN, promises.described(steps[: first + 1]))
    return [f"{name} at {steps[violation.position].at:.3f}: {violation.what}" for violation in broken]


def _show(name: str, until: str, steps: Iterable[str]) -> None:
    print(f"{name}, {until}:", *steps, sep="\n  ")


def describe_steps(name: str, steps: Sequence[Step]) -> list[str]:
    """Describe the last steps: the client, the write and the state of the set afterwards."""
    return [
        f"{step.entry.at:%H:%M:%S.%f} {step.entry.user.rpartition(':')[2]} {step.entry.verb} "
        f"{step.entry.resource} {step.entry.name} → {_describe(name, step.after)}"
        for step in steps[-_DESCRIBED_STEPS:]
    ]


def _describe(name: str, frame: Frame) -> str:
    leaders, parts = frame.statefulsets.get(name), []
    if leaders is not None:
        parts.append(f"{leaders.key[:4]} replicas {leaders.replicas} partition {leaders.partition}:")
    for group, leader in sorted(frame.leaders.items()):
        state = "going" if leader.is_terminating else "up" if group in frame.ready else "down"
        parts.append(f"{group}={leader.key[:4]} {state}{'' if group in frame.reported else ' (unreported)'}")
    return " ".join(parts)


def assert_left_alone(record: Record, name: str) -> None:
    """Check that no manager wrote to a set of another controller, or to objects named after it."""
    entries = [entry for entry in record.entries() if entry.name.startswith(name)]
    assert entries, f"nothing has happened to {name}"
    written = [f"{entry.verb} {entry.resource} {entry.name}" for entry in entries if entry.user == MANAGER]
    if written:
        pytest.fail("\n".join([f"a manager has written to {name}, which is not its own:", *written]))


def assert_never_below_the_budget(
    played: Mapping[str, Sequence[Step]],
    since: datetime,
    floors: Mapping[str, int],
    deaths: Collection[datetime] = (),
) -> None:
    """Check that the budget always held in runs without lost pods. deaths: of the API server."""
    fewest = {name: fewest_ready(steps, since, deaths) for name, steps in played.items()}
    short = [name for name, least in fewest.items() if least is None or least < floors[name]]
    for name in short:
        worst = _worst(played[name], since, deaths)
        _show(name, "until the worst moment", describe_steps(name, played[name][: worst + 1]))
    if short:
        pytest.fail(f"groups that served at the worst moment: {fewest}, promised were {floors}")


def _worst(steps: Sequence[Step], since: datetime, deaths: Collection[datetime]) -> int:
    """Return the first step with the smallest number of serving groups, or -1 without steps."""
    fewest = fewest_ready(steps, since, deaths)
    return next((at for at, step in enumerate(steps) if fewest_ready([step], since, deaths) == fewest), -1)


def assert_one_acts(
    record: Record, namespace: str, managers: Sequence[ManagerProcess], deadline: timedelta
) -> None:
    """Check that no manager wrote without being sure of its Lease."""
    names = {credential_of(manager): manager.log_path.stem for manager in managers}
    entries = [entry for entry in record.entries() if entry.namespace in (namespace, NAMESPACE)]
    if not any(entry.namespace == namespace and entry.credential in names for entry in entries):
        pytest.fail("no manager has written anything")
    messages = writes_out_of_turn(entries, names, namespace, deadline)
    if messages:
        pytest.fail("\n".join(["more than one may have acted:", *messages]))


def now() -> datetime:
    """Return the time in the time zone of the audit log."""
    return datetime.now(UTC)
