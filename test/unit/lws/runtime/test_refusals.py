"""Which rejected writes of a set are recorded, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws import timing
from lws.runtime.actions import Action, Announce, Apply, Create, Delete, Merge, Reference, SetOwner
from lws.runtime.errors import Forbidden
from lws.runtime.refusals import Refusals

ERROR = Forbidden(403, "Forbidden", "exceeded quota: few")
SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-set")


def intent(kind: str = "StatefulSet", name: str = "demo-1") -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}}


def create(**more: Any) -> Create:
    return Create(intent(**more), why="because")


def delete(name: str) -> Delete:
    return Delete(Reference.to(intent("Pod", name)), "Foreground", why="because")


def frozen(name: str) -> Forbidden:
    words = f"pods \"{name}\" is forbidden: ValidatingAdmissionPolicy 'freeze' denied request: not now"
    return Forbidden(403, "Forbidden", words)


def test_a_refusal_is_reported_until_the_write_succeeds() -> None:
    refusals = Refusals()
    refusals.record(create(), ERROR, SET)
    (met,) = refusals.of_set("ns", "demo")
    assert met.message == "cannot create StatefulSet demo-1: exceeded quota: few"
    assert (met.reason, met.is_reported, met.kind) == ("QuotaExceeded", False, "StatefulSet")
    assert refusals.of_set("ns", "other") == refusals.of_set("other", "demo") == ()
    assert not refusals.forget(create(name="demo-2"), SET)
    assert not refusals.forget(create(), replace(SET, name="other"))
    assert len(refusals.of_set("ns", "demo")) == 1
    assert refusals.forget(create(), SET)
    assert refusals.of_set("ns", "demo") == ()


def test_rejections_with_an_event_are_marked() -> None:
    refusals = Refusals()
    failure = Announce(SET, "FailedCreate", "Create", "Failed")
    refusals.record(Create(intent(), why="because", failure=failure), ERROR, SET)
    assert [met.is_reported for met in refusals.of_set("ns", "demo")] == [True]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Apply(intent(), "w"), ("FailedCreate", "Create", "cannot create StatefulSet demo-1: no")),
        (Apply(intent(), "w", uid="u"), ("FailedUpdate", "Update", "cannot update StatefulSet demo-1: no")),
        (
            Merge(Reference.to(intent()), {}, "w"),
            ("FailedUpdate", "Update", "cannot update StatefulSet demo-1: no"),
        ),
        (
            SetOwner(Reference.to(intent()), {}, "w"),
            ("FailedUpdate", "Update", "cannot update StatefulSet demo-1: no"),
        ),
        (delete("demo-1"), ("FailedDelete", "Delete", "cannot delete Pod demo-1: no")),
    ],
    ids=["first apply", "apply", "merge", "owner", "delete"],
)
def test_messages_name_the_verb(action: Action, expected: tuple[str, str, str]) -> None:
    refusals = Refusals()
    refusals.record(action, Forbidden(403, "Forbidden", "no"), SET)
    (met,) = refusals.of_set("ns", "demo")
    assert (met.reason, met.action, met.message) == expected


def test_a_successful_update_does_not_end_the_refusal_of_a_deletion() -> None:
    refusals = Refusals()
    refusals.record(delete("demo-1"), ERROR, SET)
    assert not refusals.forget(Merge(Reference.to(intent("Pod")), {}, "w"), SET)
    assert len(refusals.of_set("ns", "demo")) == 1
    assert refusals.forget(delete("demo-1"), SET)


def test_the_first_of_equal_rejections_is_reported() -> None:
    """There is one sentence and one Event, however many groups are affected and in whatever order."""
    refusals = Refusals()
    for name in ("demo-7", "demo-3", "demo-5", "demo-3"):
        refusals.record(delete(name), frozen(name), SET)
        (met,) = refusals.of_set("ns", "demo")
        assert met.subject == "cannot delete Pod demo-7" and met.reason == "AdmissionDenied"
    refusals.record(delete("demo-4"), Forbidden(403, "Forbidden", "another word"), SET)
    assert len(refusals.of_set("ns", "demo")) == 2
    refusals.forget(delete("demo-7"), SET)
    assert [met.subject for met in refusals.of_set("ns", "demo")] == [
        "cannot delete Pod demo-3",
        "cannot delete Pod demo-4",
    ]


def test_only_the_leader_statefulset_is_reported_as_such() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    refusals.record(create(), ERROR, SET)
    refusals.record(Delete(Reference.to(intent(name="demo")), "Orphan", why="because"), ERROR, SET)
    assert not refusals.of_leaders("ns", "demo")
    refusals.record(Apply(intent(name="demo"), why="because", uid="u"), ERROR, SET)
    assert refusals.of_leaders("ns", "demo") and not refusals.of_leaders("other", "demo")
    now[0] = 91.0
    assert not refusals.of_leaders("ns", "demo"), "no write was attempted for that long"


def test_rejections_are_sorted_and_unique() -> None:
    refusals = Refusals()
    for name in ("demo-2", "demo-1", "demo-2"):
        refusals.record(create(name=name), ERROR, SET)
    assert [met.subject for met in refusals.of_set("ns", "demo")] == [
        "cannot create StatefulSet demo-1",
        "cannot create StatefulSet demo-2",
    ]


def test_old_rejections_expire() -> None:
    now = 0.0
    refusals = Refusals(clock=lambda: now)
    refusals.record(create(name="demo-1"), ERROR, SET)
    now = 60.0
    refusals.record(create(name="demo-2"), ERROR, SET)
    now = 100.0
    assert [met.subject for met in refusals.of_set("ns", "demo")] == ["cannot create StatefulSet demo-2"]
    now = 200.0
    assert refusals.of_set("ns", "demo") == ()


def test_rejections_of_a_deleted_set_are_removed() -> None:
    """Rejections are dropped with the set.

    If a write was rejected during the set's deletion, they are dropped with the next rejection of another
    set.
    """
    now = [0.0]
    refusals = Refusals(lambda: now[0])

    def refuse(name: str) -> None:
        refusals.record(create(), ERROR, replace(SET, name=name))

    for name in ("demo", "going", "other"):
        refuse(name)
    refusals.forget_set("ns", "demo")
    refusals.forget_set("ns", "demo")
    assert refusals.of_set("ns", "demo") == ()
    now[0] = timing.REJECTIONS_KEPT_SECONDS - 1
    refuse("other")
    assert len(refusals.of_set("ns", "going")) == 1
    now[0] += 2
    refuse("third")
    assert set(refusals._refused) == {("ns", "other"), ("ns", "third")}
