"""Tests of lws.disaggregatedset.admission.validation: roles that autoscalers scale."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.admission.facts import facts_of
from lws.disaggregatedset.admission.validation import errors_in, scaler_errors
from test.unit.lws.disaggregatedset.admission.builders import (
    EXTERNAL,
    Object,
    beside,
    make_role,
    make_set,
    messages,
    warnings,
)


def test_ignored_replicas_cause_a_warning() -> None:
    """Rule 6."""
    assert warnings(make_set(*beside(make_role(replicas=4) | EXTERNAL))) == [
        'role "prefill" sets scaling.mode: External and spec.replicas: 4 — spec.replicas is ignored; drive '
        'replicas via DisaggregatedSetRoleScaler "llm-prefill" instead'
    ]
    assert warnings(make_set(*beside(make_role(replicas=1) | EXTERNAL))) == []


def test_a_scaler_that_counts_all_slices_causes_a_warning() -> None:
    """Rule 7 of upstream rejects it."""
    raw = make_set(*beside(make_role() | EXTERNAL), slices=3)
    assert messages(raw) == []
    (warning,) = warnings(raw)
    assert warning.startswith("spec.slices: 3 with scaling.mode External of prefill: ")
    assert warnings(make_set(slices=3)) == []


def test_a_scaler_with_a_too_long_name_is_rejected() -> None:
    """Rule 5. The limits of other names reject such a name earlier."""
    facts = facts_of(make_set(*beside(make_role() | EXTERNAL), name="x" * 246))
    (error,) = scaler_errors(facts, facts.roles[0])
    scaler = f"{'x' * 246}-prefill"
    assert str(error) == (
        f'spec.roles[0].name: Invalid value: "prefill": would produce scaler name "{scaler}" '
        f"exceeding 253 characters"
    )
    assert list(scaler_errors(facts, facts.roles[1])) == []


def test_two_sets_cannot_have_scalers_of_the_same_name() -> None:
    """Wart 18."""
    scaled, static = make_set(*beside(make_role("c") | EXTERNAL), name="a-b"), make_role("b-c") | EXTERNAL
    theirs = [scaled, make_set(*beside(static), name="a"), {"spec": {"roles": 1}}]
    (error,) = errors_in(scaled, None, theirs)
    assert str(error) == (
        'spec.roles[0].name: Invalid value: "c": would need the DisaggregatedSetRoleScaler a-b-c, which '
        "DisaggregatedSet a has: choose another name"
    )
    not_scaled = make_set(*beside(make_role("c")), name="a-b")
    assert len(errors_in(scaled, not_scaled, theirs)) == 1
    assert errors_in(scaled | {"status": {}}, scaled, theirs) == []
    with_another_role = make_set(*scaled["spec"]["roles"], make_role("d"), name="a-b")
    assert errors_in(with_another_role, scaled, theirs) == []
    theirs[1]["metadata"]["deletionTimestamp"] = "2024-05-01T10:00:00Z"
    assert errors_in(scaled, None, theirs) == []


def test_sets_with_other_names_are_not_parsed() -> None:
    class Unread(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            pytest.fail("it is read")

        get = __getitem__

    unread = Unread(spec={})
    assert errors_in(make_set(*beside(make_role("c")), name="a-b"), None, [unread]) == []
    external = make_set(*beside(make_role("c") | EXTERNAL), name="a-b")
    named_otherwise = {"metadata": {"name": "b"}, "spec": unread}
    assert errors_in(external, external, [unread]) == [] == errors_in(external, None, [named_otherwise])


def scaled(running: int | None) -> Object:
    old = make_set(*beside(make_role() | EXTERNAL))
    if running is not None:
        old["status"] = {"roleStatuses": [{"name": "decode"}, {"name": "prefill", "replicas": running}]}
    return old


@pytest.mark.parametrize(
    ("running", "slices", "is_warned"), [(12, 1, True), (2, 2, False), (3, 2, True), (None, 1, False)]
)
def test_removing_a_scaler_warns_of_deleted_groups(running: int | None, slices: int, is_warned: bool) -> None:
    """Wart 7."""
    new = make_set(slices=slices)
    expected = (
        f"spec.roles[0].spec.replicas: role prefill has {running} groups by its scaler and will have "
        f"{slices}, 1 in each slice: set replicas to keep more"
    )
    assert warnings(new, scaled(running)) == ([expected] if is_warned else [])


def test_lowering_replicas_causes_no_warning() -> None:
    old = make_set(*beside(make_role(replicas=5)))
    assert (
        warnings(make_set(), old | {"status": {"roleStatuses": [{"name": "prefill", "replicas": 5}]}}) == []
    )


def test_a_malformed_status_causes_no_warning() -> None:
    for statuses in (1, [1], [{"name": "prefill"}], [{"name": "prefill", "replicas": "9"}]):
        old = scaled(None) | {"status": {"roleStatuses": statuses}}
        assert warnings(make_set(), old) == []
