"""Tests of lws.disaggregatedset.target and stripping: what ran before there was a history."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.revisions.record import RolesRecord, record
from lws.disaggregatedset.snapshot import ChildFacts
from lws.disaggregatedset.spec import RECORDS
from lws.disaggregatedset.target import reconstruct
from lws.history.plan import Reconstruction
from lws_api.disaggregatedset.v1 import APP_LABEL
from test.unit.lws.disaggregatedset.revisions.histories import (
    children_of,
    key_by_hash,
    make_child,
    make_dset,
    make_role,
)

OLD = make_dset(make_role("prefill", labels={"team": "a"}), make_role("decode", image="app:2"))
NEW = make_dset(make_role("prefill", image="app:9"), make_role("decode", image="app:9"))
LEADER = {"leaderTemplate": {"spec": {"containers": [{"name": "main", "image": "lead"}]}}}
POLICIES = [
    {"type": "ExclusiveSlice", "topology": "zone"},
    {"type": "ExclusiveTopology", "topology": "rack"},
    {"type": "ExclusiveTopology", "topology": "rack", "strength": "Preferred"},
]


def rebuilt(
    obj: dict[str, Any], children: tuple[ChildFacts, ...], key: str = "", is_alone: bool = True
) -> Reconstruction[RolesRecord]:
    result = reconstruct(obj, key or children[0].key, children, is_alone)
    assert result is not None
    return result


def test_children_of_the_current_template_give_the_desired_revision() -> None:
    revision = rebuilt(OLD, children_of(OLD))
    assert (revision.is_desired, revision.guessed) == (True, "")
    assert revision.record.text == record(OLD).text


@pytest.mark.parametrize("policy", [None, *POLICIES])
@pytest.mark.parametrize("slices", [1, 3])
def test_an_old_revision_is_reconstructed_from_its_children_and_verified_by_its_key(
    policy: dict[str, Any] | None, slices: int
) -> None:
    old = copy.deepcopy(OLD)
    old["spec"]["roles"][0]["spec"]["leaderWorkerTemplate"] |= copy.deepcopy(LEADER)
    if policy is not None:
        old["spec"]["placementPolicy"] = policy
    revision = rebuilt(NEW, children_of(old, slices), is_alone=False)
    assert (revision.is_desired, revision.guessed) == (False, "")
    assert revision.record.forms == record(old).forms
    assert key_of(revision.record.roles) == key_by_hash(old)
    assert revision.record.placement == policy


def test_affinity_of_users_is_kept() -> None:
    old = copy.deepcopy(OLD)
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    old["spec"]["roles"][0]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["affinity"] = affinity
    old["spec"]["placementPolicy"] = POLICIES[1]
    revision = rebuilt(NEW, children_of(old))
    assert revision.guessed == ""
    assert revision.record.forms == record(old).forms


def test_legacy_children_without_slice() -> None:
    children = tuple(make_child(OLD, name, is_legacy=True) for name in ("prefill", "decode"))
    assert rebuilt(OLD, children).is_desired
    revision = rebuilt(NEW, children)
    assert (revision.guessed, revision.record.forms) == ("", record(OLD).forms)


def test_roles_in_another_order_and_removed_roles() -> None:
    old = make_dset(*OLD["spec"]["roles"], make_role("router"))
    children = children_of(old)
    turned = make_dset(*reversed(OLD["spec"]["roles"]))
    revision = rebuilt(turned, children, is_alone=False)
    assert (revision.is_desired, revision.guessed) == (False, "")
    assert list(revision.record.roles) == ["prefill", "decode", "router"], "the order that hashes to the key"


def test_another_order_of_roles_is_no_change() -> None:
    turned = make_dset(*reversed(OLD["spec"]["roles"]))
    assert key_by_hash(turned) != key_by_hash(OLD)
    revision = rebuilt(turned, children_of(OLD))
    assert (revision.is_desired, revision.guessed) == (True, "")
    assert key_of(revision.record.roles) == key_by_hash(OLD), "recorded in the order that the key proves"


def test_a_label_of_users_that_the_set_has_overwritten_is_taken_from_the_set() -> None:
    obj = make_dset(make_role("prefill", labels={APP_LABEL: "mine"}), make_role("decode"))
    assert rebuilt(obj, children_of(obj)).record.text == record(obj).text
    # The hash of another library proves nothing.
    revision = rebuilt(obj, children_of(obj, key="0123abcd"))
    assert (revision.key, revision.is_desired, revision.guessed) == ("0123abcd", True, "")
    assert revision.record.text == record(obj).text, "the live spec, under the key that runs"


def test_an_unverified_revision_is_marked_as_guessed() -> None:
    old = make_dset(make_role("prefill", labels={APP_LABEL: "mine"}), make_role("decode"))
    revision = rebuilt(NEW, children_of(old))
    assert not revision.is_desired
    assert "labels" in revision.guessed
    assert set(revision.record.roles) == {"prefill", "decode"}
    assert revision.record.forms["decode"] == record(old).forms["decode"]


def test_a_missing_child_of_the_target_revision() -> None:
    assert rebuilt(OLD, children_of(OLD)[:1]).record.text == record(OLD).text
    revision = rebuilt(OLD, children_of(OLD, key="0123abcd")[:1])
    assert (revision.is_desired, revision.guessed) == (True, "the templates of decode")
    assert revision.record.text == record(OLD).text


def test_a_role_added_during_a_rollout_is_no_missing_child() -> None:
    more = make_dset(*OLD["spec"]["roles"], make_role("router"))
    revision = rebuilt(more, children_of(OLD), is_alone=False)
    assert (revision.is_desired, revision.guessed) == (False, "")
    assert list(revision.record.roles) == ["prefill", "decode"]
    drifted = rebuilt(more, children_of(OLD, key="0123abcd"), is_alone=False)
    assert not drifted.is_desired
    assert list(drifted.record.roles) == ["prefill", "decode"]


def test_metadata_of_a_child_is_recorded_with_an_old_role() -> None:
    old = copy.deepcopy(OLD)
    old["spec"]["roles"][0] |= {"metadata": {"labels": {"own": "x"}, "annotations": {"note": "y"}}}
    old["spec"]["roles"][0]["spec"]["startupPolicy"] = "LeaderReady"
    children = children_of(old)
    children[0].obj["metadata"]["annotations"] |= dict.fromkeys(RECORDS, "2")
    revision = rebuilt(NEW, children)
    prefill = revision.record.spec.roles[0]
    assert prefill.metadata == {"labels": {"own": "x"}, "annotations": {"note": "y"}}
    assert revision.record.roles["prefill"]["startupPolicy"] == "LeaderReady"
    assert "replicas" not in revision.record.roles["prefill"]


def test_edits_without_a_rollout_are_no_other_template() -> None:
    live = copy.deepcopy(OLD)
    for role in live["spec"]["roles"]:
        role["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
        role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["restartPolicy"] = "Always"
    revision = rebuilt(live, children_of(OLD))
    assert (revision.is_desired, revision.guessed) == (True, "")


def test_unreadable_children_give_no_revision() -> None:
    children = children_of(OLD)
    for child in children:
        child.obj["spec"]["leaderWorkerTemplate"] = {"workerTemplate": 7}
    assert reconstruct(OLD, "0123abcd", children) is None
    assert reconstruct(OLD, "0123abcd", ()) is None


def test_reconstruction_does_not_change_the_children() -> None:
    children = children_of(OLD)
    before = json.dumps([child.obj for child in children])
    rebuilt(NEW, children)
    assert json.dumps([child.obj for child in children]) == before
