"""Tests of lws.leaderworkerset.admission.validation: names that two sets of a namespace would both need."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in
from test.unit.lws.leaderworkerset.admission.test_validation import make_set

UNIQUE = {"subdomainPolicy": "UniquePerReplica"}


def unique(lws: dict[str, Any]) -> dict[str, Any]:
    lws["spec"]["networkConfig"] = UNIQUE
    return lws


CHILD = 'metadata.name: Invalid value: "a-1": is the name of the StatefulSet or Service of group 1 of '
PARENT = 'metadata.name: Invalid value: "a": its group 1 would need a StatefulSet or Service a-1, which '


@pytest.mark.parametrize(
    ("new", "sibling", "expected"),
    [
        pytest.param(make_set("b"), make_set("a-1"), "", id="unrelated name"),
        pytest.param(make_set("a"), make_set("a"), "", id="itself"),
        pytest.param(make_set("a-1"), make_set("a"), CHILD, id="name of a group of another set"),
        pytest.param(make_set("a-2"), make_set("a"), "", id="name of a missing group"),
        pytest.param(
            make_set("a-2"), make_set("a", max_surge=1), CHILD.replace("1", "2"), id="a surge group"
        ),
        pytest.param(make_set("a-1"), make_set("a", size=1), "", id="a group without workers"),
        pytest.param(make_set("a-1"), unique(make_set("a", size=1)), CHILD, id="a group with a Service"),
        pytest.param(
            make_set("a-1"),
            make_set("a", deletionTimestamp="2026-01-01T00:00:00Z"),
            "",
            id="other set is terminating",
        ),
        pytest.param(make_set("a"), make_set("a-1"), PARENT, id="other set has the name of a group"),
        pytest.param(
            make_set("a", replicas=1), make_set("a-1"), "", id="other set has the name of a missing group"
        ),
        pytest.param(
            make_set("a", replicas=1, max_surge=1),
            make_set("a-1"),
            PARENT,
            id="other set has the name of a surge group",
        ),
        pytest.param(
            make_set("a", size=1), make_set("a-1"), "", id="other set has the name of a group without workers"
        ),
        pytest.param(make_set("a-1-0"), make_set("a"), "", id="other set has the name of a pod"),
        pytest.param(make_set("a-01"), make_set("a"), "", id="name with a leading zero"),
        pytest.param(make_set("a"), make_set("a-01"), "", id="other set has a name with a leading zero"),
    ],
)
def test_create(new: dict[str, Any], sibling: dict[str, Any], expected: str) -> None:
    errors = [str(error) for error in errors_in(new, None, [sibling])]
    assert len(errors) == (1 if expected else 0)
    assert all(message.startswith(expected) for message in errors)


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        pytest.param(
            make_set("a", replicas=3),
            make_set("a", replicas=1),
            True,
            id="scaled up to the name of another set",
        ),
        pytest.param(
            make_set("a", replicas=3, max_unavailable=2), make_set("a", replicas=3), False, id="as before"
        ),
        pytest.param(make_set("a", size=2), make_set("a", size=1), True, id="size raised from 1"),
        pytest.param(
            make_set("a", replicas=1),
            make_set("a", replicas=0),
            False,
            id="scaled up below the name of another set",
        ),
    ],
)
def test_update(new: dict[str, Any], old: dict[str, Any], refused: bool) -> None:
    assert bool(errors_in(new, old, [make_set("a-1"), new])) is refused


def test_a_set_scales_beside_a_set_with_another_name() -> None:
    assert errors_in(make_set("a", replicas=3), make_set("a", replicas=1), [make_set("a-01")]) == []


def test_an_accepted_name_remains_valid() -> None:
    old, new = make_set("a-1", replicas=1), make_set("a-1", replicas=2)
    assert errors_in(new, old, [make_set("a")]) == []


def served(name: str) -> dict[str, Any]:
    """Return a set with a Service for its leaders."""
    lws = make_set(name)
    lws["spec"]["leaderService"] = {"ports": [{"port": 80}]}
    return lws


@pytest.mark.parametrize(
    ("new", "old", "sibling", "path"),
    [
        pytest.param(make_set("a-leader"), None, make_set("a"), "", id="no Service of leaders"),
        pytest.param(
            make_set("a-leader"), None, served("a"), "metadata.name", id="another set already owns the name"
        ),
        pytest.param(
            served("a"),
            None,
            make_set("a-leader"),
            "spec.leaderService",
            id="another set would need the name",
        ),
        pytest.param(
            served("a"), make_set("a"), make_set("a-leader"), "spec.leaderService", id="added later"
        ),
        pytest.param(
            served("a"),
            served("a") | {"spec": {**served("a")["spec"], "replicas": 5}},
            make_set("a-leader"),
            "",
            id="as before",
        ),
        pytest.param(unique(make_set("a-leader")), None, served("a"), "", id="a set without a Service"),
        pytest.param(
            make_set("a-leader"),
            unique(make_set("a-leader")),
            served("a"),
            "metadata.name",
            id="Service added",
        ),
    ],
)
def test_services_of_leaders(
    new: dict[str, Any], old: dict[str, Any] | None, sibling: dict[str, Any], path: str
) -> None:
    assert [error.path for error in errors_in(new, old, [sibling])] == ([path] if path else [])
