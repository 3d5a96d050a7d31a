"""Builders of DisaggregatedSets and their objects, as an API server stores them.

Keyword arguments have sensible defaults. Each builder returns a new plain dict that a test may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lws.disaggregatedset.names import Identity, child_name
from lws.kube.metadata import owner_reference
from lws.runtime.children import ChildOwner
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import API_VERSION, INITIAL_REPLICAS_ANNOTATION, KIND

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

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


@dataclass(frozen=True)
class Kid:
    """A child as plans see it. Its object is computed from the fields."""

    role: str
    key: str = KEY
    slice_index: int = 0
    desired: int = 1
    ready: int = 1
    is_legacy: bool = False
    is_terminating: bool = False
    initial: str | None = None
    generation: int = 1

    @property
    def existing(self) -> int:
        return max(self.desired, self.ready)

    @property
    def obj(self) -> dict[str, Any]:
        identity = Identity(self.slice_index, self.key, self.role, self.is_legacy)
        annotations = {INITIAL_REPLICAS_ANNOTATION: self.initial} if self.initial is not None else {}
        name = child_name("llm", identity)
        metadata = {"name": name, "annotations": annotations, "generation": self.generation}
        return {"kind": "LeaderWorkerSet", "metadata": metadata, "spec": {"replicas": self.desired}}


@dataclass(frozen=True)
class Seen:
    """The facts of a pass over a set."""

    obj: dict[str, Any]
    children: tuple[Kid, ...] = ()
    services: tuple[dict[str, Any], ...] = ()
    scalers: tuple[dict[str, Any], ...] = ()
    strangers: Mapping[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    owners_alive: frozenset[str] = frozenset()
    is_alive: bool = True
    now: datetime = NOW

    def of_slice(self, index: int) -> tuple[Kid, ...]:
        return tuple(child for child in self.children if child.slice_index == index)

    @property
    def owner(self) -> ChildOwner:
        reference = owner_reference(self.obj, blocks_deletion=False)
        return ChildOwner(
            KIND, "llm", reference, self.is_alive, "the {kind} has no owner", "the set to be alive"
        )
