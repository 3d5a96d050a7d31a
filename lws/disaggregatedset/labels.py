"""Labels of the objects of a DisaggregatedSet, the same as upstream's."""

from __future__ import annotations

from lws.disaggregatedset.names import Identity, app_of
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
)


def child_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Those of a child and of its pods; labels of users with the same keys give way."""
    return {**selected_labels(set_name, identity), APP_LABEL: app_of(set_name, identity)}


def selected_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Those by which the Service of a child finds its pods, and which the Service carries too."""
    labels = {
        NAME_LABEL: set_name,
        ROLE_LABEL: identity.role,
        REVISION_LABEL: identity.key,
    }
    return labels if identity.is_legacy else {**labels, SLICE_LABEL: str(identity.slice_index)}


def role_labels(set_name: str, role: str) -> dict[str, str]:
    """Those of the scaler of a role."""
    return {NAME_LABEL: set_name, ROLE_LABEL: role}
