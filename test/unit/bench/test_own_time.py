"""test.bench.own_time: times between the events that a manager receives and the writes that it sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.bench.own_time import FAILED, MADE, Own, Recorder, figures, read
from test.unit.builders import make_leader_pod, make_set, make_worker_pod, make_worker_statefulset


class _Clock:
    """Both clocks of a recorder; the second runs at half the speed of the first."""

    now = 0.0

    def recorder(self) -> Recorder:
        return Recorder(lambda: self.now, lambda: self.now / 2)


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


LEADER = make_leader_pod(make_set(), 0)
WORKER = make_worker_pod(make_worker_statefulset(LEADER), 1)
NAME = LEADER["metadata"]["name"]
FAILING = {
    **WORKER,
    "status": {**WORKER.get("status", {}), "containerStatuses": [{"name": "main", "restartCount": 1}]},
}


def test_time_from_a_failed_worker_to_the_deletion_of_its_leader_excludes_writes(clock: _Clock) -> None:
    recorder = clock.recorder()
    recorder.heard(WORKER)
    clock.now = 10.0
    recorder.heard(FAILING)
    clock.now = 13.0
    recorder.answered(11.0)
    # The status of the pod changes again, but the pod has failed only once.
    recorder.heard(FAILING)
    clock.now = 14.0
    recorder.requested(FAILED, NAME)
    recorder.requested(FAILED, NAME)
    assert recorder.found == [Own(10.0, FAILED, NAME, 2.0, 2.0)]


def test_time_from_a_new_leader_to_the_creation_of_its_workers(clock: _Clock) -> None:
    recorder = clock.recorder()
    recorder.answered(-1.0)
    recorder.heard(LEADER)
    clock.now = 0.5
    recorder.heard(LEADER)
    recorder.requested(MADE, "another")
    recorder.requested(MADE, NAME)
    assert recorder.found == [Own(0.0, MADE, NAME, 0.5, 0.25)]


def test_figures_include_only_later_events_of_one_kind(tmp_path: Path) -> None:
    events = [
        Own(1.0, FAILED, "a", 9.0, 9.0),
        Own(2.0, FAILED, "b", 0.004, 0.003),
        Own(3.0, MADE, "c", 1.0, 1.0),
    ]
    recorder = Recorder(found=events)
    recorder.write(tmp_path / "manager.1.own")
    assert read(tmp_path / "manager.1.own") == events
    assert figures(events, FAILED, since=2.0) == {
        "inside p50": 4.0,
        "inside p99": 4.0,
        "inside, CPU p50": 3.0,
        "inside, CPU p99": 3.0,
    }
    assert figures(events, FAILED, since=5.0) == {}
