"""test.bench.serving: the compared sets differ in one field, and the rows of the page."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.admission.validation import errors_in
from lws_api.crds import defaulted
from test.bench.serving import CASES, NODE, Case, serving_rows
from test.bench.serving_node import CASES as CASES_OF_NODE


@pytest.mark.parametrize("case", [*CASES, *CASES_OF_NODE], ids=lambda case: case.what)
def test_sets_of_two_cases_differ_by_one_field(case: Case) -> None:
    without, with_it = case.manifest(is_on=False), case.manifest(is_on=True)
    for manifest in (without, with_it):
        assert errors_in(defaulted(manifest)) == []
    spec, changed = without["spec"], with_it["spec"]
    differs = {field for field in changed if changed[field] != spec.get(field)}
    differs |= set(with_it["metadata"]["annotations"]) - set(without["metadata"]["annotations"])
    assert differs == {case.changed[0]}


def test_rows() -> None:
    assert list(serving_rows({})) == []
    result = {"cases": {"a": [30.4, 5.1]}, NODE: {"cases": {"b": [20.0, 9.9]}}}
    assert list(serving_rows(result)) == [("a", "30", "5"), ("b", "20", "10")]
