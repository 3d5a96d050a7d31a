"""Tests of lws.disaggregatedset.admission.validation: order of errors, and what counts in an update."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.lws.disaggregatedset.admission.builders import (
    EXTERNAL,
    Object,
    make_role,
    make_set,
    messages,
    warnings,
)

ROLLING = "rolloutStrategy.rollingUpdateConfiguration"
PARTITIONED: Object = {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 1}}}


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(make_set(), id="a minimal set"),
        pytest.param(
            make_set(make_role("a", max_unavailable="20%", max_surge=1), make_role("b", replicas=8)),
            id="budgets",
        ),
        pytest.param(make_set(make_role("a", replicas=0), make_role("b", replicas=0)), id="nothing runs"),
        pytest.param(
            make_set(make_role("a") | EXTERNAL, make_role("b"), slices=3), id="External with slices"
        ),
        pytest.param(
            make_set(placementPolicy={"type": "ExclusiveSlice", "topology": "topology.kubernetes.io/zone"}),
            id="placement",
        ),
        pytest.param(make_set(make_role("a"), make_role("b") | {"startAfter": ["a"]}), id="start order"),
        pytest.param(make_set(*(make_role(f"r{number}") for number in range(10))), id="ten roles"),
    ],
)
def test_valid_sets_are_accepted(raw: Object) -> None:
    assert messages(raw) == []
    assert messages(raw, copy.deepcopy(raw)) == []


def everything_wrong() -> Object:
    long = "x" * 44
    return make_set(
        make_role("a", **PARTITIONED)
        | {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}}, "startAfter": ["z"]},
        make_role(long, max_unavailable=0, max_surge=0)
        | {"metadata": {"labels": {"disaggregatedset.x-k8s.io/role": "b"}}},
        name="long",
        placementPolicy={"type": "ExclusiveTopology"},
    )


def test_errors_of_roles_precede_those_of_names_placement_and_new_fields() -> None:
    assert [(str(error.complaint), error.path) for error in errors_in(everything_wrong())] == [
        ("Forbidden", f"spec.roles[0].spec.{ROLLING}.partition"),
        ("Invalid value", f"spec.roles[1].spec.{ROLLING}.maxUnavailable"),
        ("Invalid value", "spec.roles[1].name"),
        ("Required value", "spec.placementPolicy.topology"),
        ("Forbidden", "spec.roles[0]"),
        ("Unsupported value", "spec.roles[0].startAfter[0]"),
        ("Forbidden", "spec.roles[1].metadata.labels[disaggregatedset.x-k8s.io/role]"),
    ]


UPDATES_THAT_BRING_NOTHING = {
    "an annotation": lambda new: new["metadata"].update(annotations={"a": "b"}),
    "a finalizer taken away": lambda new: new["metadata"].update(finalizers=[]),
    "roles in another order": lambda new: new["spec"]["roles"].reverse(),
    "another image": lambda new: set_image(new["spec"]["roles"][0], "i:2"),
    "more groups, as far as names go": lambda new: new["spec"]["roles"][0]["spec"].update(replicas=2),
    "fewer slices": lambda new: new["spec"].update(slices=1),
    "another role": lambda new: new["spec"]["roles"].append(make_role("c")),
    "a history limit": lambda new: new["spec"].update(revisionHistoryLimit=3),
}


def set_image(role: Object, image: str) -> None:
    role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = image


@pytest.mark.parametrize("change", UPDATES_THAT_BRING_NOTHING.values(), ids=UPDATES_THAT_BRING_NOTHING.keys())
def test_an_update_is_validated_for_its_changes(change: Any) -> None:
    """Wart 38: an object that an older release accepted stays editable."""
    old = everything_wrong()
    old["spec"]["slices"] = 2
    new = copy.deepcopy(old)
    change(new)
    assert messages(new, old) == []


def test_changes_of_an_update_are_validated_as_on_creation() -> None:
    for index, role in enumerate(everything_wrong()["spec"]["roles"]):
        old = everything_wrong()
        old["spec"]["roles"][index] = make_role(role["name"])
        brought = [error.path for error in errors_in(everything_wrong(), old)]
        assert any(path.startswith(f"spec.roles[{index}]") for path in brought)
        assert not any(path.startswith(f"spec.roles[{1 - index}]") for path in brought)


def test_replacing_one_invalid_value_by_another_is_rejected() -> None:
    old = make_set(make_role("a", **PARTITIONED), make_role("b"))
    new = copy.deepcopy(old)
    new["spec"]["roles"][0]["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = 2
    assert len(messages(new, old)) == 1


def test_every_change_of_a_terminating_set_is_accepted() -> None:
    new = everything_wrong()
    new["metadata"]["deletionTimestamp"] = "2024-05-01T10:00:00Z"
    assert messages(new, make_set()) == []
    assert warnings(new, make_set()) == []


def test_a_new_template_may_have_other_subgroups() -> None:
    """A LeaderWorkerSet cannot change its subgroups, but another revision has LeaderWorkerSets of its own."""
    old = make_set(
        make_role("a", size=4, leaderWorkerTemplate={"subGroupPolicy": {"subGroupSize": 2}}), make_role("b")
    )
    assert messages(make_set(make_role("a", size=4), make_role("b")), old) == []
    assert messages(old, make_set(make_role("a", size=4), make_role("b"))) == []


def test_each_warning_is_returned_once() -> None:
    role = make_role("a", replicas=3) | EXTERNAL | {"metadata": {"labels": {"app": "x"}}}
    raw = make_set(role, make_role("b"), slices=2)
    assert len(warnings(raw)) == 3
    edited = copy.deepcopy(raw)
    edited["spec"]["roles"].reverse()
    set_image(edited["spec"]["roles"][0], "i:2")
    assert warnings(edited, raw) == []


WRONG_SHAPES: dict[str, tuple[Object, str]] = {
    "no spec": ({"metadata": {"name": "a"}, "spec": 1}, "spec: Invalid value: 1: must be an object"),
    "roles": ({"spec": {"roles": {}}}, "spec.roles: Invalid value: {}: must be a list"),
    "a role": ({"spec": {"roles": [1]}}, "spec.roles[0]: Invalid value: 1: must be an object"),
    "a name": ({"spec": {"roles": [{}]}}, "spec.roles[0].name: Invalid value: null: must be a string"),
    "slices": ({"spec": {"slices": True}}, "spec.slices: Invalid value: true: must be an integer"),
    "labels": (
        {"spec": {"roles": [{"name": "a", "metadata": {"labels": {"a": 1}}}]}},
        'spec.roles[0].metadata.labels: Invalid value: {"a":1}: must be an object whose values are strings',
    ),
    "order": (
        {"spec": {"roles": [{"name": "a", "startAfter": [1]}]}},
        "spec.roles[0].startAfter: Invalid value: [1]: must be a list of strings",
    ),
    "size": (
        {"spec": {"roles": [{"name": "a", "spec": {"leaderWorkerTemplate": {"size": "1"}}}]}},
        'spec.roles[0].spec.leaderWorkerTemplate.size: Invalid value: "1": must be an integer',
    ),
}


@pytest.mark.parametrize(("raw", "message"), WRONG_SHAPES.values(), ids=WRONG_SHAPES.keys())
def test_values_of_the_wrong_type(raw: Object, message: str) -> None:
    assert messages(raw) == [message]
    assert warnings_in(raw) == []
    assert messages(make_set(), raw) == [], "the stored set may be malformed"


def test_a_set_without_any_field_does_not_crash_validation() -> None:
    assert messages({}) == ["metadata.name: Required value: name or generateName is required"]
    assert warnings({}) == []


def test_numbers_that_upstream_cannot_read_are_rejected() -> None:
    raw = make_set(make_role("a", max_unavailable=2**32), make_role("b"), revisionHistoryLimit=2**31)
    role = "spec.roles[0].spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"
    assert messages(raw) == [
        f"{path}: Invalid value: {value}: json: cannot unmarshal number {value} into Go value of type int32"
        for path, value in (("spec.revisionHistoryLimit", 2**31), (role, 2**32))
    ]
