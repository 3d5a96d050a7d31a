"""Where do the pods of a slice go: beside each other, apart from other slices, apart from other sets?

In: a placement policy, the slice, affinity as a user wrote it. Out: affinity with the terms of the original,
in its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.disaggregatedset.spec import Placement
from lws.kube.affinity import term, with_preferred, with_terms
from lws_api.disaggregatedset.v1 import NAME_LABEL, SLICE_LABEL, PlacementStrength, PlacementType


def placed(
    affinity: Mapping[str, Any] | None, placement: Placement, set_name: str, slice_index: int
) -> dict[str, Any]:
    """The affinity of the pods of a slice. affinity: that of the user, whose terms stay and come first."""
    index = str(slice_index)
    own = _expression(NAME_LABEL, "In", set_name)
    beside = term([own, _expression(SLICE_LABEL, "In", index)], placement.topology)
    others = [own, _expression(SLICE_LABEL, "NotIn", index)]
    if slice_index == 0:
        # Pods that earlier releases made carry no slice; they are those of the first one.
        others.insert(1, _expression(SLICE_LABEL, "Exists"))
    apart = [term(others, placement.topology)]
    if placement.type == PlacementType.EXCLUSIVE_TOPOLOGY:
        strangers = [
            _expression(NAME_LABEL, "Exists"),
            _expression(NAME_LABEL, "NotIn", set_name),
            _expression(SLICE_LABEL, "Exists"),
        ]
        apart.append(term(strangers, placement.topology))
    given = affinity or {}
    add = with_preferred if placement.strength == PlacementStrength.PREFERRED else with_terms
    return {
        **given,
        "podAffinity": add(given.get("podAffinity"), [beside]),
        "podAntiAffinity": add(given.get("podAntiAffinity"), apart),
    }


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    return {**expression, "values": list(values)} if values else expression
