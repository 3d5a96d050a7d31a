"""Tests of lws.disaggregatedset.revisions.record and proof: how a target state is stored and read back."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from lws.disaggregatedset.revisions.record import (
    FORMAT,
    PROOF_ANNOTATION,
    is_ours,
    read,
    record,
)
from lws.history.revision import CHANGE_CAUSE_ANNOTATION
from lws.runtime.actions import Verbatim
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL
from test.unit.disaggregated import build_revision
from test.unit.lws.disaggregatedset.revisions.histories import (
    key_by_hash,
    make_dset,
    make_role,
    revision_of,
    stored,
)
from test.unit.seeds import for_each_seed

RICH = make_role("prefill", image="a:1", networkConfig={"subdomainPolicy": "UniquePerReplica"})
RICH |= {"metadata": {"labels": {"team": "a"}}, "scaling": {"mode": "External"}, "startAfter": ["decode"]}
NUMBERS = (0, -1, 2**70, 1.5, float("inf"))
GARBAGE: tuple[Any, ...] = (*NUMBERS, None, "", "x", "\ud800", True, [], [None], {}, {"a": {}})


def test_the_recorded_object() -> None:
    policy = {"type": "ExclusiveSlice", "topology": "zone"}
    obj = make_dset(RICH, make_role("decode"), placementPolicy=policy, rolloutStrategy={"paused": True})
    key = key_by_hash(obj)
    revision = build_revision(obj, record(obj), key, 3)
    noted = revision["metadata"].pop("annotations")
    assert revision == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"llm-{key}-3",
            "namespace": "default",
            "labels": {NAME_LABEL: "llm", REVISION_LABEL: key},
            "ownerReferences": [
                {
                    "apiVersion": "disaggregatedset.x-k8s.io/v1",
                    "kind": "DisaggregatedSet",
                    "name": "llm",
                    "uid": "uid-of-llm",
                    "controller": True,
                }
            ],
        },
        "revision": 3,
        "data": Verbatim(record(obj).text),
    }
    assert set(noted) == {PROOF_ANNOTATION}
    data = json.loads(record(obj).text)["spec"]
    assert set(data) == {"roles", "placementPolicy"}, "fields outside the target state are not recorded"
    assert data["placementPolicy"] == policy
    assert [role["name"] for role in data["roles"]] == ["prefill", "decode"]
    without = {key: value for key, value in RICH["spec"].items() if key != "replicas"}
    assert data["roles"][0] == {**RICH, "spec": without}, "the complete role except replicas"


def test_a_recorded_revision_is_read_back() -> None:
    obj = make_dset(RICH, make_role("decode"))
    revision = read(revision_of(obj, 5))
    assert (revision.number, revision.key, revision.broken) == (5, key_by_hash(obj), "")
    assert (revision.is_orphan, revision.is_terminating, revision.generation) == (False, False, None)
    assert list(revision.record.roles) == ["prefill", "decode"]
    metadata = [role.metadata for role in revision.record.spec.roles]
    assert metadata == [{"labels": {"team": "a"}}, {}]
    assert revision.record.text == record(obj).text
    assert revision.record.forms == record(obj).forms


def test_the_change_cause_is_recorded() -> None:
    obj = make_dset()
    obj["metadata"]["annotations"] = {CHANGE_CAUSE_ANNOTATION: "new model", "other": "x"}
    revision = build_revision(obj, record(obj), "0123abcd", 1)
    assert revision["metadata"]["annotations"][CHANGE_CAUSE_ANNOTATION] == "new model"
    assert "other" not in revision["metadata"]["annotations"]
    assert (
        CHANGE_CAUSE_ANNOTATION
        not in build_revision(obj, record(obj), "0123abcd", 1, 4)["metadata"]["annotations"]
    )


def test_the_key_is_read_from_the_immutable_name() -> None:
    revision = revision_of(make_dset(), 1, labels={REVISION_LABEL: "edited"})
    assert read(revision).key == key_by_hash(make_dset())
    assert read(revision).labels == {REVISION_LABEL: "edited"}
    assert [
        FORMAT.fingerprint_in(name)
        for name in ("a-0123abcd-7", "a-b-0123abcd-7", "a-0123abcd", "0123abcd-7", "")
    ] == [
        *["0123abcd"] * 2,
        *[""] * 3,
    ]


def test_a_reconstructed_revision_has_the_generation() -> None:
    obj = make_dset()
    revision = stored(build_revision(obj, record(obj), "0123abcd", 1, 4))
    assert (read(revision).generation, read(revision).broken) == (4, "")
    revision["metadata"]["annotations"] = {}
    assert "other data than its name says" in read(revision).broken, (
        "neither a sum nor the key proves the data"
    )


def test_a_missing_or_wrong_checksum_is_ignored_if_the_key_matches_the_data() -> None:
    revision = revision_of(make_dset())
    for noted in (None, {}, {PROOF_ANNOTATION: "{"}, {PROOF_ANNOTATION: '{"sum":"0","generation":"9"}'}):
        revision["metadata"]["annotations"] = noted
        assert (read(revision).broken, read(revision).generation) == ("", None)


def test_an_edited_generation_is_ignored() -> None:
    obj = make_dset()
    revision = stored(build_revision(obj, record(obj), key_by_hash(obj), 1, 4))
    noted = json.loads(revision["metadata"]["annotations"][PROOF_ANNOTATION])
    revision["metadata"]["annotations"] = {PROOF_ANNOTATION: json.dumps({**noted, "generation": "9"})}
    assert (read(revision).broken, read(revision).generation) == ("", None)


def test_replaced_data_are_not_used() -> None:
    revision = revision_of(make_dset())
    revision["data"]["spec"]["roles"][0]["spec"]["leaderWorkerTemplate"]["size"] = 3
    stored_revision = read(revision)
    assert "other data than its name says" in stored_revision.broken
    assert not stored_revision.record.roles


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "data.spec"),
        ({"spec": {}}, "data.spec.roles is missing"),
        ({"spec": {"roles": []}}, "data.spec.roles is empty"),
        ({"spec": {"roles": [{"name": "a"}]}}, "data.spec.roles[0].spec is missing"),
        ({"spec": {"leaderWorkerTemplate": {}}}, "data.spec.roles is missing"),
        (
            {"spec": {"roles": [{"name": "a", "spec": {"leaderWorkerTemplate": {}}}]}},
            "workerTemplate is missing",
        ),
    ],
)
def test_broken_revisions_say_why(data: Any, words: str) -> None:
    revision = read({**revision_of(make_dset()), "data": data})
    assert words in revision.broken
    assert revision.name in revision.broken
    assert not revision.record.forms


@for_each_seed(300)
def test_no_stored_value_raises_an_exception(seed: int) -> None:
    chance = random.Random(seed)
    revision = revision_of(make_dset(RICH, make_role("decode")))
    obj = make_dset()
    for _ in range(chance.choice((1, 1, 2, 4))):
        *path, last = chance.choice(_paths_in(revision))
        parent: Any = revision
        for step in path:
            parent = parent[step]
        parent[last] = copy.deepcopy(chance.choice(GARBAGE))
    parsed = read(revision)
    is_ours(revision, obj)
    if not parsed.broken:
        assert parsed.record.forms.keys() == parsed.record.roles.keys()
        assert parsed.record.text


_METADATA = ("name", "namespace", "uid", "resourceVersion")
_GIVEN = {("apiVersion",), ("kind",), *(("metadata", field) for field in _METADATA)}


def _paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all fields, except for those by which the API server identifies the object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    paths = []
    for key, below in items:
        current = (*path, key)
        if current in _GIVEN:
            continue
        if current != ("metadata",):
            paths.append(current)
        paths += _paths_in(below, current)
    return paths


def test_a_revision_belongs_to_the_set_by_controller_or_by_name_and_data() -> None:
    obj, other = make_dset(), make_dset(name="other")
    revision = revision_of(obj)
    assert is_ours(revision, obj)
    assert not is_ours(revision, other)
    orphan = revision_of(obj, ownerReferences=[])
    assert is_ours(orphan, obj)
    assert not is_ours(orphan, other), "the name does not match another set"
    assert not is_ours({**orphan, "data": {"spec": {"template": {}}}}, obj)
    assert not is_ours(revision_of(obj, ownerReferences=[], deletionTimestamp="2026-01-02T00:00:00Z"), obj)
