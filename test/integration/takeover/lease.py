"""Hold the Lease in place of upstream's controller, then hand it over to the manager of the product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from test.harness.product import Product
from tools.deployment import NAMESPACE
from tools.localcluster import Api

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
_UPSTREAM = "upstream-controller"


@contextmanager
def lease_held_by_upstream(api: Api, product: Product) -> Iterator[None]:
    """Hold the Lease during the block; afterwards the product's manager takes over within seconds."""
    product.stop()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": _UPSTREAM, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    api.merge(_LEASE, {"spec": spec})
    product.start()
    yield
    assert api.get(_LEASE)["spec"]["holderIdentity"] == _UPSTREAM, "the manager did not wait for the Lease"
    api.merge(_LEASE, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
