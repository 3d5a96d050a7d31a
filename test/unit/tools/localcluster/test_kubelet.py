"""tools.localcluster.kubelet: which pods are ended, and when."""

from __future__ import annotations

from typing import Any

import pytest

from tools.localcluster.kubelet import STOPS_AFTER, stopping_time, waits_for_kubelet


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"deletionTimestamp": "now", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}, False),
        (
            {
                "deletionTimestamp": "now",
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["foregroundDeletion"],
            },
            False,
        ),
        (
            {
                "deletionTimestamp": "now",
                "deletionGracePeriodSeconds": 30,
                "finalizers": ["foregroundDeletion"],
            },
            True,
        ),
    ],
    ids=["alive", "deleted", "forced", "ended but held", "deleted and held"],
)
def test_waits_for_kubelet(metadata: dict[str, Any], expected: bool) -> None:
    assert waits_for_kubelet(metadata) is expected


@pytest.mark.parametrize(
    ("annotations", "seconds"),
    [
        ({}, 0),
        ({STOPS_AFTER: "2.5"}, 2.5),
        ({STOPS_AFTER: "100"}, 30),
        ({STOPS_AFTER: "never"}, None),
        ({STOPS_AFTER: "soon"}, 0),
    ],
    ids=["at once", "slow", "killed at the end of the grace period", "stuck", "not a number"],
)
def test_stopping_time(annotations: dict[str, str], seconds: float | None) -> None:
    metadata = {"name": "pod-0", "annotations": annotations, "deletionGracePeriodSeconds": 30}
    assert stopping_time(metadata) == seconds
