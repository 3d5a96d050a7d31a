"""Tests of the revision key of a template."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.revisions.keys import key_of_template, template_labels
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.builders import (
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
    statefulset_revision,
    trim,
)

LWS = make_set(size=3)
LEADERS = make_leader_statefulset(LWS, key="b")


def own_revision(key: str, label: str | None) -> dict[str, Any]:
    """Return the leader StatefulSet's own ControllerRevision of a template with this key.

    label: the key label of the revision itself.
    """
    labels = {"leaderworkerset.sigs.k8s.io/name": "demo"} | ({REVISION_LABEL: label} if label else {})
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": statefulset_revision("demo", key),
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [owner_reference(LEADERS)],
        },
        "data": {"spec": {"template": {"metadata": {"labels": {REVISION_LABEL: key}}, "spec": {}}}},
        "revision": 1,
    }


def labelled(obj: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return the object with an edited key label."""
    labels = {**obj["metadata"]["labels"], REVISION_LABEL: key}
    remaining = {name: value for name, value in labels.items() if value is not None}
    return {**obj, "metadata": {**obj["metadata"], "labels": remaining}}


@pytest.mark.parametrize("label", ["b", "a", "garbage", "", None])
@pytest.mark.parametrize("is_trimmed", [True, False])
def test_the_template_determines_the_key_of_its_pods(label: str | None, is_trimmed: bool) -> None:
    workers = make_worker_statefulset(make_leader_pod(LWS, key="b"))
    for holder in (LEADERS, workers, own_revision("b", "b")):
        edited = labelled(holder, label)
        assert key_of_template(trim(edited) if is_trimmed else edited) == "b"


def test_template_labels_are_stored_only_if_the_key_label_differs() -> None:
    workers, revision = make_worker_statefulset(make_leader_pod(LWS, key="b")), own_revision("b", "b")
    for holder in (workers, revision):
        assert template_labels(trim(holder)) is None
        assert template_labels(trim(labelled(holder, "a"))) is not None
    assert "selector" not in trim(workers)["spec"]


@pytest.mark.parametrize("data", [None, [], {}, {"spec": None}, {"spec": {"template": []}}, "x"])
def test_an_object_without_a_template_has_the_key_of_its_label(data: object) -> None:
    assert key_of_template({**own_revision("b", "a"), "data": data}) == "a"


@pytest.mark.parametrize("label", [{}, [], 1, None], ids=str)
def test_a_label_that_is_not_a_string_is_ignored(label: object) -> None:
    garbled = own_revision("b", "a")
    garbled["data"]["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] = label
    assert key_of_template(garbled) == key_of_template(trim(garbled)) == "a"
