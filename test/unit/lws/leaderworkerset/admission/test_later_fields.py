"""Tests that fields of newer releases are rejected unless they describe what happens anyway.

Upstream's own rules come first.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in
from lws.leaderworkerset.scheduling import ASSUMED, NO_SCHEDULER, Scheduler
from test.unit.lws.leaderworkerset.admission.test_validation import make_set


def with_fields(template: dict[str, Any] | None = None, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    lws = make_set(replicas=replicas)
    lws["spec"] |= spec
    lws["spec"]["leaderWorkerTemplate"] |= template or {}
    return lws


HASH, IMMEDIATE = {"groupIdentity": "Hash"}, {"groupReplacementPolicy": "Immediate"}
SCHEDULED = {"scheduling": {"replica": {"schedulingPolicy": {"gang": {"minCount": 2}}}}}
ORDINAL = {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}


@pytest.mark.parametrize("fields", [{}, ORDINAL, {"groupIdentity": "", "scheduling": None}])
def test_defaults_of_newer_fields_are_accepted(fields: dict[str, Any]) -> None:
    assert errors_in(with_fields(**fields)) == []
    assert errors_in(with_fields(**fields), with_fields()) == []
    assert errors_in(with_fields(), with_fields(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            IMMEDIATE,
            'spec.groupReplacementPolicy: Invalid value: "Immediate": Immediate is only supported with '
            "groupIdentity Hash",
            id="immediate",
        ),
        pytest.param(
            {"scheduling": {}},
            "spec.scheduling: Forbidden: requires the WorkloadAwareScheduling feature gate",
            id="scheduling",
        ),
    ],
)
def test_unsupported_values_are_rejected_with_a_reason(fields: dict[str, Any], message: str) -> None:
    (error,) = errors_in(with_fields(**fields), scheduler=NO_SCHEDULER)
    assert str(error).startswith(message)


@pytest.mark.parametrize("provider", ["kubernetes", "volcano"])
def test_a_set_with_a_parent_workload_is_rejected_with_a_reason(provider: str) -> None:
    """The set has everything that upstream requires."""
    lws = with_fields(scheduling={})
    lws["metadata"] |= {
        "annotations": {
            "scheduling.k8s.io/group-template-name": "prefill",
            "scheduling.k8s.io/parent-compositepodgroup": "model",
        },
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Parent", "name": "p", "uid": "u", "controller": True}
        ],
    }
    (error,) = errors_in(lws, scheduler=Scheduler(True, provider))
    assert str(error).startswith(
        "spec.scheduling: Invalid value: {}: joining the Workload of a parent is not supported: remove "
    )


@pytest.mark.parametrize("fields", [HASH, {**HASH, **IMMEDIATE}])
def test_hash_groups_are_accepted(fields: dict[str, Any]) -> None:
    assert errors_in(with_fields(**fields)) == []


@pytest.mark.parametrize("fields", [HASH, {**HASH, **IMMEDIATE}, SCHEDULED])
def test_updates_that_do_not_change_these_fields_are_accepted(
    fields: dict[str, Any],
) -> None:
    before = with_fields(**fields)
    finalized = {**before, "metadata": {**before["metadata"], "finalizers": ["example.com/keep"]}}
    for scheduler in (NO_SCHEDULER, ASSUMED, Scheduler(True, "scheduler-plugins")):
        assert errors_in(finalized, before, scheduler=scheduler) == []
        assert errors_in(with_fields(**fields, replicas=5), before, scheduler=scheduler) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param({}, HASH, "groupIdentity is immutable", id="none to hash"),
        pytest.param(ORDINAL, HASH, "groupIdentity is immutable", id="ordinal to hash"),
        pytest.param(HASH, {}, "groupIdentity is immutable", id="hash to none"),
        pytest.param(HASH, ORDINAL, "groupIdentity is immutable", id="hash to ordinal"),
        pytest.param(SCHEDULED, {}, "cannot remove scheduling after creation", id="scheduling to none"),
        pytest.param({}, {"scheduling": {}}, "cannot add scheduling after creation", id="none to scheduling"),
        pytest.param(SCHEDULED, {"scheduling": {}}, "field is immutable", id="other scheduling"),
    ],
)
def test_identity_and_scheduling_are_immutable(
    before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    (error,) = errors_in(with_fields(**after), with_fields(**before), scheduler=Scheduler(True, "volcano"))
    assert message in str(error)
