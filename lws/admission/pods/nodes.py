"""Which nodes does a leader get that its set asks for group by group?

In: the pod as the API server decoded it. Out: fields of its spec; or a refusal. Workers have them from the
template of their StatefulSet, by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.admission.errors import Refused
from lws.admission.shapes import object_in, objects_in
from lws.kube.metadata import annotations_of, labels_of, metadata_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset.templates.node_selection import nodes_of_group, selects_by_group, with_tolerations
from lws_api.leaderworkerset.placement import PLACEMENT_GATE
from lws_api.leaderworkerset.v1 import NAME_LABEL


def node_fields(raw: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """What replaces fields of the spec of a leader pod; empty where its set does not ask for it.

    Its scheduling gate goes: with these fields the pod may be scheduled.
    """
    annotations = annotations_of(raw)
    if not selects_by_group(annotations):
        return {}
    name, set_name = metadata_of(raw)["name"], labels_of(raw)[NAME_LABEL]
    pod = object_in("spec", raw.get("spec"))
    own = objects_in("spec.tolerations", pod.get("tolerations"))
    try:
        nodes = nodes_of_group(annotations, namespace, set_name, parent_and_ordinal(name)[1])
    except ValueError as error:
        raise Refused(f"nodes for pod {name}: {error}; mend LeaderWorkerSet {set_name}") from error
    found: dict[str, Any] = {}
    if nodes.node_selector:
        found["nodeSelector"] = {
            **object_in("spec.nodeSelector", pod.get("nodeSelector")),
            **nodes.node_selector,
        }
    if nodes.tolerations:
        found["tolerations"] = with_tolerations(own, nodes.tolerations)
    if gates := objects_in("spec.schedulingGates", pod.get("schedulingGates")):
        found["schedulingGates"] = [each for each in gates if each != {"name": PLACEMENT_GATE}]
    return found
