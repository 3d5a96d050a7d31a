"""test.integration.chaos.record: events of an audit log in the order in which they happened."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from test.harness.world import World
from test.integration.chaos.record import KINDS, PODS, Change, Entry, Record, changes_of, entries_of, ordered


def logged(verb: str, version: int, uri: str = "/api/v1/pods", **metadata: Any) -> str:
    return json.dumps(
        {
            "verb": verb,
            "requestURI": uri,
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
            "user": {
                "username": "somebody",
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
            },
            "objectRef": {"resource": "pods", "namespace": "default"},
            "responseStatus": {"code": 200},
            "responseObject": {
                "kind": "Pod",
                "metadata": {"name": "a", "uid": "1", "resourceVersion": str(version), **metadata},
            },
        }
    )


def entry(verb: str, version: int, **metadata: Any) -> Entry:
    answer = {"metadata": {"name": "a", "uid": "1", "resourceVersion": str(version), **metadata}}
    return Entry(datetime.now(UTC), verb, PODS, "default", "a", 200, "somebody", answer=answer)


def test_writes_are_read_and_broken_lines_are_skipped(tmp_path: Path) -> None:
    lines = [
        logged("create", 1),
        '{"verb": "upd',
        logged("get", 1),
        logged("create", 2, uri="/api/v1/pods?dryRun=All"),
        logged("patch", 3),
    ]
    log = tmp_path / "audit.log"
    log.write_text("\n".join(lines) + "\n" + logged("patch", 4)[:30])
    writes = list(entries_of(log))
    assert [write.verb for write in writes] == ["create", "patch"]
    assert (writes[0].name, writes[0].credential, writes[0].at.microsecond) == ("a", "JTI=1", 1)


GOING = {"deletionTimestamp": "now"}


@pytest.mark.parametrize(
    ("verb", "metadata", "is_there"),
    [
        pytest.param("patch", {}, True, id="written"),
        pytest.param("delete", {**GOING, "deletionGracePeriodSeconds": 30}, True, id="grace period not over"),
        pytest.param("delete", {**GOING, "finalizers": ["foregroundDeletion"]}, True, id="has a finalizer"),
        pytest.param("delete", {**GOING, "deletionGracePeriodSeconds": 0}, False, id="grace period over"),
        pytest.param("delete", {}, False, id="deleted without deletionTimestamp"),
        pytest.param("patch", {**GOING, "deletionGracePeriodSeconds": 0}, False, id="last finalizer removed"),
    ],
)
def test_deleted_and_terminating_objects_are_distinguished(
    verb: str, metadata: dict[str, Any], is_there: bool
) -> None:
    (change,) = changes_of([entry(verb, 1, **metadata)])
    assert (change.objects["a"] is not None) == is_there


def test_a_deletion_without_an_object_follows_the_previous_response() -> None:
    status = Entry(datetime.now(UTC), "delete", PODS, "default", "b", 200, "somebody")
    changes = list(changes_of([entry("patch", 7), status, entry("patch", 9)]))
    assert [(change.version, dict(change.objects).get("b", "")) for change in changes] == [
        (7, ""),
        (7, None),
        (9, ""),
    ]


def test_a_second_deletion_changes_nothing() -> None:
    deletion = {**GOING, "deletionGracePeriodSeconds": 30}
    changes = changes_of([entry("patch", 7), entry("delete", 8, **deletion), entry("delete", 7, **deletion)])
    assert [change.version for change in changes] == [7, 8]


def test_an_object_is_removed_with_the_response_that_removes_its_finalizer() -> None:
    last = {**GOING, "deletionGracePeriodSeconds": 0}
    changes = changes_of(
        [entry("delete", 7, **last, finalizers=["x"]), entry("patch", 9), entry("patch", 7, **last)]
    )
    assert [change.version for change in changes] == [7, 9, 9]


def test_responses_are_sorted_by_version_from_the_first_snapshot_on() -> None:
    changes = list(changes_of(entry("patch", version) for version in (3, 9, 8, 5)))
    snapshot = Change(5, entry("list", 5), {}, is_snapshot=True)
    assert [change.version for change in ordered([snapshot, *changes])] == [5, 5, 8, 9]


@dataclass
class Lists:
    """A world that contains only the listed objects."""

    namespace: str = "default"
    asked: list[str] = field(default_factory=list)

    @property
    def api(self) -> Lists:
        return self

    def path(self, kind: str) -> str:
        return kind

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        return {"metadata": {"resourceVersion": "9"}, "items": []}


def test_a_snapshot_shows_the_objects_before_the_first_write_after_an_outage(tmp_path: Path) -> None:
    log, world = tmp_path / "audit.log", Lists()
    log.write_text(logged("create", 3) + "\n")
    record = Record(cast(World, world), log)
    resumed = record.position()
    record.snapshot(resumed)
    assert world.asked == 2 * [*KINDS.values()], "no client has written since"
    deleted = json.dumps({**json.loads(logged("delete", 8)), "responseObject": {"kind": "Status"}})
    log.write_text(log.read_text() + deleted + "\n" + logged("patch", 8) + "\n" + logged("patch", 12) + "\n")
    record.snapshot(resumed)
    exactly = "?resourceVersion=7&resourceVersionMatch=Exact"
    assert world.asked[2 * len(KINDS) :] == [f"{kind}{exactly}" for kind in KINDS.values()]
