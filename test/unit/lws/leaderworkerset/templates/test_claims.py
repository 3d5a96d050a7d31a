"""Tests of lws.leaderworkerset.templates.claims: the PVCs of pods, and their owners."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.ownership import owners_with, owners_without
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.claims import (
    build_leader_storage,
    build_worker_storage,
    common_claim,
    plan_owners,
)
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.runtime.actions import SetOwner
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    NAME_LABEL,
    WORKER_INDEX_LABEL,
)
from test.unit import api_server
from test.unit.builders import make_set

CLAIM = {
    "metadata": {
        "name": "data",
        "labels": {"tier": "fast"},
        "annotations": {"note": "x"},
        "finalizers": ["f"],
    },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}, "claims": []},
        "selector": {"matchLabels": {"disk": "a"}},
        "volumeName": "v-1",
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "golden"},
        "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "golden"},
        "volumeAttributesClassName": "quick",
        "nothing": None,
    },
    "status": {},
}
OF_DEFAULT = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
COMMON = {
    **OF_DEFAULT,
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
    },
}
WHOLE = {
    **OF_DEFAULT,
    "metadata": {
        "name": "data",
        "namespace": "default",
        "labels": {"tier": "fast"},
        "annotations": {"note": "x"},
    },
    "spec": {
        **COMMON["spec"],
        "selector": {"matchLabels": {"disk": "a"}},
        "volumeName": "v-1",
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "golden"},
        "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "golden"},
        "volumeAttributesClassName": "quick",
    },
}
RETENTION, CLAIMS = "persistentVolumeClaimRetentionPolicy", "volumeClaimTemplates"
RETAIN = {"whenDeleted": "Retain", "whenScaled": "Retain"}


@pytest.mark.parametrize(
    ("template", "leaders", "workers"),
    [
        pytest.param({}, {}, {}, id="none"),
        pytest.param({CLAIMS: []}, {}, {}, id="empty list"),
        pytest.param({CLAIMS: None}, {}, {}, id="null"),
        pytest.param({CLAIMS: [CLAIM]}, {CLAIMS: [WHOLE]}, {CLAIMS: [WHOLE]}, id="all that the user wrote"),
        pytest.param(
            {CLAIMS: [{"metadata": {"name": "data"}}]},
            {
                CLAIMS: [
                    {
                        **OF_DEFAULT,
                        "metadata": {"name": "data", "namespace": "default"},
                        "spec": {"resources": {}},
                    }
                ]
            },
            {
                CLAIMS: [
                    {
                        **OF_DEFAULT,
                        "metadata": {"name": "data", "namespace": "default"},
                        "spec": {"resources": {}},
                    }
                ]
            },
            id="a claim without a spec",
        ),
        pytest.param(
            {RETENTION: {"whenDeleted": "Delete", "whenScaled": "Retain"}},
            {RETENTION: {"whenDeleted": "Delete", "whenScaled": "Retain"}},
            {RETENTION: RETAIN},
            id="retention: claims of workers outlive a rebuild of their group",
        ),
        pytest.param(
            {RETENTION: {"whenScaled": "Delete", "whenDeleted": ""}},
            {RETENTION: {"whenDeleted": "Retain", "whenScaled": "Delete"}},
            {RETENTION: RETAIN},
            id="half of a retention",
        ),
        pytest.param({RETENTION: {}}, {RETENTION: RETAIN}, {RETENTION: RETAIN}, id="empty retention"),
    ],
)
def test_storage(template: dict[str, Any], leaders: dict[str, Any], workers: dict[str, Any]) -> None:
    lws = make_set(template=copy.deepcopy(template))
    before = copy.deepcopy(lws)
    assert build_leader_storage(lws) == leaders
    assert build_worker_storage(lws) == workers
    spec = build_leader_statefulset(SetSpec.of(lws), "k1", RollingUpdate(0, 2, 1))["spec"]
    assert {field: spec[field] for field in (CLAIMS, RETENTION) if field in spec} == leaders
    for claim in build_leader_storage(lws).get(CLAIMS, ()):
        claim["spec"].clear()
        claim["metadata"].clear()
    assert lws == before


def test_common_fields_of_claims_of_every_release() -> None:
    assert common_claim(CLAIM, "default") == COMMON


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param([COMMON], COMMON, id="created by an earlier release"),
        pytest.param([WHOLE], WHOLE, id="created by this release"),
        pytest.param([], WHOLE, id="other claims: the API server rejects the change"),
    ],
)
def test_stored_claim_templates_are_not_changed(
    stored: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    lws = make_set(template={CLAIMS: [CLAIM]})
    statefulset = build_leader_statefulset(SetSpec.of(lws), "k1", RollingUpdate(0, 2, 1))
    statefulset["spec"][CLAIMS] = [
        {**copy.deepcopy(claim), "status": {"phase": "Pending"}} for claim in stored
    ]
    assert build_leader_storage(lws, api_server.stored(statefulset)) == {CLAIMS: [expected]}


# --- Owners -------------------------------------------------------------------------------------------------

STATEFULSET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "demo-0",
    "uid": "u-1",
    "controller": True,
}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-2"}
SET = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "name": "demo",
    "uid": "uid-of-set-demo",
}


def claim_of(*owners: dict[str, Any], group: int = 0, **labels: str) -> dict[str, Any]:
    """Return the PVC of a worker."""
    own = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: str(group), GROUP_KEY_LABEL: "k"}
    metadata: dict[str, Any] = {"name": "data-demo-0-1", "namespace": "default", "uid": "u-c"}
    metadata |= {"resourceVersion": "7", "labels": {**own, **labels}}
    return {**OF_DEFAULT, "metadata": metadata | ({"ownerReferences": list(owners)} if owners else {})}


@pytest.mark.parametrize(
    ("when_deleted", "claim", "owners"),
    [
        pytest.param("Delete", claim_of(), [SET], id="deleted with the set"),
        pytest.param("Delete", claim_of(OTHER), [OTHER, SET], id="other owners are kept"),
        pytest.param("Delete", claim_of(SET), None, id="owned already"),
        pytest.param("Delete", claim_of(STATEFULSET), None, id="an earlier release's StatefulSet decides"),
        pytest.param("Delete", claim_of(group=7), None, id="of a missing group"),
        pytest.param("Delete", claim_of(**{WORKER_INDEX_LABEL: "0"}), None, id="of a leader"),
        pytest.param("Retain", claim_of(), None, id="retained"),
        pytest.param("Retain", claim_of(SET, OTHER), [OTHER], id="retained from now on"),
        pytest.param("Retain", claim_of(SET, group=7), [], id="retained from now on, of a missing group"),
        pytest.param(None, claim_of(SET), [], id="Retain is the default"),
    ],
)
def test_owners_of_claims(
    when_deleted: str | None, claim: dict[str, Any], owners: list[dict[str, Any]] | None
) -> None:
    policy = {RETENTION: {"whenDeleted": when_deleted}} if when_deleted else {}
    planned = plan_owners(make_set(template={CLAIMS: [CLAIM], **policy}), [0, 1], [claim])
    if owners is None:
        assert planned == ()
        return
    (action,) = planned
    assert isinstance(action, SetOwner)
    assert (action.target.name, action.target.uid, action.patch) == ("data-demo-0-1", "u-c", {})
    change = owners_with if action.is_owner else owners_without
    assert change(claim, action.owner) == owners


def test_a_terminating_claim_is_left_alone() -> None:
    claim = claim_of()
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert plan_owners(make_set(template={RETENTION: {"whenDeleted": "Delete"}}), [0], [claim]) == ()
