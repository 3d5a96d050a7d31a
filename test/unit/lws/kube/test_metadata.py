"""lws.kube.metadata: reading metadata, also if it has unexpected types."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import (
    annotations_of,
    belongs_to_a_tool,
    controller_of,
    copied,
    inherited,
    is_controlled_by,
    is_terminating,
    labels_of,
    metadata_of,
    owner_reference,
    version_number,
    without_tool_keys,
)

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "s-0", "uid": "u1", "controller": True}
BYSTANDER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u2", "controller": False}
UNDECIDED = {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "u3"}


def owned_by(*references: Any) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": list(references)}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(owned_by(OWNER), OWNER, id="one"),
        pytest.param(owned_by(BYSTANDER, UNDECIDED, OWNER), OWNER, id="behind plain owners"),
        pytest.param(owned_by(BYSTANDER, UNDECIDED), None, id="owners without controller"),
        pytest.param(owned_by(), None, id="empty list"),
        pytest.param(owned_by("junk", OWNER), OWNER, id="junk in the list"),
        pytest.param({"metadata": {"ownerReferences": None}}, None, id="null list"),
        pytest.param({"metadata": {}}, None, id="no list"),
        pytest.param({"metadata": None}, None, id="null metadata"),
        pytest.param({}, None, id="no metadata"),
    ],
)
def test_controller_of(obj: dict[str, Any], expected: dict[str, Any] | None) -> None:
    assert controller_of(obj) == expected


@pytest.mark.parametrize(
    ("obj", "uid", "expected"),
    [
        pytest.param(owned_by(OWNER), "u1", True, id="same uid"),
        pytest.param(owned_by(OWNER), "u9", False, id="same name, other uid"),
        pytest.param(owned_by(BYSTANDER), "u2", False, id="owner but no controller"),
        pytest.param(owned_by(), "u1", False, id="orphan"),
        pytest.param(owned_by({**OWNER, "uid": ""}), "", False, id="empty uids never match"),
    ],
)
def test_is_controlled_by(obj: dict[str, Any], uid: str, expected: bool) -> None:
    assert is_controlled_by(obj, uid) is expected


def test_owner_reference_controls_and_blocks() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s-0", "namespace": "n", "uid": "u1"}}
    assert owner_reference(owner) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "s-0",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert "blockOwnerDeletion" not in owner_reference(owner, blocks_deletion=False)


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "name", "uid"])
def test_owner_reference_needs_all_parts(missing: str) -> None:
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s-0", "uid": "u1"}}
    (owner if missing in owner else owner["metadata"]).pop(missing)
    with pytest.raises(KeyError, match=missing):
        owner_reference(owner)


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "b"}, id="given"),
        pytest.param({}, {}, id="empty"),
        pytest.param(None, {}, id="null"),
        pytest.param(["a"], {}, id="list"),
        pytest.param("a", {}, id="string"),
    ],
)
def test_labels_and_annotations(field: str, value: Any, expected: dict[str, str]) -> None:
    read = labels_of if field == "labels" else annotations_of
    assert read({"metadata": {field: value}}) == expected


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": []}, {"metadata": "x"}], ids=repr)
def test_no_metadata_is_empty(obj: dict[str, Any]) -> None:
    assert (metadata_of(obj), labels_of(obj), annotations_of(obj), is_terminating(obj)) == ({}, {}, {}, False)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        pytest.param("2026-01-01T00:00:00Z", True, id="deleted"),
        pytest.param(None, False, id="null"),
    ],
)
def test_is_terminating(timestamp: str | None, expected: bool) -> None:
    assert is_terminating({"metadata": {"deletionTimestamp": timestamp}}) is expected


def test_copied_shares_nothing() -> None:
    original = {"a": {"b": [{"c": [1, "x", None, True, 1.5]}]}, "d": []}
    copy = copied(original)
    assert copy == original
    copy["a"]["b"][0]["c"].append(2)
    copy["d"].append(3)
    assert original == {"a": {"b": [{"c": [1, "x", None, True, 1.5]}]}, "d": []}


def test_version_numbers() -> None:
    assert [version_number(text) for text in ("12", "0", "", "x", "-1", "1.5")] == [12, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("key", "is_tools"),
    [
        ("kubectl.kubernetes.io/last-applied-configuration", True),
        ("objectset.rio.cattle.io/hash", True),
        ("fleet.cattle.io/bundle-id", True),
        ("argocd.argoproj.io/tracking-id", True),
        ("argocd.argoproj.io/instance", True),
        ("kustomize.toolkit.fluxcd.io/name", True),
        ("helm.toolkit.fluxcd.io/namespace", True),
        ("kapp.k14s.io/app", True),
        ("config.k8s.io/owning-inventory", True),
        ("config.kubernetes.io/origin", True),
        ("configsync.gke.io/declared-version", True),
        ("applyset.kubernetes.io/part-of", True),
        ("kro.run/owned", True),
        ("internal.kro.run/node", True),
        ("tanka.dev/environment", True),
        ("kluctl.io/discriminator", True),
        ("projectsveltos.io/reference-name", True),
        ("karmada.io/managed", True),
        ("hnc.x-k8s.io/inherited-from", True),
        ("vcluster.loft.sh/managed-by", True),
        ("work.karmada.io/permanent-id", True),
        ("aws.cdk.eks/prune-c82ececabf7", True),
        ("addon.kops.k8s.io/name", True),
        ("meta.helm.sh/release-name", True),
        ("app.kubernetes.io/instance", False),
        ("app.kubernetes.io/managed-by", False),
        ("helm.sh/chart", False),
        ("skaffold.dev/run-id", False),
        ("kubectl.kubernetes.io/restartedAt", False),
        ("kubernetes.io/change-cause", False),
        ("kueue.x-k8s.io/queue-name", False),
        ("leaderworkerset.sigs.k8s.io/exclusive-topology", False),
        ("example.com/meta.helm.sh", False),
        ("mykro.run/x", False),
        ("kro.run", False),
        ("team", False),
        ("", False),
    ],
)
def test_keys_of_deployment_tools(key: str, is_tools: bool) -> None:
    assert belongs_to_a_tool(key) is is_tools
    assert inherited({key: "x", "a": "b"}) == ({"a": "b"} if is_tools else {key: "x", "a": "b"})


def test_nothing_is_inherited_from_missing_labels() -> None:
    assert inherited(None) == inherited({}) == {}


def test_a_patch_also_removes_keys_of_deployment_tools() -> None:
    child = {
        "metadata": {
            "labels": {"kro.run/owned": "true", "team": "a"},
            "annotations": {"argocd.argoproj.io/tracking-id": "x", "note": "y"},
        }
    }
    patch = {"metadata": {"labels": {"team": "b"}}, "spec": {"replicas": 2}}
    assert without_tool_keys(child, patch) == {
        "metadata": {
            "labels": {"team": "b", "kro.run/owned": None},
            "annotations": {"argocd.argoproj.io/tracking-id": None},
        },
        "spec": {"replicas": 2},
    }
    assert patch == {"metadata": {"labels": {"team": "b"}}, "spec": {"replicas": 2}}
    assert without_tool_keys({"metadata": {"labels": {"team": "a"}}}, patch) == patch
    assert without_tool_keys({"metadata": {}}, {"spec": {}}) == {"spec": {}}
