"""tools.localcluster.api: list, watch, and list again after an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.localcluster.api import METADATA_ONLY, Api, ApiError, Call, Stream


class EndOfTest(Exception):
    """Raised to leave the endless loop."""


def make_object(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


class RecordedApi(Api):
    """An API server that answers lists and watches from a script, in order."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls: list[Call] = []

    def send(self, call: Call) -> dict[str, Any]:
        self.calls.append(call)
        return {"items": self.script.pop(0), "metadata": {"resourceVersion": "10"}}

    def watch(self, call: Call) -> Iterator[dict[str, Any]]:
        self.calls.append(call)
        for event in self.script.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


def event(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": make_object(name, version)}


def run(api: RecordedApi, metadata_only: bool = False) -> list[str]:
    seen: list[str] = []
    stream = Stream(api, "/things", lambda obj: seen.append(obj["metadata"]["name"]), metadata_only)
    with pytest.raises(EndOfTest):
        stream.run()
    return seen


def test_list_then_changes_but_not_deletions_or_bookmarks() -> None:
    events = [
        event("ADDED", "b", "11"),
        event("BOOKMARK", "x", "12"),
        event("MODIFIED", "b", "13"),
        event("DELETED", "a", "14"),
    ]
    api = RecordedApi([make_object("a", "5")], events, [EndOfTest()])
    assert run(api) == ["a", "b", "b"]
    assert [call.query and call.query["resourceVersion"] for call in api.calls] == [None, "10", "14"]


def test_an_error_causes_a_new_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    expired = ApiError(410, "too old resource version")
    api = RecordedApi([make_object("a", "5")], [expired], [make_object("a", "5")], [EndOfTest()])
    assert run(api) == ["a", "a"]


def test_an_empty_metadata_list_with_null_items() -> None:
    api = RecordedApi(None, [EndOfTest()])
    assert run(api, metadata_only=True) == []
    assert api.calls[0].accept == METADATA_ONLY
