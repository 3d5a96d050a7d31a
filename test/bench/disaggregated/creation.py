"""Measure how long a DisaggregatedSet with slices and a scaled role takes to become available.

Its writes are counted from the audit log.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lws_api.disaggregatedset import v1 as disaggregatedset
from test.bench.disaggregated.manifests import a_disaggregated_set, disaggregated_name
from test.bench.disaggregated.shape import PairedShape
from test.bench.ledger import DISAGGREGATED, SETS, Ledger
from test.bench.manifests import OLD, Object
from tools.localcluster.api import Api

SLICES = 3
_PATIENCE = 600.0


def a_sliced_set(shape: PairedShape) -> Object:
    """Return a DisaggregatedSet with slices, whose last role has a scaler."""
    dset = a_disaggregated_set(shape, 0, OLD)
    *roles, last = dset["spec"]["roles"]
    spec = {field: value for field, value in last["spec"].items() if field != "replicas"}
    scaled = {"name": last["name"], "scaling": {"mode": "External"}, "spec": spec}
    return {**dset, "spec": {"slices": SLICES, "roles": [*roles, scaled]}}


def create_sliced(api: Api, shape: PairedShape, namespace: str, check: Callable[[], None]) -> float:
    """Create a set with slices and return the seconds. check: raises if the controller has ended."""
    ledger = Ledger(api, namespace, SETS, DISAGGREGATED)
    ledger.check = check
    began = time.monotonic()
    api.create(
        f"/apis/{disaggregatedset.API_VERSION}/namespaces/{namespace}/{DISAGGREGATED}", a_sliced_set(shape)
    )

    def missing() -> str:
        if len(ledger.sets) != SLICES * shape.role_count:
            return f"{len(ledger.sets)} sets"
        return "" if ledger.disaggregated.get(disaggregated_name(0)) else "it is not available"

    ledger.wait(missing, _PATIENCE)
    ledger.close()
    return time.monotonic() - began
