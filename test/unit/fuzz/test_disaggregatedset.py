"""Whatever is sent as a DisaggregatedSet gets an answer: good sets, and those with a few things wrong."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lws.admission import leaderworkerset
from lws.admission.defaulting import default
from lws.admission.disaggregatedset.validation import errors_in, warnings_in
from lws.admission.errors import aggregate
from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.spec import fault_of, parse
from lws.group.gang.registry import PROVIDERS
from lws_api.crds import defaulted, definitions
from lws_api.disaggregatedset.v1 import API_VERSION, KIND
from lws_api.leaderworkerset import v1
from test.integration.fields.random_values import Schema, a_value, disturbed
from test.unit.fuzz.validity import is_valid

SCHEMA: Schema = definitions()[KIND]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
CHILD: Schema = definitions()[v1.KIND]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
FIELDS: Schema = {
    "type": "object",
    "properties": {key: SCHEMA["properties"][key] for key in ("spec", "status")},
}
POD = {"spec": {"containers": [{"name": "c"}]}}
ROLE = {"spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": POD}}}


@st.composite
def sets(draw: DrawFn) -> dict[str, Any]:
    roles = [{"name": name, **copy.deepcopy(ROLE)} for name in ("a", "a-1", "b")]
    raw: dict[str, Any] = {"spec": {"roles": roles, "slices": 2}}
    for _ in range(draw(st.integers(0, 5))):
        raw = disturbed(draw, raw, FIELDS)
    if draw(st.integers(0, 9)) == 9:
        raw["spec"] = a_value(draw, FIELDS["properties"]["spec"])
    name = draw(st.sampled_from([*["llm"] * 15, "", "1", None, 7, "x" * 60]))
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}} | raw


# Shrinking a whole object would take longer than all that is drawn.
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(sets(), sets())
def test_every_set_gets_an_answer(new: dict[str, Any], old: dict[str, Any]) -> None:
    before = copy.deepcopy((new, old))
    for known, gang in itertools.product((None, old), (None, *PROVIDERS.values())):
        errors, warnings = errors_in(new, known, [old]), warnings_in(new, known, gang)
        assert all(json.dumps(warning) for warning in warnings)
        assert not errors or aggregate(errors)
    assert (new, old) == before
    assert errors_in(new, copy.deepcopy(new)) == []


# As above.
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(sets())
def test_what_is_stored_can_be_read(raw: dict[str, Any]) -> None:
    stored = defaulted(raw)
    if is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) and not errors_in(stored):
        assert fault_of(stored) == ""
        parse(stored)


# As above.
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(sets())
def test_every_child_of_a_set_that_is_stored_can_be_stored_too(raw: dict[str, Any]) -> None:
    """Whatever a set asks for, no rollout is held up by the admission of its children."""
    stored = defaulted(raw)
    if not is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) or errors_in(stored):
        return
    stored["metadata"] |= {"namespace": "default", "uid": "u"}
    spec = parse(stored)
    for role in spec.roles:
        for replicas in {0, 1, role.replicas}:
            made = build_child(stored, role, spec.placement, (spec.slices - 1, "0" * 8), replicas)
            child = defaulted(made)
            default(child)
            assert is_valid(child["spec"], CHILD["properties"]["spec"])
            assert leaderworkerset.errors_in(child) == []
