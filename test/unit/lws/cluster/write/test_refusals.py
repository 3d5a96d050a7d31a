"""Which refusals are known of a set, and for how long."""

from __future__ import annotations

from typing import Any

from lws.actions import Announce, Apply, Create, Delete, Reference
from lws.cluster.errors import Forbidden
from lws.cluster.write.refusals import Refusals
from lws_api.leaderworkerset.v1 import NAME_LABEL

ERROR = Forbidden(403, "Forbidden", "exceeded quota: few")


def intent(kind: str = "StatefulSet", name: str = "demo-1", set_name: str = "demo") -> dict[str, Any]:
    labels = {NAME_LABEL: set_name} if set_name else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
    }


def create(**more: Any) -> Create:
    return Create(intent(**more), why="because")


def test_a_refusal_is_known_until_the_write_succeeds() -> None:
    refusals = Refusals(NAME_LABEL)
    assert refusals.remember(create(), ERROR) == ("ns", "demo")
    (met,) = refusals.of_set("ns", "demo")
    assert met.message == "cannot create StatefulSet demo-1: exceeded quota: few"
    assert (met.reason, met.is_reported) == ("QuotaExceeded", False)
    assert refusals.of_set("ns", "other") == refusals.of_set("other", "demo") == ()
    refusals.forget(intent(name="demo-2"))
    assert len(refusals.of_set("ns", "demo")) == 1
    refusals.forget(intent())
    assert refusals.of_set("ns", "demo") == ()


def test_what_an_event_says_already_is_marked() -> None:
    refusals = Refusals(NAME_LABEL)
    failure = Announce(Reference.to(intent("LeaderWorkerSet")), "FailedCreate", "Create", "Failed")
    refusals.remember(Create(intent(), why="because", failure=failure), ERROR)
    assert [met.is_reported for met in refusals.of_set("ns", "demo")] == [True]


def test_an_update_is_called_one() -> None:
    refusals = Refusals(NAME_LABEL)
    refusals.remember(Apply(intent(name="demo"), why="because", uid="u"), Forbidden(403, "Forbidden", "no"))
    (met,) = refusals.of_set("ns", "demo")
    assert (met.reason, met.message) == ("FailedUpdate", "cannot update StatefulSet demo: no")


def test_only_the_leader_statefulset_is_that_of_the_leaders() -> None:
    now = [0.0]
    refusals = Refusals(NAME_LABEL, lambda: now[0])
    refusals.remember(create(), ERROR)
    assert not refusals.of_leaders("ns", "demo")
    refusals.remember(Apply(intent(name="demo"), why="because", uid="u"), ERROR)
    assert refusals.of_leaders("ns", "demo") and not refusals.of_leaders("other", "demo")
    now[0] = 91.0
    assert not refusals.of_leaders("ns", "demo"), "nobody has tried for so long"


def test_several_come_in_a_fixed_order_each_once() -> None:
    refusals = Refusals(NAME_LABEL)
    for name in ("demo-2", "demo-1", "demo-2"):
        refusals.remember(create(name=name), ERROR)
    assert [met.subject for met in refusals.of_set("ns", "demo")] == [
        "cannot create StatefulSet demo-1",
        "cannot create StatefulSet demo-2",
    ]


def test_what_is_not_heard_of_any_more_is_over() -> None:
    now = 0.0
    refusals = Refusals(NAME_LABEL, clock=lambda: now)
    refusals.remember(create(name="demo-1"), ERROR)
    now = 60.0
    refusals.remember(create(name="demo-2"), ERROR)
    now = 100.0
    assert [met.subject for met in refusals.of_set("ns", "demo")] == ["cannot create StatefulSet demo-2"]
    now = 200.0
    assert refusals.of_set("ns", "demo") == ()


def test_what_concerns_no_set_is_not_kept() -> None:
    refusals = Refusals(NAME_LABEL)
    assert refusals.remember(create(set_name=""), ERROR) is None
    delete = Delete(Reference.to(intent()), "Background", why="because")
    assert refusals.remember(delete, ERROR) is None
