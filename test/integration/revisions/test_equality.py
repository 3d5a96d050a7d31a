"""Two variants of a template are equal if and only if the API server would store the same for both.

The oracle is the API server itself: it creates a `v1 PodTemplate` as a dry run, or a StatefulSet for PVC
templates. With HYPOTHESIS_PROFILE=nightly there are twenty times as many examples, and different ones each
time.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lws.disaggregatedset.revisions.record import role_form
from lws.leaderworkerset.revisions.encoding import equality_form
from test.integration.revisions.rewrites import completed, rewritten
from test.integration.revisions.templates import claim_templates, pod_templates
from tools.localcluster import Api, ApiError
from tools.localcluster.api import Call

Object = dict[str, Any]

pytestmark = pytest.mark.kubernetes("1.37", "earlier API servers lack fields that templates are drawn from")

_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
_INVALID = 422

thoroughly = settings(
    max_examples=10_000 if _NIGHTLY else 500,
    # The same examples every day, but different ones every night.
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
    """The API server's answers about templates."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.seen: Counter[str] = Counter()

    def stored(self, template: Object) -> Object:
        """Return the template as stored. Invalid templates do not count as examples."""
        manifest = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "any"},
            "template": template,
        }
        result: Object = self._tried("/api/v1/namespaces/default/podtemplates", manifest)["template"]
        return result

    def stored_claim(self, claim: Object) -> Object:
        """Return the PVC template as stored."""
        pod = {"containers": [{"name": "any", "image": "any"}]}
        spec = {
            "serviceName": "any",
            "selector": {"matchLabels": {"app": "any"}},
            "template": {"metadata": {"labels": {"app": "any"}}, "spec": pod},
            "volumeClaimTemplates": [claim],
        }
        manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "any"}, "spec": spec}
        (result,) = self._tried("/apis/apps/v1/namespaces/default/statefulsets", manifest)["spec"][
            "volumeClaimTemplates"
        ]
        stored: Object = result
        return stored

    def _tried(self, path: str, obj: Object) -> Object:
        try:
            return self._api.send(
                Call("POST", path, obj, query={"dryRun": "All", "fieldValidation": "Strict"})
            )
        except ApiError as refusal:
            assert refusal.status == _INVALID, refusal
            self.seen["refused"] += 1
            assume(False)
            raise


@pytest.fixture(scope="module")
def oracle(api: Api) -> Oracle:
    return Oracle(api)


def form(template: Object) -> str:
    return equality_form({"leaderWorkerTemplate": {"workerTemplate": template}})


def roles(templates: dict[str, Object]) -> dict[str, str]:
    """Return the canonical forms of roles with these worker templates."""
    return {
        name: role_form({"leaderWorkerTemplate": {"workerTemplate": template}})
        for name, template in templates.items()
    }


def form_of_claim(claim: Object) -> str:
    return equality_form({"leaderWorkerTemplate": {"volumeClaimTemplates": [claim]}})


@thoroughly
@given(data=st.data())
def test_equal_if_and_only_if_stored_equal(oracle: Oracle, data: st.DataObject) -> None:
    template = data.draw(pod_templates())
    stored = oracle.stored(template)
    variant = data.draw(rewritten(template) | completed(template, stored))
    is_equal = oracle.stored(variant) == stored
    oracle.seen["equal" if is_equal else "different"] += 1
    assert (form(variant) == form(template)) is is_equal
    # The stored template means the same as the written one, and so does the recorded one.
    assert form(stored) == form(template)


@settings(thoroughly, max_examples=2_000 if _NIGHTLY else 100)
@given(data=st.data())
def test_claims_are_equal_if_and_only_if_stored_equal(oracle: Oracle, data: st.DataObject) -> None:
    claim = data.draw(claim_templates())
    stored = oracle.stored_claim(claim)
    variant = data.draw(rewritten(claim, "PersistentVolumeClaim") | completed(claim, stored))
    is_equal = oracle.stored_claim(variant) == stored
    assert (form_of_claim(variant) == form_of_claim(claim)) is is_equal
    assert form_of_claim(stored) == form_of_claim(claim)


@settings(thoroughly, max_examples=5_000 if _NIGHTLY else 500)
@given(data=st.data())
def test_roles_are_equal_if_and_only_if_each_is_stored_equal(oracle: Oracle, data: st.DataObject) -> None:
    drawn = {name: data.draw(pod_templates()) for name in ("prefill", "decode")}
    # Two roles with the same template still count as two.
    templates = {**drawn, "router": drawn["prefill"]}
    answers = {name: oracle.stored(template) for name, template in drawn.items()}
    stored = {**answers, "router": answers["prefill"]}
    variants = dict(templates)
    name = data.draw(st.sampled_from(sorted(templates)))
    variants[name] = data.draw(rewritten(templates[name]) | completed(templates[name], stored[name]))
    is_equal = oracle.stored(variants[name]) == stored[name]
    shuffled = {role: variants[role] for role in data.draw(st.permutations(sorted(variants)))}
    assert (roles(shuffled) == roles(templates)) is is_equal
    assert roles(stored) == roles(templates)


def test_both_verdicts_occurred(oracle: Oracle) -> None:
    """Otherwise the property above would have shown little."""
    if not oracle.seen:
        pytest.skip("needs the examples of the test above")
    seen = oracle.seen
    assert min(seen["equal"], seen["different"]) > 0.15 * (seen["equal"] + seen["different"]), seen
    assert seen["refused"] < seen["equal"] + seen["different"], seen
