"""What can be read of a stored status of a DisaggregatedSet, or of one of its scalers?

In: whatever is stored: another definition may have let anything in. Out: the same, with null in the place of
every field of ours that cannot be read, so that the next write of the status takes it away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.metadata import is_mapping
from lws.kube.types.shapes import Shapes

_FIELDS = {
    "collisionCount": "i",
    "conditions": "[Condition]",
    "currentRevision": "s",
    "lastProgressTime": "s",
    "observedGeneration": "i",
    "pending": "[s]",
    "replicas": "i",
    "roleStatuses": "[Role]",
    "rollouts": "{Rollout}",
    "selector": "s",
    "sliceStatuses": "[Slice]",
    "slices": "i",
    "updateRevision": "s",
}
_COUNTS = {"name": "s", "readyReplicas": "i", "replicas": "i", "updatedReplicas": "i"}
_SHAPES = Shapes(
    {
        "Condition": {
            "lastTransitionTime": "s",
            "message": "s",
            "observedGeneration": "i",
            "reason": "s",
            "status": "s",
            "type": "s",
        },
        "Revision": {"revision": "s", "roles": "[Role]"},
        "Role": _COUNTS,
        "Rollout": {"initialReplicas": "{i}", "revision": "s", "targets": "{i}"},
        "Slice": {"index": "i", "revisions": "[Revision]"},
    },
    {"Condition": ("type", "status"), "Role": ("name",)},
)


def readable_status(status: Any, obj: Mapping[str, Any]) -> Any:
    """The status of an object as the store keeps it; obj: the object that has it."""
    if not is_mapping(status):
        return {}
    return {
        name: None if name in _FIELDS and _SHAPES.fault(_FIELDS[name], value, name) else value
        for name, value in status.items()
    }
