"""Tests of the Events of rollout steps, and of how many steps one Event combines."""

from __future__ import annotations

import pytest

from lws.disaggregatedset import events
from lws.disaggregatedset.snapshot import ChildFacts
from lws.runtime.actions import Announce, Reference
from lws.runtime.events import Window, combine, fold_key
from test.unit.builders import make_set
from test.unit.lws.disaggregatedset.sets import make_disaggregated

LLM = make_disaggregated()


def _child(role: str, replicas: int, key: str = "new", slice_index: int = 0) -> ChildFacts:
    obj = make_set(f"llm-{slice_index}-{key}-{role}", replicas=replicas)
    return ChildFacts(obj, role, slice_index, key)


def _scaled(role: str, before: int, after: int) -> Announce:
    return events.scaled(LLM, _child(role, before), after)


@pytest.mark.parametrize(
    ("announce", "reason", "note"),
    [
        pytest.param(
            _scaled("prefill", 1, 2),
            "ScalingUp",
            "Scaling up prefill LWS llm-0-new-prefill from 1 to 2 replicas",
            id="up",
        ),
        pytest.param(
            _scaled("decode", 2, 0),
            "ScalingDown",
            "Scaling down decode LWS llm-0-new-decode from 2 to 0 replicas",
            id="down",
        ),
        pytest.param(
            events.deleted_drained(LLM, _child("decode", 0)),
            "LWSDeleted",
            "Deleted drained LWS llm-0-new-decode",
            id="drained",
        ),
        pytest.param(
            events.deleted_with_slice(LLM, _child("decode", 1, slice_index=3)),
            "LWSDeleted",
            "Deleted LWS llm-3-new-decode for removed slice 3",
            id="slice",
        ),
    ],
)
def test_a_single_event_has_the_text_of_upstream(announce: Announce, reason: str, note: str) -> None:
    assert (combine([announce]).reason, combine([announce]).note) == (reason, note)
    assert combine([announce]).related is not None
    assert not Window(0.0).is_written_alone(announce), "the event waits for others"


def test_one_event_reports_all_roles_of_a_step() -> None:
    step = [_scaled("prefill", 1, 2), _scaled("decode", 0, 1)]
    assert fold_key(step[0]) == fold_key(step[1])
    combined = combine(step)
    assert combined.note == (
        "Scaling up prefill LWS llm-0-new-prefill from 1 to 2 replicas, "
        "decode LWS llm-0-new-decode from 0 to 1 replicas"
    )
    assert combined.related == Reference.to(LLM)


def test_consecutive_steps_are_combined_from_first_to_last_count() -> None:
    steps = [_scaled("decode", 4, 3), _scaled("prefill", 2, 1), _scaled("decode", 3, 2)]
    assert combine(steps).note == (
        "Scaling down decode LWS llm-0-new-decode from 4 to 2 replicas, "
        "prefill LWS llm-0-new-prefill from 2 to 1 replicas"
    )


def test_scaling_up_and_down_are_reported_separately() -> None:
    assert fold_key(_scaled("decode", 1, 2)) != fold_key(_scaled("decode", 2, 1))


def test_one_event_lists_objects_deleted_together() -> None:
    deletions = [events.deleted_drained(LLM, _child(role, 0, "old")) for role in ("prefill", "decode")]
    assert combine(deletions).note == "Deleted drained LWS llm-0-old-decode, llm-0-old-prefill"


def test_the_end_of_a_rollout_is_reported_after_its_steps() -> None:
    assert events.rollout_started(LLM, "new").ends and events.rollout_completed(LLM, "new").ends
