from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from test.unit.tools.demo.objects import (
    CREATED,
    NAME,
    make_event,
    make_group,
    make_pod,
    make_set,
    make_view,
)
from tools.demo.facts import time_of
from tools.demo.picture import clock, picture_of, short, summary

NOW = time_of(CREATED) + timedelta(seconds=75)


def test_rows_of_groups() -> None:
    pods = [
        *make_group(0),
        *make_group(1)[:3],
        make_pod(1, 3, ready=False, owner="workers-1-uid"),
        make_group(2)[0],
        *make_group(3)[1:],
    ]
    picture = picture_of(make_view(pods), NOW)
    rows = [
        (group.index, group.revision, group.ready_workers, group.size, group.is_ready)
        for group in picture.groups
    ]
    assert rows == [
        (0, "old", 3, 4, True),
        (1, "old", 2, 4, False),
        (2, "old", 0, 4, False),
        (3, "", 0, 4, False),
    ]
    assert (picture.groups_ready, picture.pods_ready) == (1, 11)


def test_a_picture_without_a_set() -> None:
    view = make_view()
    empty = picture_of(type(view)({**view.objects, **dict.fromkeys(["LeaderWorkerSet"], ())}, {}), NOW)
    assert (empty.facts, empty.groups, empty.pods_ready) == (None, (), 0)
    assert summary(empty) == "no LeaderWorkerSet"


def test_the_newest_set_is_shown() -> None:
    older = make_set(replicas=1)
    older["metadata"] |= {"name": "older", "uid": "older", "creationTimestamp": "2025-01-01T00:00:00Z"}
    view = make_view()
    both = type(view)({**view.objects, **dict.fromkeys(["LeaderWorkerSet"], (make_set(), older))}, {})
    facts = picture_of(both, NOW).facts
    assert facts is not None and facts.name == NAME


@pytest.mark.parametrize(
    ("changes", "age", "count"),
    [
        pytest.param({}, 75.0, 1, id="once"),
        pytest.param({"at": "2026-01-01T00:01:00.500000Z"}, 14.5, 1, id="with a fraction of a second"),
        pytest.param(
            {"series": {"count": 3, "lastObservedTime": "2026-01-01T00:01:10Z"}}, 5.0, 3, id="in a series"
        ),
    ],
)
def test_time_and_count_of_an_event(changes: dict[str, Any], age: float, count: int) -> None:
    (event,) = picture_of(make_view(events=[make_event("Reason", "note", **changes)]), NOW).events
    assert (event.reason, event.note, event.age, event.count) == ("Reason", "note", age, count)
    assert not event.is_warning


def test_events_of_the_set_are_listed_newest_first() -> None:
    events = [
        make_event("First", "a"),
        make_event("Second", "b", at="2026-01-01T00:00:10Z", type="Warning"),
        make_event("OfPod", "c", kind="Pod"),
        make_event("OfAnother", "d", uid="another"),
    ]
    seen = picture_of(make_view(events=events), NOW).events
    assert [(event.reason, event.is_warning) for event in seen] == [("Second", True), ("First", False)]


def test_summary_in_one_line() -> None:
    picture = picture_of(make_view(lws=make_set(updatedReplicas=1, true=["Progressing"])), NOW)
    assert summary(picture) == "groups ready 4/4, up to date 1/4, Progressing"
    fresh = picture_of(make_view([], lws=make_set(true=[])), NOW)
    assert summary(fresh) == "groups ready 0/4, up to date 4/4, no condition yet"


@pytest.mark.parametrize(
    ("seconds", "as_clock", "as_age"),
    [
        pytest.param(-1, "0:00", "0s", id="clocks differ"),
        pytest.param(7.9, "0:07", "7s", id="seconds"),
        pytest.param(754, "12:34", "12m34s", id="minutes"),
        pytest.param(3723, "1:02:03", "1h2m", id="hours"),
    ],
)
def test_durations(seconds: float, as_clock: str, as_age: str) -> None:
    assert (clock(seconds), short(seconds)) == (as_clock, as_age)
