"""Choose the fields that the store keeps for passes over DisaggregatedSets, in addition to the fields for
LeaderWorkerSets, and the changes that trigger these passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.metadata import controller_of
from lws.kube.shapes import Shapes, is_deep
from lws.kube.typed import types_of
from lws.runtime.client.resources import (
    CONTROLLER_REVISIONS,
    DISAGGREGATED_SETS,
    LEADERWORKERSETS,
    ROLE_SCALERS,
    SERVICES,
    Workload,
)
from lws.runtime.stored_fields import NONE, StoredField, StoredFields, nothing
from lws_api.disaggregatedset.v1 import (
    KIND,
    NAME_LABEL,
    SCALER_KIND,
    DisaggregatedSetStatus,
    RoleScalerStatus,
)
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND

_TYPES = types_of(DisaggregatedSetStatus)
_FIELDS = _TYPES["DisaggregatedSetStatus"] | types_of(RoleScalerStatus)["RoleScalerStatus"]
_SHAPES = Shapes(_TYPES, {"Condition": ("type", "status"), "RoleStatus": ("name",), "RoleCount": ("name",)})


def readable_status(status: Any, obj: Mapping[str, Any]) -> Any:
    """Return the readable part of an object's status, as the store keeps it."""
    return _SHAPES.readable(_FIELDS, status)


def _own_data(data: Any, revision: Mapping[str, Any]) -> Any:
    """Keep only DisaggregatedSets' data: StatefulSets' revisions match too, with their pods' labels."""
    owner = controller_of(revision)
    if owner is not None and owner.get("kind") != KIND:
        return None
    recorded = data.get("spec") if isinstance(data, dict) else None
    # Data that is nested too deeply cannot be compared.
    return data if isinstance(recorded, dict) and "roles" in recorded and not is_deep(data) else None


# DisaggregatedSets and their scalers are kept whole, because users write them. A change of the status
# triggers a pass unless it is our own write, which the routes decide.
_METADATA = ("uid", "generation", "labels", "annotations", "deletionTimestamp", "ownerReferences")
_WHOLE = (
    StoredField("metadata.managedFields", NONE, nothing),
    *(StoredField(f"metadata.{name}") for name in _METADATA),
    StoredField("status", excerpt=readable_status),
)
_COUNTS = ("observedGeneration", "replicas", "readyReplicas", "updatedReplicas", "conditions")

CHILDREN = StoredFields(
    CHILD_KIND,
    (StoredField("metadata.ownerReferences"), *(StoredField(f"status.{name}") for name in _COUNTS)),
    others=NONE,
)
"""The fields of LeaderWorkerSets to keep beyond those that passes over LeaderWorkerSets read."""

# The children of the LeaderWorkerSets are watched for LeaderWorkerSets already.
DISAGGREGATED_SET = Workload(
    DISAGGREGATED_SETS,
    NAME_LABEL,
    (LEADERWORKERSETS, SERVICES, CONTROLLER_REVISIONS, ROLE_SCALERS),
)

TABLES = (
    StoredFields(KIND, _WHOLE, others=NONE),
    StoredFields(SCALER_KIND, _WHOLE, others=NONE),
    CHILDREN,
    StoredFields("ControllerRevision", (StoredField("data", excerpt=_own_data),)),
)
"""The fields to keep of each kind, even if other passes read them too."""
