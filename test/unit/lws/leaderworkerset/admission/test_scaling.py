"""Tests of lws.leaderworkerset.admission.validation: warnings about unready groups that stay.

The warnings appear when a user scales down.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from test.unit.lws.leaderworkerset.admission.test_validation import make_set


def standing(replicas: int, **states: str) -> dict[str, Any]:
    """Return a set with these states of groups in its status, as in g0="NotReady"."""
    unsettled = [{"name": f"vllm-{name[1:]}", "state": state} for name, state in states.items()]
    return {**make_set(replicas=replicas), "status": {"groups": {"unsettled": unsettled}}}


@pytest.mark.parametrize(
    ("old", "replicas", "staying"),
    [
        pytest.param(standing(4), 2, "", id="all are ready"),
        pytest.param(standing(4, g3="NotReady", g2="Broken"), 2, "", id="only unready groups are deleted"),
        pytest.param(standing(4, g0="NotReady", g3="NotReady"), 3, "", id="no ready group is deleted"),
        pytest.param(
            standing(4, g1="Broken", g0="NotReady"), 2, "vllm-0, vllm-1", id="two unready groups are kept"
        ),
        pytest.param(standing(4, g0="Outdated"), 2, "", id="outdated groups are ready"),
        pytest.param(standing(4, g0="NotReady"), 5, "", id="scaled up"),
        pytest.param(standing(4, g0="NotReady"), 4, "", id="not scaled"),
        pytest.param(make_set(replicas=4), 2, "", id="status is unknown"),
    ],
)
def test_scaling_down(old: dict[str, Any], replicas: int, staying: str) -> None:
    new = {**old, "spec": {**old["spec"], "replicas": replicas}}
    warnings = warnings_in(new, old)
    assert len(warnings) == bool(staying)
    assert all(f"kept are {staying}, which are not ready" in message for message in warnings)
    assert errors_in(new, old) == []
