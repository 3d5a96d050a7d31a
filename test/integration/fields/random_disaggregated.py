"""Generate DisaggregatedSets from the committed CRD: valid ones, and ones with wrong values."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lws_api.crds import definitions
from lws_api.disaggregatedset.v1 import API_VERSION, KIND
from test.integration.fields.random_values import Schema, a_value, disturbed

SCHEMA: Schema = definitions()[KIND]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
FIELDS: Schema = {
    "type": "object",
    "properties": {key: SCHEMA["properties"][key] for key in ("spec", "status")},
}
_POD = {"spec": {"containers": [{"name": "c", "image": "app:1"}]}}
_ROLE = {"spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": _POD}}}


@st.composite
def disaggregated_sets(draw: DrawFn) -> dict[str, Any]:
    roles = [{"name": name, **copy.deepcopy(_ROLE)} for name in ("a", "a-1", "b")]
    raw: dict[str, Any] = {"spec": {"roles": roles, "slices": 2}}
    for _ in range(draw(st.integers(0, 5))):
        raw = disturbed(draw, raw, FIELDS)
    if draw(st.integers(0, 9)) == 9:
        raw["spec"] = a_value(draw, FIELDS["properties"]["spec"])
    name = draw(st.sampled_from([*["llm"] * 15, "", "1", None, 7, "x" * 60]))
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}} | raw
