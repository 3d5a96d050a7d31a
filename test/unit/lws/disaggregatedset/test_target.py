"""Tests of lws.disaggregatedset.target: the choice of the target revision, and its writes."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.revisions import record as record_module
from lws.disaggregatedset.revisions.record import RecordedRoles, read, record, template_hash
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.target import edited_children, plan_pruning, target_revision
from lws.history.plan import plan_revision_repairs
from lws.kube.metadata import RESTARTED_AT_ANNOTATION
from lws.runtime.actions import Create, Delete, Merge, SetOwner
from lws_api.disaggregatedset.v1 import APP_LABEL, NAME_LABEL, REVISION_LABEL
from test.unit.disaggregated import build_revision
from test.unit.lws.disaggregatedset.revisions.histories import (
    children_of,
    created,
    key_by_hash,
    make_dset,
    make_role,
    recorded,
    revision_of,
    snapshot_of,
    stored,
)
from test.unit.seeds import for_each_seed

A, B, C, D = (
    make_dset(make_role("prefill", image=f"app:{tag}"), make_role("decode", image=f"app:{tag}"))
    for tag in "abcd"
)
KEY_A, KEY_B, KEY_C = map(key_by_hash, (A, B, C))


def with_status(obj: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**obj, "status": status}


def test_the_first_revision() -> None:
    target = target_revision(snapshot_of(A))
    (create,) = target.actions
    assert isinstance(create, Create)
    assert create.intent == build_revision(A, record(A), KEY_A, 1)
    assert (target.key, target.name, target.is_new) == (KEY_A, f"llm-{KEY_A}-1", True)
    assert (create.why, create.announce) == ("the first revision of the set", ())
    assert target.content.record.text == record(A).text
    assert (target.content.generation, target.collisions) == (None, None)


def test_no_revision_is_created_if_the_newest_is_equal() -> None:
    revisions = (recorded(A, 1), recorded(B, 2))
    target = target_revision(snapshot_of(B, revisions, children_of(B)))
    assert (target.key, target.actions, target.is_new) == (KEY_B, (), False)
    assert target.revision == revisions[1].reference
    assert set(target.records) == {KEY_A, KEY_B}


def test_a_change_is_recorded_as_the_newest() -> None:
    target = target_revision(snapshot_of(C, (recorded(A, 1), recorded(B, 7)), children_of(B)))
    (recorded_revision,) = created(target.actions)
    assert (recorded_revision.number, recorded_revision.key, target.key) == (8, KEY_C, KEY_C)
    assert set(target.records) == {KEY_A, KEY_B, KEY_C}
    assert target.actions[0].why == "changed: role prefill, role decode"


def test_a_reused_revision_keeps_its_key_and_becomes_the_newest() -> None:
    revisions = (recorded(A, 1), recorded(B, 2))
    target = target_revision(snapshot_of(A, revisions, children_of(B)))
    (raised,) = target.actions
    assert raised == Merge(revisions[0].reference, {"revision": 3}, raised.why)
    assert (target.key, target.name) == (KEY_A, revisions[0].name)


def test_a_recorded_key_is_kept_if_the_hash_differs() -> None:
    turned = make_dset(*reversed(A["spec"]["roles"]))
    target = target_revision(
        snapshot_of(turned, (recorded(A, 1, key="0123abcd"),), children_of(A, key="0123abcd"))
    )
    assert target.actions == ()
    assert target.key == "0123abcd"


def test_the_running_one_of_equal_revisions_is_the_target() -> None:
    first, second = recorded(A, 1, key="0000aaaa"), recorded(A, 2, key="0000bbbb")
    for key in ("0000aaaa", "0000bbbb"):
        assert target_revision(snapshot_of(A, (first, second), children_of(A, key=key))).key == key
    both = children_of(A, key="0000aaaa") + children_of(A, key="0000bbbb")
    assert target_revision(snapshot_of(A, (first, second), both)).key == "0000bbbb", "the newest of them"
    with_record = with_status(A, updateRevision=first.name)
    assert target_revision(snapshot_of(with_record, (first, second), both)).key == "0000aaaa", (
        "the previous target"
    )


@pytest.mark.parametrize(
    "status", [None, {}, {"updateRevision": 7, "collisionCount": "x"}, {"updateRevision": {}}]
)
def test_malformed_status_fields_are_ignored(status: Any) -> None:
    obj = {**A, "status": status}
    assert target_revision(snapshot_of(obj, (recorded(A, 1),), children_of(A))).actions == ()
    assert target_revision(snapshot_of(obj)).is_new


def test_two_templates_with_one_hash_get_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "key_of", lambda roles, probe=0: f"{probe:08x}")
    revisions: tuple[RecordedRoles, ...] = ()
    for number, obj in enumerate((A, B, C)):
        target = target_revision(snapshot_of(with_status(obj, collisionCount=1), revisions))
        assert target.key == f"{number:08x}"
        assert target.collisions == ((None, 1, 2)[number])
        revisions += tuple(created(target.actions))
        # The process ends before the status is written.
        assert target_revision(snapshot_of(obj, revisions)).collisions == (number or None)
    assert [target_revision(snapshot_of(dset, revisions)).key for dset in (A, B, C)] == [
        f"{n:08x}" for n in range(3)
    ]


def test_the_key_of_unreadable_children_is_not_reused() -> None:
    children = children_of(A, key=KEY_B)
    for child in children:
        child.obj["spec"]["leaderWorkerTemplate"] = None
    target = target_revision(snapshot_of(B, (), children))
    assert target.key == key_of(record(B).roles, 1)
    assert target.collisions == 1


def test_a_broken_revision_is_recreated_from_its_children() -> None:
    broken = read({**revision_of(A, 3), "data": {"spec": []}})
    target = target_revision(snapshot_of(A, (broken,), children_of(A)))
    (recorded_revision,) = created(target.actions)
    assert (recorded_revision.number, recorded_revision.key, target.key) == (4, KEY_A, KEY_A)


def test_taken_names_are_skipped_and_reported() -> None:
    stranger = revision_of(A, 1, ownerReferences=[])
    target = target_revision(snapshot_of(A, taken_revisions=(stranger,)))
    (create,) = target.actions
    assert isinstance(create, Create)
    assert target.name == f"llm-{KEY_A}-2"
    (heard,) = create.announce
    assert (heard.reason, heard.type) == ("NameClash", "Warning")
    assert f"llm-{KEY_A}-1 is left untouched" in heard.note
    former = [{"kind": "DisaggregatedSet", "name": "llm", "uid": "former", "controller": True}]
    (create,) = target_revision(
        snapshot_of(A, taken_revisions=(revision_of(A, 1, ownerReferences=former),))
    ).actions
    assert isinstance(create, Create)
    assert create.announce == (), "objects of a former set of the same name are garbage collected"


def test_an_orphan_is_adopted_before_it_is_used() -> None:
    orphans = (recorded(A, 1, ownerReferences=[]), recorded(B, 2, ownerReferences=[]))
    target = target_revision(snapshot_of(A, orphans, orphans=tuple(child.obj for child in children_of(A))))
    (adopted,) = target.actions
    assert isinstance(adopted, SetOwner)
    assert (adopted.target, adopted.patch) == (orphans[0].reference, {"revision": 3})
    assert adopted.owner["uid"] == A["metadata"]["uid"]
    (adoption,) = plan_revision_repairs(target)
    assert isinstance(adoption, SetOwner)
    assert adoption.target == orphans[1].reference
    waiting = target_revision(snapshot_of(A, orphans, is_alive=False))
    assert waiting.actions == plan_revision_repairs(waiting) == ()


def test_missing_history_of_a_set_at_rest_is_one_write() -> None:
    target = target_revision(snapshot_of(A, (), children_of(A, slices=3)))
    (recorded_revision,) = created(target.actions)
    assert (recorded_revision.key, recorded_revision.number, recorded_revision.generation) == (KEY_A, 1, 4)
    assert (target.key, target.name, target.content.generation) == (KEY_A, recorded_revision.name, 4)
    assert target_revision(snapshot_of(A, (recorded_revision,), children_of(A, slices=3))).actions == ()


def test_missing_history_during_a_rollout() -> None:
    target = target_revision(snapshot_of(C, (), children_of(A) + children_of(B) + children_of(C)))
    history = created(target.actions)
    assert {revision.key for revision in history[:2]} == {KEY_A, KEY_B}
    assert (history[-1].key, target.key) == (KEY_C, KEY_C), "the target is the newest"
    assert [revision.number for revision in history] == [1, 2, 3]
    assert all(revision.broken == "" for revision in history)


def test_missing_history_before_a_change() -> None:
    target = target_revision(snapshot_of(B, (), children_of(A)))
    old, new = created(target.actions)
    assert [(revision.key, revision.number, revision.generation) for revision in (old, new)] == [
        (KEY_A, 1, 4),
        (KEY_B, 2, None),
    ]
    assert (target.key, target.content.generation) == (KEY_B, None)


def test_a_differing_key_during_a_rollout_is_replaced_by_the_computed_one() -> None:
    turned = make_dset(*reversed(A["spec"]["roles"]))
    target = target_revision(snapshot_of(turned, (), children_of(A) + children_of(turned)))
    assert target.key == key_by_hash(turned)
    again = target_revision(
        snapshot_of(turned, tuple(created(target.actions)), children_of(A) + children_of(turned))
    )
    assert (again.key, again.actions) == (target.key, ())


def test_a_guessed_revision_causes_a_warning() -> None:
    old = make_dset(make_role("prefill", labels={"app": "mine"}), make_role("decode"))
    create = target_revision(snapshot_of(B, (), children_of(old))).actions[0]
    assert isinstance(create, Create)
    (heard,) = create.announce
    assert (heard.type, heard.reason) == ("Warning", "RevisionIncomplete")
    assert "labels" in heard.note


def test_a_deleted_target_revision_is_recreated_with_its_key() -> None:
    children = children_of(A, key="0123abcd")
    target = target_revision(snapshot_of(A, (recorded(B, 5),), children))
    (recorded_revision,) = created(target.actions)
    assert (recorded_revision.key, recorded_revision.number, target.key) == ("0123abcd", 6, "0123abcd")


def test_a_terminating_revision_is_recreated_with_its_key() -> None:
    leaving = recorded(A, 1, deletionTimestamp="2026-01-02T00:00:00Z")
    target = target_revision(snapshot_of(A, (leaving,), children_of(A)))
    (recorded_revision,) = created(target.actions)
    assert (recorded_revision.key, recorded_revision.number) == (KEY_A, 2)


@for_each_seed(20)
def test_the_history_of_random_edits(seed: int) -> None:
    """Each edit causes at most one write, two templates never share a key, and a template keeps its key."""
    chance = random.Random(seed)
    objects: dict[str, dict[str, Any]] = {}
    keys: dict[str, str] = {}
    for _ in range(10):
        image = chance.choice("abcde")
        roles = [make_role(name, image=image) for name in ("prefill", "decode", "router")]
        chance.shuffle(roles)
        obj = make_dset(*roles)
        snapshot = snapshot_of(obj, tuple(read(revision) for revision in objects.values()))
        target = target_revision(snapshot)
        assert keys.setdefault(image, target.key) == target.key
        assert len(target.actions) <= 1
        for action in target.actions:
            if isinstance(action, Create):
                stored_revision = stored(dict(action.intent))
                assert stored_revision["metadata"]["name"] not in objects
                objects[stored_revision["metadata"]["name"]] = stored_revision
            else:
                assert isinstance(action, Merge)
                objects[action.target.name] |= action.patch
        assert (
            target_revision(snapshot_of(obj, tuple(read(revision) for revision in objects.values()))).actions
            == ()
        )
        newest = max(objects.values(), key=lambda revision: int(revision["revision"]))
        assert newest["metadata"]["name"] == target.name
    assert len(set(keys.values())) == len(keys)


def test_edited_labels_are_restored() -> None:
    edited = recorded(A, 1, labels={NAME_LABEL: "llm", REVISION_LABEL: "x"})
    target = target_revision(snapshot_of(A, (edited,), children_of(A)))
    assert (target.key, target.actions) == (KEY_A, ())
    (merge,) = plan_revision_repairs(target)
    assert isinstance(merge, Merge)
    assert merge.patch == {"metadata": {"labels": {REVISION_LABEL: KEY_A}}}
    assert plan_revision_repairs(target_revision(snapshot_of(A, (recorded(A, 1),)))) == ()


def pruned(snapshot: DisaggregatedSnapshot, limit: int, recorded: Collection[str] = ()) -> list[int]:
    """Return the numbers of the deleted revisions."""
    number = {revision.reference: revision.number for revision in snapshot.revisions}
    deleted = plan_pruning(target_revision(snapshot), limit, recorded)
    return [number[action.target] for action in deleted if isinstance(action, Delete)]


def test_pruning_keeps_running_revisions_and_the_history_limit() -> None:
    revisions = tuple(recorded(obj, number) for number, obj in enumerate((A, B, C, D), 1))
    snapshot = snapshot_of(D, revisions, children_of(D))
    for limit, expected in ((10, []), (2, [1]), (0, [1, 2, 3])):
        assert pruned(snapshot, limit) == expected
    rolling = snapshot_of(D, revisions, children_of(D) + children_of(A, slices=2)[2:])
    assert pruned(rolling, 0) == [2, 3], "also before all slices are on the target"
    assert pruned(rolling, 1) == [2]
    adopting = snapshot_of(D, revisions, children_of(D), orphans=tuple(child.obj for child in children_of(B)))
    assert pruned(adopting, 0) == [1, 3]


def test_pruning_keeps_the_first_revision_of_a_rollout() -> None:
    """Children of that revision may be lost, and are recreated from it."""
    revisions = tuple(recorded(obj, number) for number, obj in enumerate((A, B, C, D), 1))
    running = children_of(D) + children_of(C, slices=2)[2:]
    assert pruned(snapshot_of(D, revisions, running), 0, recorded={KEY_A}) == [2]
    named = with_status(D, currentRevision=revisions[1].name)
    assert pruned(snapshot_of(named, revisions, running), 0) == [1]
    assert pruned(snapshot_of(named, revisions, children_of(D)), 0) == [1, 2, 3], "the rollout has ended"


def test_the_target_revision_is_never_pruned() -> None:
    for order in itertools.permutations((1, 2, 3)):
        revisions = tuple(recorded(obj, number) for obj, number in zip((A, B, C), order, strict=True))
        for current in (A, B, C):
            snapshot = snapshot_of(copy.deepcopy(current), revisions, children_of(current))
            target = target_revision(snapshot)
            deleted = plan_pruning(target, 0)
            assert target.name not in {action.target.name for action in deleted if isinstance(action, Delete)}


def _image(template: dict[str, Any]) -> None:
    template["workerTemplate"]["spec"]["containers"][0]["image"] = "app:hotfix"


def _added_container(template: dict[str, Any]) -> None:
    template["workerTemplate"]["spec"]["containers"].append({"name": "debug", "image": "debug"})


def _leader(template: dict[str, Any]) -> None:
    template["leaderTemplate"] = copy.deepcopy(template["workerTemplate"])


def _size(template: dict[str, Any]) -> None:
    template["size"] = 3


def _restart(template: dict[str, Any]) -> None:
    metadata = template["workerTemplate"].setdefault("metadata", {})
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        RESTARTED_AT_ANNOTATION: "2026-03-01T12:00:00Z",
    }


def _at_once(template: dict[str, Any]) -> None:
    template |= {"restartPolicy": "None", "maxGroupRestarts": 3}


def _defaults(template: dict[str, Any]) -> None:
    template["workerTemplate"]["spec"] |= {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("edit", "is_edited"),
    [
        (lambda template: None, False),
        (_image, True),
        (_added_container, True),
        (_leader, True),
        (_size, True),
        (_restart, False),
        (_at_once, False),
        (_defaults, False),
    ],
)
@pytest.mark.parametrize("placement", [None, {"type": "ExclusiveTopology", "topology": "rack"}])
def test_edited_children(edit: Any, is_edited: bool, placement: dict[str, Any] | None) -> None:
    obj = make_dset(make_role("prefill", labels={APP_LABEL: "mine", "team": "a"}), make_role("decode"))
    _restart(obj["spec"]["roles"][1]["spec"]["leaderWorkerTemplate"])
    if placement is not None:
        obj["spec"]["placementPolicy"] = placement
    revision, children = recorded(obj, 1), children_of(obj, slices=2)
    for child in children[:2]:
        edit(child.obj["spec"]["leaderWorkerTemplate"])
    children = tuple(replace(it, template_hash=template_hash(it.obj["spec"])) for it in children)
    edited = edited_children(children, {revision.key: revision})
    assert edited == (children[:2] if is_edited else ())
    assert edited_children(children, {}) == (), "nothing shows what a child of an unknown revision was"
    unread = tuple(replace(child, template_hash="") for child in children)
    assert edited_children(unread, {revision.key: revision}) == ()


def test_a_deleted_child_is_not_edited() -> None:
    revision, (child, *_) = recorded(A, 1), children_of(A)
    child.obj["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert edited_children([replace(child, template_hash="another")], {revision.key: revision}) == ()
