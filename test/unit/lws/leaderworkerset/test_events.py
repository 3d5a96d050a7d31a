"""Tests of the Events of a set, word for word: users' dashboards and tests match these texts."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset import events
from lws.leaderworkerset.rollout.state import Rollout
from lws.runtime.actions import Announce, Problem, Reference
from test.unit.builders import make_leader_statefulset, make_set

LWS = make_set()
SET = Reference.to(LWS)
REVISION = Reference("apps/v1", "ControllerRevision", "default", "demo-key-a-1", "uid-of-revision", "7")


def fields_of(announce: Announce) -> tuple[str, str, str, str, Reference | None]:
    assert announce.regarding == SET
    return announce.type, announce.reason, announce.action, announce.note, announce.related


@pytest.mark.parametrize(
    ("occasion", "note"),
    [
        (
            "a newly created LeaderWorkerSet",
            "Creating revision with key key-a for a newly created LeaderWorkerSet",
        ),
        (
            "existing LeaderWorkerSet",
            "Creating missing revision with key key-a for existing LeaderWorkerSet",
        ),
        ("updated LWS", "Creating revision with key key-a for updated LWS"),
    ],
)
def test_event_of_a_new_revision(occasion: str, note: str) -> None:
    announce = events.creating_revision(LWS, REVISION, "key-a", occasion)
    assert fields_of(announce) == ("Normal", "CreatingRevision", "Create", note, REVISION)


def test_event_of_the_new_leader_statefulset() -> None:
    (announce,) = events.created_leaders(LWS, REVISION)
    note = "Created leader statefulset demo"
    assert fields_of(announce) == ("Normal", "GroupsProgressing", "Create", note, REVISION)


UPDATING = ("Normal", "GroupsUpdating", "Update")
SHRINKING = ("Normal", "GroupsProgressing", "Delete")


@pytest.mark.parametrize(
    ("stored", "partition", "replicas", "expected"),
    [
        pytest.param((4, 4), 3, 4, [(*UPDATING, "Updating replica 3", REVISION)], id="one group"),
        pytest.param(
            (4, 4), 1, 4, [(*UPDATING, "Updating replicas 1 to 3 (inclusive)", REVISION)], id="three groups"
        ),
        pytest.param((4, 2), 2, 4, [], id="nothing moves"),
        pytest.param((4, 2), 3, 4, [], id="the partition was raised: nothing is updated"),
        pytest.param(
            (5, 0),
            0,
            4,
            [(*SHRINKING, "deleting surge replica demo-4", None)],
            id="one surge group is deleted",
        ),
        pytest.param(
            (13, 0),
            0,
            11,
            [(*SHRINKING, "deleting surge replicas from demo-11 to demo-12", None)],
            id="two surge groups are deleted",
        ),
        pytest.param((4, 4), 4, 5, [], id="a surge group is created"),
        pytest.param(
            (6, 2),
            0,
            4,
            [
                (*UPDATING, "Updating replicas 0 to 1 (inclusive)", REVISION),
                (*SHRINKING, "deleting surge replicas from demo-4 to demo-5", None),
            ],
            id="both at once",
        ),
    ],
)
def test_events_of_a_rollout_step(
    stored: tuple[int, int], partition: int, replicas: int, expected: list[Any]
) -> None:
    statefulset = make_leader_statefulset(LWS, replicas=stored[0], partition=stored[1])
    announced = events.moved_leaders(LWS, statefulset, Rollout(partition, replicas), REVISION, True)
    assert [fields_of(announce) for announce in announced] == expected


def test_a_step_that_records_a_revision_reports_no_updates() -> None:
    statefulset = make_leader_statefulset(LWS, replicas=4, partition=4)
    assert events.moved_leaders(LWS, statefulset, Rollout(4, 4), REVISION, False) == ()
    scaled = events.moved_leaders(LWS, statefulset, Rollout(2, 2), REVISION, False)
    assert [event.reason for event in scaled] == ["GroupsProgressing"], "nothing is updated"
    sole = make_leader_statefulset(LWS, replicas=1, partition=0)
    (together,) = events.moved_leaders(LWS, sole, Rollout(0, 1), REVISION, False)
    assert (together.reason, together.note) == ("GroupsUpdating", "Updating replica 0")


def test_rejections_are_reported() -> None:
    create, update = (events.failed_leaders(LWS, verb) for verb in ("create", "update"))
    note = "Failed to create leader statefulset demo"
    assert fields_of(create) == ("Warning", "FailedCreate", "Create", note, None)
    note = "Failed to update leader statefulset demo"
    assert fields_of(update) == ("Warning", "FailedUpdate", "Update", note, None)
    child = events.failed_create(LWS, "headless service for error")
    note = "Failed to create headless service for error"
    assert fields_of(child) == ("Warning", "FailedCreate", "Create", note, None)


CLASH, NAME = Problem("NameClash", "StatefulSet demo is taken"), Problem("NameTooLong", "63 bytes")


def failing(message: str, status: str = "True") -> dict[str, Any]:
    conditions = [
        {"type": "Available", "status": "True", "message": CLASH.message},
        {"type": "ReplicaFailure", "status": status, "message": message},
    ]
    return make_set(status={"conditions": conditions})


@pytest.mark.parametrize(
    ("lws", "problems", "expected"),
    [
        pytest.param(LWS, [], [], id="no problem"),
        pytest.param(LWS, [CLASH, NAME], [CLASH, NAME], id="two new ones"),
        pytest.param(failing(CLASH.message), [CLASH], [], id="reported already"),
        pytest.param(
            failing(f"{CLASH.message}; {NAME.message}"), [NAME, CLASH], [], id="both reported already"
        ),
        pytest.param(failing(CLASH.message), [CLASH, NAME], [NAME], id="a second one"),
        pytest.param(failing("StatefulSet demo is gone"), [CLASH], [CLASH], id="another message"),
        pytest.param(failing(CLASH.message, "False"), [CLASH], [CLASH], id="it was over and is back"),
    ],
)
def test_problems_are_reported_once(
    lws: dict[str, Any], problems: list[Problem], expected: list[Problem]
) -> None:
    announced = [fields_of(announce) for announce in events.problems(lws, problems)]
    assert announced == [("Warning", problem.reason, "Create", problem.message, None) for problem in expected]
