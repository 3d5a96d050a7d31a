"""lws_api.meta: guarantees of every model, and the metadata of a kind."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET
from lws_api.meta import Condition, Int32, IntOrPercent, KubeModel, ObjectMeta


class Thing(KubeModel):
    """A model for these tests."""

    needed: str
    some_number: Int32 = 7
    budget: IntOrPercent = 1


def test_serialized_names_are_camel_case() -> None:
    thing = Thing.model_validate({"needed": "a", "someNumber": 2})
    assert thing.some_number == 2
    assert thing.model_dump() == {"needed": "a", "someNumber": 2, "budget": 1}


def test_attribute_names_are_snake_case() -> None:
    assert Thing(needed="a", some_number=3).some_number == 3


def test_unknown_fields_are_preserved() -> None:
    raw = {"needed": "a", "oddThing": {"a_b": [1, None]}, "empty": None}
    assert Thing.model_validate(raw).model_dump(exclude_unset=True) == raw


@pytest.mark.parametrize("name", ["someNumber", "some_number"])
def test_null_counts_as_absent(name: str) -> None:
    assert Thing.model_validate({"needed": "a", name: None}).some_number == 7


def test_null_is_rejected_for_required_fields() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        Thing.model_validate({"needed": None})


@pytest.mark.parametrize("raw", [{"needed": 1}, {"needed": "a", "someNumber": "many"}, [], None])
def test_wrong_types_are_rejected(raw: Any) -> None:
    with pytest.raises(ValidationError):
        Thing.model_validate(raw)


def test_models_are_frozen() -> None:
    thing = Thing(needed="a")
    with pytest.raises(ValidationError, match="frozen"):
        thing.needed = "b"  # type: ignore[misc]


@pytest.mark.parametrize("value", [0, 3, "25%", "3"])
def test_an_int_or_string_keeps_its_type(value: int | str) -> None:
    budget = Thing.model_validate({"needed": "a", "budget": value}).budget
    assert (budget, type(budget)) == (value, type(value))


def test_bounds_are_not_enforced_on_reads() -> None:
    raw = {
        "type": "T",
        "status": "Maybe",
        "reason": "",
        "message": "m",
        "lastTransitionTime": "2024-05-01T10:00:00Z",
    }
    assert Condition.model_validate(raw).status == "Maybe"


def test_metadata_of_an_object() -> None:
    metadata = ObjectMeta.model_validate(
        {
            "name": "a",
            "uid": "u",
            "creationTimestamp": "2024-05-01T10:00:00Z",
            "labels": None,
            "managedFields": [],
        }
    )
    assert metadata.creation_timestamp is not None
    assert metadata.creation_timestamp.isoformat() == "2024-05-01T10:00:00+00:00"
    assert metadata.labels == {}
    assert metadata.deletion_timestamp is None


def test_names_of_a_kind() -> None:
    assert LEADER_WORKER_SET.api_version == "leaderworkerset.x-k8s.io/v1"
    assert LEADER_WORKER_SET.crd_name == "leaderworkersets.leaderworkerset.x-k8s.io"
