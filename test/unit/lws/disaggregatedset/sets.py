"""Builders of DisaggregatedSets and their objects, as an API server stores them.

Keyword arguments have sensible defaults. Each builder returns a new plain dict that a test may change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import API_VERSION, INITIAL_REPLICAS_ANNOTATION, KIND
from test.unit.disaggregated import make_facts, make_snapshot

KEY = "980bcb92"
OWNER = {"apiVersion": API_VERSION, "kind": KIND, "name": "llm", "uid": "uid-llm", "controller": True}


def make_role(name: str = "prefill", image: str = "nginx:1.29.3", **fields: Any) -> dict[str, Any]:
    """Return a role with one container.

    fields: more fields of its spec, or of the role itself in `role`.
    """
    of_role = fields.pop("role", {})
    container = {"name": "worker", "image": image}
    template = {"workerTemplate": {"spec": {"containers": [container]}}, **fields.pop("template", {})}
    return {"name": name, "spec": {"leaderWorkerTemplate": template, **fields}, **of_role}


def make_disaggregated(*roles: dict[str, Any], generation: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a DisaggregatedSet with the defaults of its definition.

    spec: more fields of its spec.
    """
    dset = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "llm", "namespace": "default", "uid": "uid-llm", "generation": generation},
        "spec": {"roles": list(roles) or [make_role("prefill"), make_role("decode")], **spec},
    }
    return defaulted(dset)


SET = make_disaggregated()


def facts(
    role: str,
    key: str = KEY,
    slice_index: int = 0,
    *,
    desired: int = 1,
    ready: int = 1,
    is_legacy: bool = False,
    initial: str | None = None,
    **metadata: Any,
) -> ChildFacts:
    """Return a child as plans see it.

    initial: its groups when the rollout began, as its annotation records them.
    metadata: more fields of its metadata.
    """
    identity = Identity(slice_index, key, role, is_legacy)
    child = make_facts(SET, identity, desired, existing=max(desired, ready), ready=ready)
    annotations = {INITIAL_REPLICAS_ANNOTATION: initial} if initial is not None else {}
    stored = {**child.obj["metadata"], "annotations": annotations, **metadata}
    return replace(child, obj={**child.obj, "metadata": stored})


def snapshot_of(
    obj: dict[str, Any],
    children: tuple[ChildFacts, ...] = (),
    services: tuple[dict[str, Any], ...] = (),
    **more: Any,
) -> DisaggregatedSnapshot:
    """Return the snapshot of a set. more: other facts, and `is_alive`."""
    return make_snapshot(obj, children, services=services, **more)
