from __future__ import annotations

from test.unit.tools.demo.objects import make_event, make_view
from tools.demo.tour import verify_event

EVENT = make_event("RecreateGroup", "Worker pod a-1 failed")


def test_an_event_with_the_reason() -> None:
    check = verify_event(make_view(events=[make_event("Other", "a-1"), EVENT]), "RecreateGroup", "a-1")
    assert check.held
    assert check.claim == "an Event says why, RecreateGroup: Worker pod a-1 failed"


def test_an_event_with_another_reason_does_not_count() -> None:
    check = verify_event(make_view(events=[make_event("Other", "a-1")]), "RecreateGroup", "a-1")
    assert not check.held and check.actual == "only Other"


def test_an_event_about_another_pod_does_not_count() -> None:
    check = verify_event(make_view(events=[EVENT]), "RecreateGroup", "b-1")
    assert not check.held and check.actual == "['Worker pod a-1 failed']"


def test_events_about_other_objects_do_not_count() -> None:
    about_pod = make_event("RecreateGroup", "a-1", kind="Pod")
    assert not verify_event(make_view(events=[about_pod]), "RecreateGroup", "a-1").held
