"""Tests of the checksum of a revision: it shows the recorded key and placement, and what was edited since."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lws.history.revision import edited_labels
from lws.leaderworkerset.revisions import encoding
from lws.leaderworkerset.revisions.history import (
    FORMAT,
    SEAL_ANNOTATION,
    Recorded,
    record,
    seal_of,
    sealing,
)
from lws.leaderworkerset.revisions.reading import is_of_data, parse
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, REVISION_LABEL
from test.unit import api_server
from test.unit.builders import build_revision, make_set

RACK = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
KEY = record(RACK).key
SCOPE_ANNOTATION = "leaderworkerset.sigs.k8s.io/exclusive-topology-scope"

Change = Callable[[dict[str, Any]], Any]


def stored(key: str = "") -> dict[str, Any]:
    return api_server.stored(dict(build_revision(RACK, record(RACK), 1, key=key)))


def edited(change: Change, key: str = "") -> dict[str, Any]:
    revision = stored(key)
    change(revision["metadata"])
    return revision


NAME = stored()["metadata"]["name"]
NO_TEXTS: Any = {EXCLUSIVE_TOPOLOGY_ANNOTATION: ["rack"]}


def edits_of(revision: Recorded) -> dict[str, str | None]:
    """Return the labels and annotations that are restored."""
    return {**edited_labels(FORMAT, RACK, revision), **revision.edits}


def test_an_unedited_revision_is_sealed() -> None:
    revision = parse(stored())
    assert (revision.is_sealed, revision.key, revision.record.topology) == (
        True,
        KEY,
        {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
    )
    assert edits_of(revision) == {}
    assert parse(stored("key-of-long-ago")).key == "key-of-long-ago"


@pytest.mark.parametrize(
    ("change", "edits"),
    [
        pytest.param(
            lambda it: it["labels"].update({REVISION_LABEL: "garbage"}),
            {REVISION_LABEL: KEY},
            id="key",
        ),
        pytest.param(lambda it: it["labels"].pop(REVISION_LABEL), {REVISION_LABEL: KEY}, id="key removed"),
        pytest.param(
            lambda it: it["annotations"].update({EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}),
            {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
            id="topology",
        ),
        pytest.param(
            lambda it: it["annotations"].pop(EXCLUSIVE_TOPOLOGY_ANNOTATION),
            {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
            id="topology removed",
        ),
        pytest.param(
            lambda it: it["annotations"].update({SCOPE_ANNOTATION: "Cluster"}),
            {SCOPE_ANNOTATION: None},
            id="scope added",
        ),
        pytest.param(lambda it: it["annotations"].update(team="a"), {}, id="an annotation of a user"),
    ],
)
def test_edits_of_a_sealed_revision_are_reverted(change: Change, edits: dict[str, Any]) -> None:
    revision = parse(edited(change))
    assert (revision.broken, revision.key) == ("", KEY)
    assert revision.record.topology == {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
    assert edits_of(revision) == edits


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[" * 100_000,
        "null",
        "[]",
        "{}",
        json.dumps({"key": "k", "topology": {}, "sum": "wrong"}),
        json.dumps({"key": "", "topology": {}, "sum": ""}),
        json.dumps({"key": 7, "topology": {}, "sum": ""}),
        json.dumps({"key": "k", "topology": [], "sum": ""}),
        r'{"key": "\ud800", "topology": {}, "sum": ""}',
        r'{"key": "k", "topology": {"\ud800": ""}, "sum": ""}',
        sealing(NAME, "k", NO_TEXTS)[SEAL_ANNOTATION],
    ],
    ids=lambda text: text[:50],
)
def test_an_invalid_seal_is_ignored(text: str) -> None:
    obj = edited(lambda it: it["annotations"].update({SEAL_ANNOTATION: text}))
    assert seal_of(obj) is None
    revision = parse(obj)
    assert (revision.is_sealed, revision.key, edits_of(revision)) == (False, KEY, {})


def test_a_seal_is_valid_for_one_revision_only() -> None:
    other_revision = build_revision(make_set(image="app:2"), record(make_set(image="app:2")), 2)
    copied = edited(lambda it: it.update(annotations=other_revision["metadata"]["annotations"]))
    assert seal_of(copied) is None


def test_a_revision_with_replaced_data_is_broken() -> None:
    """The API server rejects an edit of data, but a user may delete a revision and create another one."""
    other_record = record(make_set(image="evil:1"))
    revision = parse({**stored(), "data": json.loads(other_record.text)})
    assert "contains other data than its name says" in revision.broken


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [("demo-58b6956df9-1", "58b6956df9"), ("a-b-c-d-1", "d"), ("demo", ""), ("demo-x", ""), ("-x-1", "")],
)
def test_the_hash_in_a_name(name: str, fingerprint: str) -> None:
    assert FORMAT.fingerprint_in(name) == fingerprint


@pytest.mark.parametrize("probe", [0, 7, 100])
def test_a_name_with_a_later_probe_matches_its_data(probe: int) -> None:
    recorded, data = record(RACK), json.loads(record(RACK).text)
    assert is_of_data(f"demo-{recorded.key_at(probe)}-3", data)
    assert not is_of_data("demo-58b6956df9-3", data)


def test_large_foreign_data_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing a megabyte for each candidate key would block the process for a minute."""
    hashed, read = encoding._hashed, list[int]()

    def noted(text: str, value: int) -> int:
        read.append(len(text))
        return hashed(text, value)

    monkeypatch.setattr(encoding, "_hashed", noted)
    assert not is_of_data("demo-58b6956df9-1", {"spec": "x" * 10_000})
    assert sum(read) < 20_000
