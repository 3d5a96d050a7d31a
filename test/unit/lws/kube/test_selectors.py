"""lws.kube.metadata: a LabelSelector as the text of a query parameter."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import as_query


@pytest.mark.parametrize(
    ("selector", "query"),
    [
        pytest.param({}, "", id="everything"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, "", id="nulls"),
        pytest.param({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
            "a in (1,2)",
            id="in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]},
            "a notin (1)",
            id="not in",
        ),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a", id="exists"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a", id="does not exist"
        ),
        pytest.param(
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            "a=1,b",
            id="both",
        ),
    ],
)
def test_a_selector_as_a_query(selector: dict[str, Any], query: str) -> None:
    assert as_query(selector) == query


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="no operator 'Near'"):
        as_query({"matchExpressions": [{"key": "a", "operator": "Near"}]})
