"""lws.cli.facts.manifests: the sets of a manifest."""

from __future__ import annotations

import io

import click
import pytest

from lws.cli.facts.manifests import sets_in

SET = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: %s}\n"


def names(text: str) -> list[str]:
    stream = io.BytesIO(text.encode())
    stream.name = "file.yaml"
    return [each["metadata"]["name"] for each in sets_in(stream)]


def test_all_documents_and_other_kinds() -> None:
    text = "---\n".join([SET % "a", "kind: Service\n", "", "- 1\n", SET % "b"])
    assert names(text) == ["a", "b"]


def test_json_and_lists() -> None:
    kind = '"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"'
    item = f'{{{kind}, "metadata": {{"name": "a"}}}}'
    assert names(item) == ["a"]
    assert names(f'{{"kind": "List", "items": [{item}, {{"kind": "Service"}}]}}') == ["a"]


def test_no_yaml() -> None:
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
def test_scalars_are_read_as_kubectl_reads_them(written: str, read: object) -> None:
    stream = io.BytesIO(f"{SET % 'a'}value: {written}\n".encode())
    stream.name = "file.yaml"
    (found,) = sets_in(stream)
    assert (found["value"], type(found["value"])) == (read, type(read))


@pytest.mark.parametrize("items", ["5", "text", "{a: b}", "~", "[5, ~, [a]]"])
def test_items_that_are_no_list_of_objects(items: str) -> None:
    assert names(f"kind: List\nitems: {items}\n") == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("!!binary aGVsbG8=", "file.yaml cannot be written as JSON: "),
        ("!!timestamp 2026-01-02", "file.yaml cannot be written as JSON: "),
        ("!!timestamp 2026-99-99", "file.yaml cannot be written as JSON: "),
        ("&here [*here]", "file.yaml cannot be written as JSON: "),
        ('"\\uD800"', "file.yaml (is not YAML|cannot be written as JSON): "),
        ("[" * 3000 + "]" * 3000, "file.yaml (is nested too deeply|is not YAML)"),
    ],
    ids=["binary", "date", "no date", "itself", "half a character", "nested"],
)
def test_what_json_cannot_say(value: str, said: str) -> None:
    with pytest.raises(click.ClickException, match=said):
        names(f"{SET % 'a'}value: {value}\n")


def test_another_version() -> None:
    with pytest.raises(click.ClickException, match="apiVersion is 'x/v2', only leaderworkerset"):
        names("apiVersion: x/v2\nkind: LeaderWorkerSet\n")
