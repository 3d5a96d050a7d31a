"""lws.runtime.events: which Events are written, how repeats are counted, and that no pass waits for them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lws.runtime.actions import Announce, Fold, Reference
from lws.runtime.errors import ApiError, ClusterError, NotFound, NotLeading, Unreachable
from lws.runtime.events import EventRecorder
from test.unit.fake_time import in_fake_time, now

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-1", "42")
POD = Reference("v1", "Pod", "ns", "demo-0", "u-2")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ANNOUNCE = Announce(SET, "GroupsProgressing", "Create", "Created leader statefulset demo")


@dataclass
class _Cluster:
    """A cluster that stores Events. trouble: errors to raise instead, one after the other."""

    events: list[dict[str, Any]] = field(default_factory=list)
    patches: list[tuple[str, dict[str, Any], float]] = field(default_factory=list)
    trouble: list[ClusterError | None] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)
    now: datetime = NOW

    async def create(self, event: dict[str, Any]) -> dict[str, Any]:
        await self._travel()
        created = {**event, "metadata": event["metadata"] | {"uid": f"e-{next(self.numbers)}"}}
        self.events.append(created)
        return created

    async def merge(self, target: Reference, patch: dict[str, Any]) -> None:
        await self._travel()
        assert target.kind == "Event" and target.api_version == "events.k8s.io/v1"
        self.patches.append((target.uid, patch, now()))

    async def _travel(self) -> None:
        await asyncio.sleep(0.01)
        trouble = self.trouble.pop(0) if self.trouble else None
        if trouble is not None:
            raise trouble


@asynccontextmanager
async def _recording() -> AsyncIterator[tuple[_Cluster, EventRecorder]]:
    cluster: Any = _Cluster()
    recorder = EventRecorder(cluster, "leaderworkerset", "leaderworkerset-host", clock=now)
    task = asyncio.create_task(recorder.run())
    yield cluster, recorder
    await recorder.drain()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _announce(recorder: EventRecorder, *announces: Announce, every: float = 0.0) -> None:
    for announce in announces:
        recorder.announce(announce)
        await recorder.drain()
        await asyncio.sleep(every)


@in_fake_time
async def test_one_event() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, replace(ANNOUNCE, related=POD))
    [event] = cluster.events
    assert re.fullmatch(r"demo\.[0-9a-f]+", event["metadata"].pop("name"))
    assert MICRO_TIME.fullmatch(event.pop("eventTime"))
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns", "uid": "e-0"},
        "reportingController": "leaderworkerset",
        "reportingInstance": "leaderworkerset-host",
        "type": "Normal",
        "reason": "GroupsProgressing",
        "action": "Create",
        "note": "Created leader statefulset demo",
        "regarding": {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "namespace": "ns",
            "name": "demo",
            "uid": "u-1",
            "resourceVersion": "42",
        },
        "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "demo-0", "uid": "u-2"},
    }


@in_fake_time
async def test_without_related_object_and_without_namespace() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, replace(ANNOUNCE, regarding=replace(SET, namespace="")))
    [event] = cluster.events
    assert "related" not in event and event["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("note", "written"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="at-the-limit"),
        pytest.param("x" * 1025, "x" * 1024, id="one-byte-too-long"),
        pytest.param("x" * 1023 + "ü", "x" * 1023, id="a-character-of-two-bytes-at-the-end"),
        pytest.param("→" * 400, "→" * 341, id="characters-of-three-bytes"),
        pytest.param("x" * 1022 + "😀", "x" * 1022, id="a-character-of-four-bytes-at-the-end"),
        pytest.param("x\ud800y", "x?y", id="half-a-character"),
    ],
)
@in_fake_time
async def test_notes_are_truncated_between_characters(note: str, written: str) -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, replace(ANNOUNCE, note=note))
    assert cluster.events[0]["note"] == written
    assert len(written.encode()) <= 1024


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(ANNOUNCE, note="another"), id="note"),
        pytest.param(replace(ANNOUNCE, reason="Another"), id="reason"),
        pytest.param(replace(ANNOUNCE, action="Another"), id="action"),
        pytest.param(replace(ANNOUNCE, type="Warning"), id="type"),
        pytest.param(replace(ANNOUNCE, related=POD), id="related-object"),
        pytest.param(replace(ANNOUNCE, regarding=replace(SET, uid="u-9")), id="an-object-of-the-same-name"),
    ],
)
@in_fake_time
async def test_different_events_form_no_series(other: Announce) -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, ANNOUNCE, other)
    assert len(cluster.events) == 2 and not cluster.patches
    assert cluster.events[0]["metadata"]["name"] != cluster.events[1]["metadata"]["name"]


@in_fake_time
async def test_equal_events_about_another_version_form_a_series() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, ANNOUNCE, replace(ANNOUNCE, regarding=replace(SET, resource_version="43")))
    assert len(cluster.events) == 1
    [(uid, patch, _)] = cluster.patches
    assert uid == "e-0" and patch["series"]["count"] == 2
    assert MICRO_TIME.fullmatch(patch["series"]["lastObservedTime"])


@in_fake_time
async def test_a_series_is_written_at_its_second_and_then_once_a_minute() -> None:
    async with _recording() as (cluster, recorder):
        began = now()
        await _announce(recorder, *[ANNOUNCE] * 200, every=1.0)
    assert len(cluster.events) == 1
    moments = [moment - began for _, _, moment in cluster.patches]
    assert len(moments) == 4 and moments[0] < 2.0
    assert all(59.0 < later - sooner < 62.0 for sooner, later in itertools.pairwise(moments))
    counts = [patch["series"]["count"] for _, patch, _ in cluster.patches]
    assert counts[0] == 2 and counts == sorted(counts) and counts[-1] > 170


@in_fake_time
async def test_repeats_within_a_minute_cost_no_write() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, *[ANNOUNCE] * 500, every=0.1)
    assert len(cluster.events) + len(cluster.patches) == 2


@pytest.mark.parametrize(("pause", "events"), [(355.0, 1), (365.0, 2)])
@in_fake_time
async def test_a_series_ends_after_six_minutes_of_silence(pause: float, events: int) -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, ANNOUNCE, every=pause)
        await _announce(recorder, ANNOUNCE)
    assert len(cluster.events) == events


@in_fake_time
async def test_a_series_restarts_after_its_event_is_deleted() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, ANNOUNCE)
        cluster.trouble.append(NotFound(404, "NotFound", "cleared"))
        await _announce(recorder, ANNOUNCE, ANNOUNCE)
    assert len(cluster.events) == 2
    assert [(uid, patch["series"]["count"]) for uid, patch, _ in cluster.patches] == [("e-1", 2)]


@pytest.mark.parametrize(
    "trouble",
    [
        Unreachable("connection refused"),
        ApiError(500, "InternalError", "a bad day"),
        NotLeading("not the leader"),
    ],
    ids=lambda error: type(error).__name__,
)
@in_fake_time
async def test_events_that_cannot_be_written_are_dropped(trouble: ClusterError) -> None:
    async with _recording() as (cluster, recorder):
        cluster.trouble.append(trouble)
        await _announce(recorder, ANNOUNCE, replace(ANNOUNCE, note="another"), ANNOUNCE)
    assert [event["note"] for event in cluster.events] == ["another", ANNOUNCE.note]


@in_fake_time
async def test_a_series_that_cannot_be_written_continues_counting() -> None:
    async with _recording() as (cluster, recorder):
        await _announce(recorder, ANNOUNCE)
        cluster.trouble.append(Unreachable("connection refused"))
        await _announce(recorder, ANNOUNCE, every=61.0)
        await _announce(recorder, ANNOUNCE)
    assert [patch["series"]["count"] for _, patch, _ in cluster.patches] == [3]


@in_fake_time
async def test_recording_never_blocks_and_excess_events_are_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with _recording() as (cluster, recorder):
        began = now()
        for number in range(2010):
            recorder.announce(replace(ANNOUNCE, note=f"note {number}"))
        assert now() == began
    assert len(cluster.events) == 2000
    assert "LeaderWorkerSet ns/demo GroupsProgressing: note 2005" in caplog.messages
    assert "too many pending Events, dropped: note 2005" in caplog.messages


@in_fake_time
async def test_order_is_kept() -> None:
    async with _recording() as (cluster, recorder):
        for number in range(20):
            recorder.announce(replace(ANNOUNCE, note=f"{number}"))
    assert [event["note"] for event in cluster.events] == [str(number) for number in range(20)]


@in_fake_time
async def test_the_number_of_series_is_limited() -> None:
    async with _recording() as (_, recorder):
        for number in range(5000):
            recorder.announce(replace(ANNOUNCE, note=f"{number}"))
            if number % 1000 == 0:
                await recorder.drain()
        await recorder.drain()
        assert len(recorder._known) == 4096


LEADERS = Reference("apps/v1", "StatefulSet", "ns", "demo", "u-3")


def _of_group(index: int, related: Reference | None = POD) -> Announce:
    note, fold = f"Created workers of demo-{index}", Fold("Created workers of {}", f"demo-{index}", LEADERS)
    return replace(ANNOUNCE, note=note, related=related, fold=fold)


def _notes(cluster: _Cluster) -> list[str]:
    return [event["note"] for event in cluster.events]


def _alone(*indices: int) -> list[str]:
    return [f"Created workers of demo-{index}" for index in indices]


@in_fake_time
async def test_up_to_nine_groups_have_separate_events_with_upstreams_text() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(9):
            recorder.announce(_of_group(index))
        await asyncio.sleep(0.2)
        assert _notes(cluster) == _alone(*range(9))
        assert {event["related"]["name"] for event in cluster.events} == {"demo-0"}
        await asyncio.sleep(600.0)
        assert len(cluster.events) == 9


@in_fake_time
async def test_events_of_ten_groups_in_one_window_are_combined() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(100):
            recorder.announce(_of_group(index))
            await asyncio.sleep(0.04)
        await asyncio.sleep(5.0)
        assert _notes(cluster) == [*_alone(*range(9)), "Created workers of demo-9 to demo-99"]
        related = cluster.events[-1]["related"]
        assert (related["kind"], related["name"], related["uid"]) == ("StatefulSet", "demo", "u-3")


@in_fake_time
async def test_the_tenth_group_alone_has_a_separate_event() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(10):
            recorder.announce(_of_group(index))
        await asyncio.sleep(6.0)
        assert _notes(cluster) == _alone(*range(10))


@in_fake_time
async def test_a_group_counts_once_per_window() -> None:
    async with _recording() as (cluster, recorder):
        for round_ in range(3):
            for index in range(9):
                recorder.announce(_of_group(index, replace(POD, uid=f"u-{round_}-{index}")))
        await asyncio.sleep(0.5)
        assert _notes(cluster) == _alone(*range(9)) * 3


@in_fake_time
async def test_fast_rollouts_are_combined_and_slow_ones_are_not() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(200):
            recorder.announce(_of_group(index))
            await asyncio.sleep(2.0)
        # The first nine Events, and the combined ones of the next 5, 10, 20, 40, 60, 60 … seconds.
        assert len(cluster.events) <= 9 + 4 + 6
    async with _recording() as (cluster, recorder):
        for index in range(20):
            recorder.announce(_of_group(index))
            await asyncio.sleep(8.0)
        assert _notes(cluster) == _alone(*range(20))


@in_fake_time
async def test_events_are_separate_again_after_a_quiet_minute() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(12):
            recorder.announce(_of_group(index))
        await asyncio.sleep(66.0)
        assert _notes(cluster)[9:] == ["Created workers of demo-9 to demo-11"]
        recorder.announce(_of_group(12))
        await asyncio.sleep(0.5)
        assert _notes(cluster)[-1:] == _alone(12)
        await asyncio.sleep(130.0)
        assert recorder._windows == {}


@in_fake_time
async def test_combined_events_are_written_at_shutdown() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(11):
            recorder.announce(_of_group(index))
        await recorder.drain()
        assert _notes(cluster)[9:] == ["Created workers of demo-9 to demo-10"]
        await asyncio.sleep(10.0)
        assert len(cluster.events) == 10


@in_fake_time
async def test_combined_events_are_written_at_once_before_a_deadline() -> None:
    async with _recording() as (cluster, recorder):
        for index in range(11):
            recorder.announce(_of_group(index))
        recorder.flush()
        await asyncio.sleep(0.2)
        assert _notes(cluster)[9:] == ["Created workers of demo-9 to demo-10"]
        # The next ones are delayed again, to be combined with similar ones.
        await asyncio.sleep(6.0)
        recorder.announce(_of_group(11))
        await asyncio.sleep(9.0)
        assert len(cluster.events) == 10
        await asyncio.sleep(2.0)
        assert len(cluster.events) == 11


def _scaled(before: int, after: int, name: str = "demo") -> Announce:
    note = f"Scaling up {name} from {before} to {after} replicas"
    fold = Fold("Scaling up {}", name, SET, (before, after), waits=True)
    return replace(ANNOUNCE, note=note, fold=fold)


@in_fake_time
async def test_delayed_events_are_combined_at_growing_intervals() -> None:
    async with _recording() as (cluster, recorder):
        for count in range(100):
            recorder.announce(_scaled(count, count + 1))
            await asyncio.sleep(0.9)
        # Changes are combined over 5, 10, 20, 40 … seconds.
        first, second = "Scaling up demo from 0 to 6 replicas", "Scaling up demo from 6 to 18 replicas"
        assert _notes(cluster)[:2] == [first, second]
        assert len(cluster.events) <= 5


@in_fake_time
async def test_a_final_event_follows_delayed_events_of_the_object() -> None:
    ended = replace(ANNOUNCE, note="Completed", ends=True)
    async with _recording() as (cluster, recorder):
        recorder.announce(_scaled(0, 1))
        recorder.announce(replace(_scaled(3, 4, "other"), regarding=replace(SET, uid="u-9")))
        recorder.announce(_scaled(1, 2))
        recorder.announce(ended)
        await asyncio.sleep(0.2)
        assert _notes(cluster) == ["Scaling up demo from 0 to 2 replicas", "Completed"]
        # A later Event is delayed again.
        recorder.announce(_scaled(2, 3))
        await asyncio.sleep(12.0)
        assert set(_notes(cluster)[2:]) == {
            "Scaling up other from 3 to 4 replicas",
            "Scaling up demo from 2 to 3 replicas",
        }


@in_fake_time
async def test_events_repeated_by_every_pass_are_written_once() -> None:
    announcement = replace(ANNOUNCE, related=POD, once=True)
    async with _recording() as (cluster, recorder):
        await _announce(recorder, announcement, announcement, every=3600)
        await _announce(recorder, replace(announcement, note="another"), announcement)
    assert [event["note"] for event in cluster.events] == ["Created leader statefulset demo", "another"]
    assert cluster.patches == []
