"""Tests of which revision a leader was created from: two of three sources must agree, never one label."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.observe.membership import Membership, Origin, as_made, key_of_leader, with_key
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.builders import (
    make_leader_pod,
    make_leader_statefulset,
    make_worker_statefulset,
    statefulset_revision,
)
from test.unit.lws.leaderworkerset.revisions.test_keys import LEADERS, LWS, labelled, own_revision


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


def origin_of(note: str, leaders: Object = LEADERS, *stored: Object, workers: bool = False) -> Origin:
    """Return the origin of a leader with this note of the StatefulSet controller."""
    store = Store(lambda before, after: None, TABLES)
    for obj in stored:
        store.put(obj)
    leader = make_leader_pod(LWS, key="garbage", revision=note)
    own = make_worker_statefulset(leader) if workers else None
    return Membership(store, set()).origin_of(leader, leaders, own)


def test_the_statefulset_controller_labels_pods_with_their_revision() -> None:
    old, new = (statefulset_revision("demo", key) for key in ("a", "b"))
    recorded = own_revision("a", "edited")
    recorded["metadata"] |= {"uid": "uid-of-a", "resourceVersion": "1"}
    assert origin_of(old, LEADERS, recorded).controller_key == "a"
    assert origin_of(new).controller_key == "b", "the newest is the template of the StatefulSet"
    assert origin_of(old).controller_key is None
    unreported = make_leader_statefulset(LWS, status={"updateRevision": ""})
    assert origin_of("", unreported).controller_key is None
    behind = make_leader_statefulset(LWS, key="b", generation=2, observed_generation=1)
    assert origin_of(new, behind).controller_key is None, "which may have another template by now"


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
    assert origin_of(note, workers=workers).is_shown is expected


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
