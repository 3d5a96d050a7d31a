"""Tests of which revision an object was created from: two of three sources must agree, never one label."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.revisions.keys import (
    STATEFULSET_REVISION_LABEL,
    as_made,
    key_of_leader,
    key_of_template,
    made_from,
    origin_of,
    template_labels,
    with_key,
)
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


@pytest.mark.parametrize(
    ("carried", "noted", "of_workers", "expected"),
    [
        pytest.param("b", "b", "b", "b", id="nothing was edited"),
        pytest.param("garbage", "b", "b", "b", id="the label of the leader was edited"),
        pytest.param("a", "b", "b", "b", id="to that of an older revision"),
        pytest.param(None, "b", "b", "b", id="removed"),
        pytest.param("garbage", "b", None, "b", id="before there are workers"),
        pytest.param("b", "a", "b", "b", id="the label of the StatefulSet controller was edited"),
        pytest.param("b", None, "b", "b", id="to an unknown revision"),
        pytest.param("b", "b", "a", "b", id="workers adopted from a former leader"),
        pytest.param("garbage", None, "b", "b", id="both labels were edited: the workers show it"),
        pytest.param("b", None, None, "b", id="only the label is left"),
        pytest.param(None, None, None, None, id="nothing is left"),
    ],
)
def test_two_of_three_sources_determine_the_revision_of_a_leader(
    carried: str | None, noted: str | None, of_workers: str | None, expected: str | None
) -> None:
    leader = labelled(make_leader_pod(LWS), carried)
    workers = make_worker_statefulset(make_leader_pod(LWS), key=of_workers) if of_workers else None
    assert key_of_leader(leader, workers, noted) == expected


def test_the_statefulset_controller_labels_pods_with_their_revision() -> None:
    old, new = (statefulset_revision("demo", key) for key in ("a", "b"))
    assert made_from(old, LEADERS, own_revision("a", "edited")) == "a"
    assert made_from(new, LEADERS, None) == "b", "the newest is the template of the StatefulSet"
    assert made_from(old, LEADERS, None) is None
    assert made_from("", make_leader_statefulset(LWS, status={"updateRevision": ""}), None) is None
    behind = make_leader_statefulset(LWS, key="b", generation=2, observed_generation=1)
    assert made_from(new, behind, None) is None, "which may have another template by now"


@pytest.mark.parametrize(
    ("note", "workers", "expected"),
    [
        pytest.param(statefulset_revision("demo", "b"), False, True, id="a note that the StatefulSet knows"),
        pytest.param("garbage", True, True, id="workers"),
        pytest.param("garbage", False, False, id="neither"),
        pytest.param("", False, False, id="no note"),
    ],
)
def test_the_origin_of_a_leader_is_shown_by_more_than_its_label(
    note: str, workers: bool, expected: bool
) -> None:
    leader = make_leader_pod(LWS, key="garbage", revision=note)
    own = make_worker_statefulset(leader) if workers else None
    assert origin_of(leader, LEADERS, own, None).is_shown is expected


def test_setting_an_equal_key_returns_the_same_pod() -> None:
    leader = make_leader_pod(LWS, key="a")
    assert with_key(leader, "a") is leader
    assert with_key(leader, None) is leader
    assert with_key(leader, "b")["metadata"]["labels"][REVISION_LABEL] == "b"
    assert leader["metadata"]["labels"][REVISION_LABEL] == "a"


def test_a_contradicted_revision_label_does_not_make_a_leader_updated() -> None:
    leader = make_leader_pod(LWS, key="a")
    noted = as_made(leader, "a", "b")
    assert STATEFULSET_REVISION_LABEL not in noted["metadata"]["labels"]
    assert noted["metadata"]["labels"][REVISION_LABEL] == "a"
    for key in ("a", None):
        assert as_made(leader, "a", key) is leader
