"""Two spellings of a template are equal to us if and only if the API server would store the same for both.

The oracle is the API server itself: a dry run of the creation of a `v1 PodTemplate`. With
HYPOTHESIS_PROFILE=nightly there are twenty times as many examples, and other ones every time.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lws.leaderworkerset.canonical import equality_form
from test.integration.revisions.rewrites import completed, rewritten
from test.integration.revisions.templates import pod_templates
from tools.localcluster import Api, ApiError
from tools.localcluster.api import Call

Object = dict[str, Any]

_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
_INVALID = 422

thoroughly = settings(
    max_examples=10_000 if _NIGHTLY else 500,
    # The same every day, but another set of them every night.
    derandomize=not _NIGHTLY,
    database=None,
    deadline=None,
    suppress_health_check=[
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
    ],
)


class Oracle:
    """What the API server makes of a template."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.seen: Counter[str] = Counter()

    def stored(self, template: Object) -> Object:
        """As it would be stored; an example that is no valid template is not counted."""
        pod_template = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "any"},
            "template": template,
        }
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        path = "/api/v1/namespaces/default/podtemplates"
        try:
            made: Object = self._api.send(Call("POST", path, pod_template, query=query))["template"]
        except ApiError as refusal:
            assert refusal.status == _INVALID, refusal
            self.seen["refused"] += 1
            assume(False)
            raise
        return made


@pytest.fixture(scope="module")
def oracle(api: Api) -> Oracle:
    return Oracle(api)


def form(template: Object) -> str:
    return equality_form({"leaderWorkerTemplate": {"workerTemplate": template}})


@thoroughly
@given(data=st.data())
def test_equal_if_and_only_if_stored_equal(oracle: Oracle, data: st.DataObject) -> None:
    template = data.draw(pod_templates())
    stored = oracle.stored(template)
    other = data.draw(rewritten(template) | completed(template, stored))
    is_equal = oracle.stored(other) == stored
    oracle.seen["equal" if is_equal else "different"] += 1
    assert (form(other) == form(template)) is is_equal
    # What is stored means what was written; what is recorded too.
    assert form(stored) == form(template)


def test_both_answers_came_up(oracle: Oracle) -> None:
    """Else the property above would have proven little."""
    if not oracle.seen:
        pytest.skip("needs the examples of the test above")
    seen = oracle.seen
    assert min(seen["equal"], seen["different"]) > 0.15 * (seen["equal"] + seen["different"]), seen
    assert seen["refused"] < seen["equal"] + seen["different"], seen
