"""Objects of a DisaggregatedSet as an API server would store them."""

from __future__ import annotations

from typing import Any

from lws.disaggregatedset.names import Identity, child_labels, child_name
from lws.disaggregatedset.revisions.record import FORMAT, RolesRecord
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.history.revision import build, draft
from lws.kube.metadata import owner_reference
from lws_api.disaggregatedset.v1 import API_VERSION, KIND
from test.unit.builders import NOW, make_set

ROLES = {"prefill": 2, "decode": 1}


def make_role(name: str, replicas: int | None = 1, image: str = "app:1", **more: Any) -> dict[str, Any]:
    """Return one role.

    replicas: None if a scaler determines it. more: other fields of the role.
    """
    rolling = more.pop("rolling", None)
    container = {"name": "main", "image": image}
    template: dict[str, Any] = {"size": 1, "workerTemplate": {"spec": {"containers": [container]}}}
    template |= {"restartPolicy": "RecreateGroupOnPodRestart"}
    spec: dict[str, Any] = {"leaderWorkerTemplate": template}
    if replicas is not None:
        spec["replicas"] = replicas
    if rolling is not None:
        spec["rolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling}
    scaling = {"scaling": {"mode": "External"}} if replicas is None else {}
    return {"name": name, "spec": spec, **scaling, **more}


def make_disaggregated(
    name: str = "demo", roles: list[dict[str, Any]] | None = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return a DisaggregatedSet. spec: other fields of the spec, in camelCase."""
    role_specs = roles if roles is not None else [make_role(*item) for item in ROLES.items()]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    obj: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
    obj |= {"spec": {"roles": role_specs, **spec}}
    return obj if status is None else {**obj, "status": status}


def make_child(owner: dict[str, Any], identity: Identity, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Return a LeaderWorkerSet that `owner` owns. more: arguments of `make_set`."""
    name, labels = owner["metadata"]["name"], child_labels(owner["metadata"]["name"], identity)
    child = make_set(child_name(name, identity), replicas=replicas, size=1, labels=labels, **more)
    child["metadata"]["ownerReferences"] = [owner_reference(owner, blocks_deletion=False)]
    return child


def make_facts(owner: dict[str, Any], identity: Identity, replicas: int = 1, **more: Any) -> ChildFacts:
    """Return the facts of a child whose groups are all ready. more: facts that differ."""
    facts: dict[str, Any] = {"existing": replicas, "ready": replicas, "is_settled": True, **more}
    return ChildFacts(
        make_child(owner, identity, replicas),
        identity.role,
        identity.slice_index,
        identity.key,
        identity.is_legacy,
        **facts,
    )


def make_snapshot(
    obj: dict[str, Any], children: tuple[ChildFacts, ...] = (), *, is_alive: bool = True, **more: Any
) -> DisaggregatedSnapshot:
    """Return the snapshot of a set.

    is_alive: whether a live read has found the set. more: other facts.
    """
    return DisaggregatedSnapshot(obj, NOW, children, set_read_live=obj if is_alive else None, **more)


def build_revision(
    owner: dict[str, Any], record: RolesRecord, key: str, number: int, generation: int | None = None
) -> dict[str, Any]:
    """Return the ControllerRevision of a DisaggregatedSet.

    generation: the generation of the set, if the revision records children.
    """
    return build(FORMAT, owner, draft(owner, key, number, record, key, generation))
