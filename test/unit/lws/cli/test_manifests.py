"""lws.cli.manifests: the sets of a manifest."""

from __future__ import annotations

import io

import click
import pytest

from lws.cli.manifests import sets_in

SET = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: %s}\n"


def names(text: str) -> list[str]:
    stream = io.StringIO(text)
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


def test_another_version() -> None:
    with pytest.raises(click.ClickException, match="apiVersion is 'x/v2', only leaderworkerset"):
        names("apiVersion: x/v2\nkind: LeaderWorkerSet\n")
