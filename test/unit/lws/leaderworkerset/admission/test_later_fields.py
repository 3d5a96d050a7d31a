"""Newer manifests are accepted if they say what happens, else refused."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in
from test.unit.lws.leaderworkerset.admission.test_validation import make_set

LIMIT = "spec.leaderWorkerTemplate.maxGroupRestarts"


def with_fields(template: dict[str, Any] | None = None, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    made = make_set(replicas=replicas)
    made["spec"] |= spec
    made["spec"]["leaderWorkerTemplate"] |= template or {}
    return made


HASH, IMMEDIATE = {"groupIdentity": "Hash"}, {"groupReplacementPolicy": "Immediate"}
SCHEDULED = {"scheduling": {"replica": {"schedulingPolicy": {"gang": {"minCount": 2}}}}}
ORDINAL = {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}


@pytest.mark.parametrize("fields", [{}, ORDINAL, {"groupIdentity": "", "scheduling": None}])
def test_what_is_done_anyway_is_accepted(fields: dict[str, Any]) -> None:
    assert errors_in(with_fields(**fields)) == []
    assert errors_in(with_fields(**fields), with_fields()) == []
    assert errors_in(with_fields(), with_fields(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param(
            HASH,
            'spec.groupIdentity: Invalid value: "Hash": groups have ordinals here, and their leaders are '
            "pods of a StatefulSet: leave the field out or write Ordinal",
            id="hash",
        ),
        pytest.param(
            IMMEDIATE,
            'spec.groupReplacementPolicy: Invalid value: "Immediate": a group is made anew here once its '
            "former pods are gone, never before: leave the field out or write PostTermination",
            id="immediate",
        ),
        pytest.param(
            {"scheduling": {}},
            "spec.scheduling: Invalid value: {}: no Workload is made for the scheduler here: leave the field",
            id="scheduling",
        ),
    ],
)
def test_what_would_run_as_something_else_is_refused_with_a_sentence(
    fields: dict[str, Any], says: str
) -> None:
    for before in (None, with_fields()):
        (error,) = errors_in(with_fields(**fields), before)
        assert str(error).startswith(says)


@pytest.mark.parametrize("fields", [HASH, {**HASH, **IMMEDIATE}, SCHEDULED])
def test_updates_of_a_stored_one_that_leave_these_fields_alone_are_not_refused(
    fields: dict[str, Any],
) -> None:
    before = with_fields(**fields)
    finalized = {**before, "metadata": {**before["metadata"], "finalizers": ["example.com/keep"]}}
    assert errors_in(finalized, before) == []
    assert errors_in(with_fields(**fields, replicas=5), before) == []


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        pytest.param(HASH, {}, "groupIdentity is immutable", id="hash to none"),
        pytest.param(HASH, ORDINAL, "groupIdentity is immutable", id="hash to ordinal"),
        pytest.param(SCHEDULED, {}, "cannot remove scheduling after creation", id="scheduling to none"),
        pytest.param(SCHEDULED, {"scheduling": {}}, "no Workload is made", id="other scheduling"),
    ],
)
def test_what_the_original_made_of_a_set_cannot_be_taken_back(
    before: dict[str, Any], after: dict[str, Any], says: str
) -> None:
    (error,) = errors_in(with_fields(**after), with_fields(**before))
    assert says in str(error)


RECREATING = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


@pytest.mark.parametrize("policy", RECREATING)
@pytest.mark.parametrize("limit", [0, 3])
def test_the_limit_of_restarts_of_the_original_is_accepted(policy: str, limit: int) -> None:
    assert errors_in(with_fields({"restartPolicy": policy, "maxGroupRestarts": limit})) == []


def test_it_needs_a_policy_that_recreates_groups() -> None:
    (error,) = errors_in(with_fields({"restartPolicy": "None", "maxGroupRestarts": 3}))
    says = "maxGroupRestarts is only supported when restartPolicy recreates the group"
    assert str(error) == f"{LIMIT}: Invalid value: 3: {says}"


def test_it_is_refused_beside_our_own() -> None:
    (error,) = errors_in(with_fields({"maxGroupRestarts": 3}, maxGroupRestarts=3))
    says = "cannot be beside spec.maxGroupRestarts, which says the same: keep one of them"
    assert str(error) == f"{LIMIT}: Invalid value: 3: {says}"
