"""Tests of the length of names, and of roles that cannot be in one set."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from test.unit.lws.disaggregatedset.admission.builders import (
    EXTERNAL,
    Object,
    make_role,
    make_set,
    messages,
)


def of_lengths(of_set: int, of_role: int, slices: int = 1, **role: Any) -> Object:
    return make_set(make_role("r" * of_role, **role), make_role("b"), name="s" * of_set, slices=slices)


@pytest.mark.parametrize(("slices", "combined"), [(1, 47), (10, 47), (11, 46), (100, 46)])
def test_the_name_of_a_service(slices: int, combined: int) -> None:
    """Rule 8."""
    (message,) = messages(of_lengths(20, combined - 19, slices))
    assert message == (
        f'spec.roles[0].name: Invalid value: "{"r" * (combined - 19)}": the generated service name '
        f"(64 chars) would exceed the DNS-1035 limit of 63 characters; reduce the DisaggregatedSet name "
        f"and/or role name (combined limit: {combined} characters)"
    )
    (message,) = messages(of_lengths(20, combined - 20, slices))
    assert "service name" not in message


ROOM = {
    "groups of one": (40, {}),
    "groups with workers": (38, {"size": 2}),
    "ten groups": (38, {"size": 2, "replicas": 10}),
    "eleven groups": (37, {"size": 2, "replicas": 11}),
    "eleven with surge": (37, {"size": 2, "replicas": 10, "max_surge": 1}),
    "more than a hundred": (36, {"size": 2, "replicas": 101}),
    "eleven slices": (39, {"slices": 11}),
}


@pytest.mark.parametrize(("room", "role"), ROOM.values(), ids=ROOM.keys())
def test_the_name_of_every_pod(room: int, role: Object) -> None:
    """Warts 25 and 39: the length is measured at the target with surge, not only at what is created first."""
    assert messages(of_lengths(room - 10, 10, **role)) == []
    (message,) = messages(of_lengths(room - 9, 10, **role))
    assert message.startswith('spec.roles[0].name: Invalid value: "rrrrrrrrrr": the LeaderWorkerSet ')
    assert message.endswith(f"(combined limit: {room} characters)")


@pytest.mark.parametrize(("room", "size"), [(42, 1), (31, 2)])
def test_the_name_of_every_pod_of_groups_with_keys(room: int, size: int) -> None:
    def errors_of_role(length: int) -> list[str]:
        role = {"size": size, "replicas": 101, "groupIdentity": "Hash"}
        return [
            message for message in messages(of_lengths(length - 10, 10, **role)) if "roles[0].name" in message
        ]

    assert errors_of_role(room) == []
    (message,) = errors_of_role(room + 1)
    assert message == (
        'spec.roles[0].name: Invalid value: "rrrrrrrrrr": the generated names (64 chars) would exceed the '
        "DNS-1035 limit of 63 characters; reduce the DisaggregatedSet name and/or role name (combined limit: "
        f"{room} characters)"
    )


def test_an_update_with_long_names_is_accepted_unless_names_get_longer() -> None:
    old = of_lengths(40, 10, slices=2)
    assert len(messages(old)) == 2
    for slices, role, refused in (
        (1, {}, False),
        (10, {}, False),
        (11, {}, True),
        (2, {"replicas": 2}, True),
        (2, {"replicas": 0}, False),
        (2, {"size": 2}, True),
        (2, {"max_surge": 1}, True),
    ):
        assert bool(messages(of_lengths(40, 10, slices, **role), old)) == refused
    with_another = copy.deepcopy(old)
    with_another["spec"]["roles"].append(make_role("r" * 11))
    assert [message[:18] for message in messages(with_another, old)] == ["spec.roles[2].name"]


@pytest.mark.parametrize("name", ["1a", "a.b"])
def test_the_name_of_a_set_must_be_a_dns_1035_label(name: str) -> None:
    """Wart 24: the API server accepts the name, but no child could be created."""
    (message,) = messages(make_set(name=name))
    assert message.startswith(f'metadata.name: Invalid value: "{name}": a DNS-1035 label must consist of')
    assert messages(make_set(make_role("a"), make_role("b"), name=name), make_set(name=name)) == []


UNIQUE: Object = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
COLLISIONS: dict[str, tuple[Object, Object, bool]] = {
    "group 1": (make_role("a", size=2, replicas=2), make_role("a-1"), True),
    "group 1 in a rollout": (make_role("a", size=2, max_surge=1), make_role("a-1"), True),
    "a missing group": (make_role("a", size=2), make_role("a-1"), False),
    "groups of one": (make_role("a", replicas=2), make_role("a-1"), False),
    "groups of one, each with a Service": (make_role("a", replicas=2, **UNIQUE), make_role("a-1"), True),
    "any group that a scaler may ask for": (make_role("a", size=2) | EXTERNAL, make_role("a-77"), True),
    "no index": (make_role("a", size=2) | EXTERNAL, make_role("a-01"), False),
    "the Service of a role": (make_role("a"), make_role("a-prv"), True),
    "no Service of all pods": (make_role("a"), make_role("a-prv", **UNIQUE), False),
    "the Service of leaders": (
        make_role("a", leaderService={"ports": [{"port": 1}]}),
        make_role("a-leader"),
        True,
    ),
    "no Service of leaders": (make_role("a"), make_role("a-leader"), False),
    "another suffix": (make_role("a", size=2, replicas=2), make_role("a-b"), False),
    "no dash": (make_role("a", size=2, replicas=2), make_role("a1"), False),
}


@pytest.mark.parametrize(("first", "second", "refused"), COLLISIONS.values(), ids=COLLISIONS.keys())
def test_role_names_that_collide(first: Object, second: Object, refused: bool) -> None:
    """Wart 43."""
    errors = messages(make_set(first, second))
    assert bool(errors) == refused
    for message in errors:
        assert message.startswith(
            f'spec.roles[1].name: Invalid value: "{second["name"]}": collides with role "a": '
        )


def test_an_update_is_rejected_only_for_groups_that_collide() -> None:
    def with_groups(replicas: int) -> Object:
        return make_set(make_role("a", size=2, replicas=replicas), make_role("a-2"))

    assert len(messages(with_groups(3), with_groups(2))) == 1
    assert messages(with_groups(4), with_groups(3)) == []
    assert messages(with_groups(2), with_groups(1)) == []
