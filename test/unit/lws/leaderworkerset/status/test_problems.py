"""Tests of the list of problems of a set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.kube.conditions import Rejection
from lws.leaderworkerset.events import problems
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.problems import problems_of
from lws.runtime.actions import Problem
from test.unit.builders import NOW, make_group, make_set

CLASH = Problem("NameClash", "StatefulSet demo belongs to another owner")
QUOTA = Rejection("StatefulSet demo is short of pods", "exceeded quota: few")


def test_a_new_set_has_no_problems() -> None:
    assert problems_of(SetSnapshot(make_set(), NOW), []) == ()


def test_problems_of_the_pass_come_first() -> None:
    snapshot = SetSnapshot(make_set("n" * 60), NOW, rejections=(QUOTA,), drops_start_ordinal=True)
    reported = problems_of(snapshot, [CLASH])
    assert [problem.reason for problem in reported] == [
        "NameClash",
        "StartOrdinalUnsupported",
        "NameTooLong",
        "QuotaExceeded",
    ]
    assert reported[-1].message == "StatefulSet demo is short of pods: exceeded quota: few"


def test_a_group_of_one_needs_no_start_ordinal() -> None:
    assert problems_of(SetSnapshot(make_set(size=1), NOW, drops_start_ordinal=True), []) == ()


@pytest.mark.parametrize("ordinals", [None, {}, {"start": 1}])
def test_workers_without_a_start_ordinal_show_that_it_is_dropped(ordinals: dict[str, int] | None) -> None:
    group = make_group()
    assert group.worker_statefulset is not None
    workers = {**group.worker_statefulset, "spec": {**group.worker_statefulset["spec"], "ordinals": ordinals}}
    reported = problems_of(
        SetSnapshot(make_set(), NOW, groups=(replace(group, worker_statefulset=workers),)), []
    )
    assert [problem.reason for problem in reported] == ([] if ordinals else ["StartOrdinalUnsupported"])


def test_groups_without_workers_do_not_show_a_dropped_start_ordinal() -> None:
    groups = (make_group(make_set(size=1)),)
    assert problems_of(SetSnapshot(make_set(), NOW, groups=groups), []) == ()


def test_reported_problems_are_not_reported_again() -> None:
    reported = Problem("FailedCreate", "cannot create Service demo: no", is_reported=True)
    assert [event.note for event in problems(make_set(), [CLASH, reported])] == [CLASH.message]
