from __future__ import annotations

from test.unit.tools.demo.objects import NAME, make_children, make_group, make_set, make_view
from tools.demo.facts import Kind, Record
from tools.demo.tour import verify_gone, verify_kept, verify_new, verify_untouched, versions

OLD = make_view([*make_group(0), *make_group(1)])
HALF = make_view([*make_group(0), *make_group(1, incarnation="-2")])


def test_all_pods_must_be_new() -> None:
    before, after = OLD.pods(NAME), HALF.pods(NAME)
    fresh = [pod for pod in after if pod.group == 1]
    assert verify_new("claim", before, fresh).held
    check = verify_new("claim", before, after)
    assert not check.held and check.actual == f"not so: {NAME}-0, {NAME}-0-1, {NAME}-0-2, {NAME}-0-3"
    assert not verify_new("claim", before, []).held


def test_pods_must_be_kept() -> None:
    before, after = OLD.pods(NAME), HALF.pods(NAME)
    assert verify_kept("claim", [pod for pod in before if pod.group == 0], after).held
    check = verify_kept("claim", before, after)
    assert not check.held and f"{NAME}-1-3" in check.actual
    assert not verify_kept("claim", [], after).held


def test_untouched_objects() -> None:
    checks = verify_untouched(OLD, make_view([*make_group(0), *make_group(1)]))
    assert [check.held for check in checks] == [True, True, True]
    assert [check.claim.split(" the ")[0] for check in checks] == [
        "3 StatefulSets have",
        "1 Service has",
        "1 ControllerRevision has",
    ]


def test_any_write_counts_as_a_change() -> None:
    children = make_children([*make_group(0), *make_group(1)])
    children[1]["metadata"]["resourceVersion"] = "2"
    touched = make_view([*make_group(0), *make_group(1)], statefulsets=children)
    statefulsets, *others = verify_untouched(OLD, touched)
    assert (
        not statefulsets.held and f"with {NAME}-0 workers-0-uid generation 1 version 2" in statefulsets.actual
    )
    assert all(check.held for check in others)
    assert len(versions(touched, Kind.STATEFULSET)) == 3


def test_only_earlier_objects_remain() -> None:
    record = Record()
    record.replace(Kind.SERVICE, OLD.objects[Kind.SERVICE])
    record.replace(Kind.EVENT, OLD.objects[Kind.EVENT])
    uids = {service["metadata"]["uid"] for service in OLD.objects[Kind.SERVICE]}
    assert all(check.held for check in verify_gone(record.view(), uids))
    failed = [check for check in verify_gone(record.view(), []) if not check.held]
    assert [check.actual for check in failed] == [NAME]
    record.replace(Kind.SET, [make_set()])
    assert [check.claim for check in verify_gone(record.view(), uids) if not check.held] == [
        "0 LeaderWorkerSets are left"
    ]
