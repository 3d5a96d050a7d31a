from __future__ import annotations

from test.unit.tools.demo.objects import NAME, make_group, make_pod, make_set, make_statefulset
from tools.demo.facts import Kind, Object, Record


def event(kind: str, obj: Object) -> dict[str, object]:
    return {"type": kind, "object": obj}


def test_a_view_combines_lists_and_events() -> None:
    record = Record()
    record.replace(Kind.SET, [make_set()])
    record.replace(Kind.POD, make_group(0))
    record.take(Kind.POD, event("ADDED", make_pod(1, 0)))
    record.take(Kind.POD, event("DELETED", make_group(0)[3]))
    view = record.view()
    assert sorted(pod.name for pod in view.pods(NAME)) == [f"{NAME}-{n}" for n in ("0", "0-1", "0-2", "1")]
    assert view.pods("another") == ()
    facts = view.set(NAME)
    assert facts is not None and facts.replicas == 4
    assert view.set("another") is None


def test_objects_missing_from_a_new_list_are_removed() -> None:
    record = Record()
    record.replace(Kind.POD, make_group(0))
    record.replace(Kind.POD, make_group(1))
    assert {pod.group for pod in record.view().pods(NAME)} == {1}
    assert {pod.group for pod in record.since(record.mark())[0]} == {1}


def test_every_change_of_a_pod_is_recorded() -> None:
    record = Record()
    record.replace(Kind.POD, [make_pod(0, 0, ready=False)])
    mark = record.mark()
    record.take(Kind.POD, event("MODIFIED", make_pod(0, 0)))
    record.take(Kind.POD, event("MODIFIED", make_pod(0, 0)))
    record.take(Kind.SET, event("ADDED", make_set()))
    record.take(Kind.POD, event("DELETED", make_pod(0, 0)))
    assert [[pod.state for pod in moment] for moment in record.since(mark)] == [["not ready"], ["ready"], []]


def test_moments_begin_with_the_mark() -> None:
    record = Record()
    assert record.since(record.mark()) == ((),)


def test_deleted_statefulsets_are_remembered() -> None:
    record = Record()
    workers = make_statefulset("workers", "workers-0-uid", f"{NAME}-0-0-uid", 3)
    record.take(Kind.STATEFULSET, event("ADDED", workers))
    record.take(Kind.STATEFULSET, event("DELETED", workers))
    record.replace(Kind.POD, make_group(0))
    view = record.view()
    assert view.objects[Kind.STATEFULSET] == ()
    assert [group.is_ready for group in view.groups(NAME)] == [True]
