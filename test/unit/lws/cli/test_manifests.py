"""lws.cli.manifests: sets read from a manifest."""

from __future__ import annotations

import io
from typing import Any

import click
import pytest

from lws.cli.commands.plan import created_set, update_when_ready
from lws.cli.manifests import as_stored, sets_in
from lws.cli.screen import plain
from lws.cli.session import Refusal
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget
from test.unit.builders import NOW, make_pod_template
from test.unit.stories.letters import letters_of

SET = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: %s}\n"


def names(text: str) -> list[str]:
    stream = io.BytesIO(text.encode())
    stream.name = "file.yaml"
    return [lws["metadata"]["name"] for lws in sets_in(stream)]


def test_all_documents_and_other_kinds() -> None:
    text = "---\n".join([SET % "a", "kind: Service\n", "", "- 1\n", SET % "b"])
    assert names(text) == ["a", "b"]


def test_json_and_lists() -> None:
    kind = '"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"'
    item = f'{{{kind}, "metadata": {{"name": "a"}}}}'
    assert names(item) == ["a"]
    assert names(f'{{"kind": "List", "items": [{item}, {{"kind": "Service"}}]}}') == ["a"]
    assert names(f'{{"kind": "LeaderWorkerSetList", "items": [{item}, {{"kind": "Service"}}]}}') == ["a"]
    assert names(f'\n{item}{item}\n\n{{"kind": "Service"}} {item}\n') == ["a"] * 3
    # As flow mappings of YAML.
    assert names(f"{item}\n---\n{item}") == ["a"] * 2
    assert names(item.replace('"a"', "a")) == ["a"]


def test_invalid_yaml() -> None:
    with pytest.raises(click.ClickException, match=r"file.yaml is not YAML"):
        names("a: b: c")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("0o17", 15),
        ("017", 15),
        ("-7", -7),
        ("1.5.2", "1.5.2"),
        (".inf", ".inf"),
        ("yes", True),
        ("~", None),
    ],
)
def test_scalars_are_parsed_as_by_kubectl(written: str, read: object) -> None:
    stream = io.BytesIO(f"{SET % 'a'}value: {written}\n".encode())
    stream.name = "file.yaml"
    (document,) = sets_in(stream)
    assert (document["value"], type(document["value"])) == (read, type(read))


@pytest.mark.parametrize("items", ["5", "text", "{a: b}", "~", "[5, ~, [a]]"])
def test_items_that_are_not_a_list_of_objects(items: str) -> None:
    assert names(f"kind: List\nitems: {items}\n") == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!binary aGVsbG8=", "file.yaml cannot be written as JSON: "),
        ("!!timestamp 2026-01-02", "file.yaml cannot be written as JSON: "),
        ("!!timestamp 2026-99-99", "file.yaml cannot be written as JSON: "),
        ("&here [*here]", "file.yaml cannot be written as JSON: "),
        ('"\\uD800"', "file.yaml (is not YAML|cannot be written as JSON): "),
        ("[" * 3000 + "]" * 3000, "file.yaml (is nested too deeply|is not YAML)"),
    ],
    ids=["binary", "date", "no date", "self-reference", "lone surrogate", "nested"],
)
def test_values_that_json_cannot_represent(value: str, message: str) -> None:
    with pytest.raises(click.ClickException, match=message):
        names(f"{SET % 'a'}value: {value}\n")


def test_another_version() -> None:
    with pytest.raises(click.ClickException, match="apiVersion is 'x/v2', only leaderworkerset"):
        names("apiVersion: x/v2\nkind: LeaderWorkerSet\n")


def manifest(**spec: Any) -> dict[str, Any]:
    template = {"workerTemplate": make_pod_template(), "size": 3}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "demo"},
        "spec": {"leaderWorkerTemplate": template, **spec},
    }


def test_defaults_are_filled_in() -> None:
    lws = as_stored(manifest())
    assert (lws["spec"]["replicas"], lws["metadata"]["namespace"]) == (1, "default")
    assert lws["spec"]["networkConfig"] == {"subdomainPolicy": "Shared"}


def test_a_created_set_is_summarized() -> None:
    lws = as_stored(manifest(replicas=2))
    assert list(plain(created_set(lws, NOW, steps=False).blocks)) == [
        f"new: 2 groups of 3 pods, 6 in all, under key {record(lws).key}"
    ]


def test_an_update_of_a_ready_set() -> None:
    rolling = {"rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1, "partition": 1}}
    state = update_when_ready(as_stored(manifest(replicas=3, rolloutStrategy=rolling)), NOW)
    assert letters_of(state.groups, 3) == "rrr"
    assert state.statefulset == LeaderStatefulSet(replicas=3, partition=1, last_replicas=3, is_current=False)
    assert (state.floor, state.budget) == (1, Budget(1, 1))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"replicas": -1}, "must be equal or greater than 0"),
        ({"leaderWorkerTemplate": {"size": 2}}, "workerTemplate: Field required"),
        ({"leaderWorkerTemplate": None}, "it would be rejected: "),
        ({"startupPolicy": "Never"}, "it would be rejected: spec.startupPolicy"),
        ({"startStrategy": {"seedGroups": 0}}, "spec.startStrategy.seedGroups is 0, not from 1 to"),
        (
            {"rolloutStrategy": {"prewarm": {"parallelism": 0}}},
            "spec.rolloutStrategy.prewarm.parallelism is 0, not from 1 to",
        ),
    ],
)
def test_invalid_sets_are_rejected(change: dict[str, Any], refusal: str) -> None:
    with pytest.raises(Refusal, match=refusal):
        as_stored(manifest(**change))


def test_a_bad_name() -> None:
    with pytest.raises(Refusal, match=r"it would be rejected: metadata\.name"):
        as_stored({**manifest(), "metadata": {"name": "1Bad"}})
