"""Tests of the choice of the target revision, and of what is written before anything acts on it."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lws.history.plan import plan_revision_repairs
from lws.kube.metadata import owner_reference
from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.target_revision import (
    TargetRevision,
    choose_revision,
    former_revision,
    plan_pruning,
    sizes,
)
from lws.leaderworkerset.revisions import history, reading
from lws.leaderworkerset.revisions.history import Recorded, record
from lws.leaderworkerset.revisions.reading import identified, parse
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Create, Delete, Merge, Reference, SetOwner
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, NAME_LABEL, REVISION_LABEL
from test.unit import api_server
from test.unit.builders import NOW, build_revision, make_group, make_leader_statefulset, make_set

A, B, C = (make_set(image=f"app:{letter}", size=size) for letter, size in (("a", 2), ("b", 3), ("c", 4)))
KEY_A, KEY_B, KEY_C = (record(lws).key for lws in (A, B, C))


def recorded(lws: dict[str, Any], number: int, **options: Any) -> Recorded:
    """Return a revision of the set as stored.

    options: further arguments of `build_revision`.
    """
    return parse(api_server.stored(dict(build_revision(lws, record(lws), number, **options))))


def choice_of(
    lws: dict[str, Any], *history: Recorded, running: str | None = None, **changes: Any
) -> TargetRevision:
    """Return the chosen revision.

    running: the key of the leader StatefulSet; None if there is no StatefulSet.
    """
    leader = make_leader_statefulset(lws, key=running) if running is not None else None
    ownership = Ownership.OURS if running is not None else Ownership.ABSENT
    return choose_revision(SetSnapshot(lws, NOW, leader, revisions=history, **changes), ownership)


def the_create(choice: TargetRevision) -> Create:
    (action,) = choice.actions
    assert isinstance(action, Create)
    return action


def test_the_first_revision() -> None:
    choice = choice_of(A)
    create = the_create(choice)
    assert (choice.key, choice.name) == (KEY_A, f"demo-{KEY_A}-1")
    assert create.intent["metadata"]["name"] == choice.name
    assert create.intent["metadata"]["labels"][REVISION_LABEL] == choice.key
    assert create.why == "the first revision of the set"
    (announce,) = create.announce
    assert announce.note == f"Creating revision with key {KEY_A} for a newly created LeaderWorkerSet"
    assert (announce.related, choice.collisions) == (choice.revision, None)
    assert sizes(choice) == {KEY_A: 2}


def test_a_changed_template() -> None:
    choice = choice_of(B, recorded(A, 1), running=KEY_A)
    create = the_create(choice)
    assert (choice.key, create.intent["revision"]) == (KEY_B, 2)
    reason = "template changed: size: 2 → 3; worker template container main image: app:a → app:b"
    assert create.why == reason
    assert create.announce[0].note == f"Creating revision with key {KEY_B} for updated LWS"
    assert sizes(choice) == {KEY_A: 2, KEY_B: 3}, "old groups are measured by their own size"


@pytest.mark.parametrize(
    ("lws", "history", "number"),
    [
        pytest.param(A, [(A, 1)], None, id="the only one: nothing to record"),
        pytest.param(B, [(A, 1), (B, 2)], None, id="the newest: nothing to record"),
        pytest.param(A, [(A, 1), (B, 2)], 3, id="an older one is raised above all others"),
        pytest.param(A, [(A, 5), (B, 9), (C, 7)], 10, id="gaps between the numbers"),
        pytest.param(A, [(A, 3), (B, 3)], None, id="no revision has a higher number"),
    ],
)
def test_an_equal_revision_is_reused(lws: Any, history: list[Any], number: int | None) -> None:
    stored = [recorded(*entry) for entry in history]
    choice = choice_of(lws, *stored, running=KEY_A)
    assert choice.key == record(lws).key
    assert choice.revision.uid, "it is the stored one"
    if number is None:
        assert choice.actions == ()
        return
    (raised,) = choice.actions
    assert isinstance(raised, Merge) and raised.target == stored[0].reference
    assert raised.patch == {"revision": number}
    assert raised.why == f"the spec matches revision {history[0][1]} again"


def test_an_equal_revision_keeps_its_key_regardless_of_its_hash() -> None:
    choice = choice_of(
        A, recorded(A, 1, key="40-hex-digits-of-long-ago"), running="40-hex-digits-of-long-ago"
    )
    assert (choice.key, choice.actions) == ("40-hex-digits-of-long-ago", ())


@pytest.mark.parametrize("is_alive", [True, False])
def test_an_orphan_is_used_and_is_adopted_if_the_set_still_exists(is_alive: bool) -> None:
    orphans = [replace(recorded(lws, number), is_orphan=True) for number, lws in enumerate((A, B, C), 1)]
    snapshot = SetSnapshot(C, NOW, revisions=tuple(orphans), set_read_live=C if is_alive else None)
    choice = choose_revision(snapshot, Ownership.ABSENT)
    repairs = plan_revision_repairs(choice)
    assert choice.key == KEY_C
    adoptions = [action for action in (*choice.actions, *repairs) if isinstance(action, SetOwner)]
    assert [adoption.target.name for adoption in adoptions] == (
        [orphan.name for orphan in (orphans[2], *orphans[:2])] * is_alive
    )
    for adoption in adoptions:
        assert (adoption.owner["uid"], adoption.owner["controller"]) == ("uid-of-set-demo", True)
        assert (adoption.is_owner, adoption.patch) == (True, {})


@pytest.mark.parametrize("label", ["", "other"], ids=["removed", "edited"])
def test_an_edited_name_label_is_repaired(label: str) -> None:
    edited, intact = (
        replace(recorded(A, 1), labels={NAME_LABEL: label, REVISION_LABEL: KEY_A}),
        recorded(B, 2),
    )
    snapshot = SetSnapshot(B, NOW, revisions=(edited, intact))
    (merge,) = plan_revision_repairs(choose_revision(snapshot, Ownership.ABSENT))
    assert isinstance(merge, Merge)
    assert (merge.target, merge.patch) == (edited.reference, {"metadata": {"labels": {NAME_LABEL: "demo"}}})
    leaving = replace(edited, is_terminating=True)
    snapshot = SetSnapshot(B, NOW, revisions=(leaving, intact))
    assert plan_revision_repairs(choose_revision(snapshot, Ownership.ABSENT)) == ()


def edited(lws: dict[str, Any], number: int, **metadata: Any) -> Recorded:
    """Return a stored revision with other labels or annotations.

    sealed: whether it keeps its checksum.
    """
    revision = api_server.stored(dict(build_revision(lws, record(lws), number)))
    for part in ("labels", "annotations"):
        revision["metadata"][part] |= metadata.get(part, {})
    if not metadata.get("sealed", True):
        del revision["metadata"]["annotations"][history.SEAL_ANNOTATION]
    return parse(revision)


@pytest.mark.parametrize("sealed", [True, False])
def test_an_edited_key_starts_no_rollout_and_is_repaired_and_reported(sealed: bool) -> None:
    revision = edited(A, 1, labels={REVISION_LABEL: "garbage"}, sealed=sealed)
    (revision,) = identified([revision], lambda: [KEY_A])
    snapshot = SetSnapshot(A, NOW, make_leader_statefulset(A, key=KEY_A), revisions=(revision,))
    choice = choose_revision(snapshot, Ownership.OURS)
    assert (choice.key, choice.name, choice.actions) == (KEY_A, revision.name, ())
    (merge,) = plan_revision_repairs(choice)
    assert isinstance(merge, Merge)
    assert (merge.target, merge.patch) == (
        revision.reference,
        {"metadata": {"labels": {REVISION_LABEL: KEY_A}}},
    )
    (event,) = merge.announce
    assert (event.type, event.reason, event.related) == ("Warning", "RevisionEdited", revision.reference)
    assert event.note == (
        f"ControllerRevision {revision.name} was edited: {REVISION_LABEL}. The recorded content stays in "
        f"effect, and the edit is reverted"
    )


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(("recorded_with", "edited_to"), [("rack", "zone"), ("rack", ""), ("", "zone")])
def test_an_edited_placement_starts_no_rollout_and_is_repaired_and_reported(
    recorded_with: str, edited_to: str, sealed: bool
) -> None:
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: recorded_with} if recorded_with else {}
    lws = make_set(image="app:a", annotations=annotations)
    key = record(lws).key
    revision = edited(lws, 1, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: edited_to}, sealed=sealed)
    snapshot = SetSnapshot(lws, NOW, make_leader_statefulset(lws, key=key), revisions=(revision,))
    choice = choose_revision(snapshot, Ownership.OURS)
    assert (choice.key, choice.name, choice.actions) == (key, revision.name, ())
    (merge,) = plan_revision_repairs(choice)
    assert isinstance(merge, Merge)
    assert merge.patch == {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: recorded_with}}}
    assert merge.announce[0].reason == "RevisionEdited"


def test_a_placement_changed_in_the_set_starts_a_rollout() -> None:
    rack = make_set(image="app:a", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    zone = make_set(image="app:a", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    revision = edited(rack, 1, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    leader = make_leader_statefulset(rack, key=revision.key)
    choice = choose_revision(SetSnapshot(zone, NOW, leader, revisions=(revision,)), Ownership.OURS)
    assert choice.key == record(zone).key_at(1) and len(choice.actions) == 1


def test_an_older_orphan_is_adopted_and_raised_in_one_write() -> None:
    orphan = replace(recorded(A, 1), is_orphan=True)
    choice = choice_of(A, orphan, recorded(B, 2), set_read_live=A)
    (action,) = choice.actions
    assert isinstance(action, SetOwner) and action.patch == {"revision": 3}


def test_a_terminating_revision_is_not_reused() -> None:
    leaving = replace(recorded(A, 1), is_terminating=True)
    create = the_create(choice_of(A, leaving, running=KEY_A))
    assert create.intent["metadata"]["name"] == f"demo-{KEY_A}-2"
    assert create.intent["metadata"]["labels"][REVISION_LABEL] == KEY_A


@pytest.mark.parametrize("ownership", [Ownership.NAME_CLASH, Ownership.TERMINATING])
def test_the_key_of_a_foreign_statefulset_is_ignored(ownership: Ownership) -> None:
    theirs = make_leader_statefulset(A, key="their-key")
    choice = choose_revision(SetSnapshot(A, NOW, theirs), ownership)
    assert choice.key == KEY_A
    assert the_create(choice).announce[0].note.endswith("for a newly created LeaderWorkerSet")


def have_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all templates the same hash."""
    monkeypatch.setattr(history, "key_at", lambda hashed, probe: f"same{probe or ''}")
    monkeypatch.setattr(reading, "keys_of", lambda text: (f"same{probe or ''}" for probe in count()))


def test_two_templates_of_one_hash_get_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    have_one_hash(monkeypatch)
    first = recorded(A, 1)
    choice = choice_of(B, first, running="same")
    assert (choice.key, choice.name, choice.collisions) == ("same1", "demo-same1-2", 1)

    # A pass after one with failed writes comes to the same result.
    again = choice_of({**B, "status": {"collisionCount": 1}}, first, running="same")
    assert (again.key, again.collisions) == ("same1", 1)

    # The revision is recorded, and the process has ended before the status was written.
    lost = choice_of(B, first, recorded(B, 2, probe=1), running="same")
    assert (lost.key, lost.actions, lost.collisions) == ("same1", (), 1)
    named = {**B, "status": {"updateRevision": lost.name, "collisionCount": 1}}
    assert choice_of(named, first, recorded(B, 2, probe=1), running="same1").collisions is None

    third = choice_of({**C, "status": {"collisionCount": 1}}, first, recorded(B, 2, probe=1), running="same1")
    assert (third.key, third.collisions) == ("same2", 2)

    later = choice_of({**A, "status": {"collisionCount": 2}}, first, recorded(B, 2, probe=1), running="same1")
    assert (later.key, later.collisions) == ("same", None), "known ones keep what they have"


def test_topology_annotations_are_part_of_a_revision() -> None:
    zone = make_set(image="app:a", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    choice = choice_of(zone, recorded(A, 1), running=KEY_A)
    create = the_create(choice)
    assert choice.key != KEY_A
    assert create.intent["metadata"]["annotations"][EXCLUSIVE_TOPOLOGY_ANNOTATION] == "zone"


def test_a_placement_edit_is_no_collision_of_hashes() -> None:
    zone = make_set(image="app:a", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    choice = choice_of(zone, recorded(A, 1), running=KEY_A)
    assert (choice.key, choice.collisions) == (record(A).key_at(1), None)


def test_collisions_are_counted_apart_from_placement_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    have_one_hash(monkeypatch)
    rack, zone = (
        make_set(image="app:b", size=3, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: topology})
        for topology in ("rack", "zone")
    )
    history = recorded(A, 1), recorded(rack, 2, probe=1)
    choice = choice_of(zone, *history, running="same1")
    assert (choice.key, choice.collisions) == ("same2", 1)


def test_a_revision_with_the_maximum_number_blocks_nothing() -> None:
    """A user edited the number. int64 holds no higher one, and the API server would reject it forever."""
    highest = replace(recorded(A, 1), number=2**63 - 1)
    create = the_create(choice_of(B, highest, running=KEY_A))
    assert create.intent["revision"] == 2**63 - 1
    assert create.intent["metadata"]["name"] == f"demo-{KEY_B}-{2**63}"

    stored = parse(api_server.stored(dict(create.intent)))
    again = choice_of(B, highest, stored, running=KEY_B)
    assert (again.key, again.actions) == (KEY_B, ())
    back = choice_of(A, highest, stored, running=KEY_B)
    assert (back.key, back.actions) == (KEY_A, ()), "there is no number above it"

    older = choice_of(C, recorded(C, 1), highest, running=KEY_A)
    (raised,) = older.actions
    assert isinstance(raised, Merge) and raised.patch == {"revision": 2**63 - 1}


def taken_by(name: str, owner: dict[str, Any] | None) -> dict[str, Any]:
    """Return a ControllerRevision of another owner, or without one."""
    return api_server.stored(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": "default",
                "ownerReferences": [owner] if owner is not None else [],
            },
            "revision": 1,
            "data": {},
        }
    )


OTHER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}


@pytest.mark.parametrize(
    ("owner", "words"), [(None, "not controlled by anything"), (OTHER, "controlled by Thing theirs")]
)
def test_a_taken_revision_name_is_skipped_and_reported_once(owner: dict[str, Any] | None, words: str) -> None:
    taken = tuple(taken_by(f"demo-{KEY_A}-{number}", owner) for number in (1, 2))
    choice = choice_of(A, taken_revisions=taken)
    create = the_create(choice)
    assert (choice.key, choice.name) == (KEY_A, f"demo-{KEY_A}-3")
    assert create.intent["revision"] == 3
    _, first, second = create.announce
    assert (first.type, first.reason, first.related) == ("Warning", "NameClash", Reference.to(taken[0]))
    assert first.note == (
        f"ControllerRevision demo-{KEY_A}-1 exists and is {words}: the revision is recorded as "
        f"demo-{KEY_A}-3 instead, with the same key; demo-{KEY_A}-1 is left untouched"
    )
    assert f"demo-{KEY_A}-2 exists" in second.note

    stored = parse(api_server.stored(dict(create.intent)))
    again = choice_of(A, stored, running=KEY_A, taken_revisions=taken)
    assert (again.key, again.actions) == (KEY_A, ()), "it is recorded: nothing more is reported"


def test_many_taken_names_are_skipped_in_few_passes() -> None:
    """Only a failed write shows that a name is taken, and retries back off."""
    existing = {f"demo-{KEY_A}-{number}" for number in range(1, 1001)}
    met: list[dict[str, Any]] = []
    while (name := choice_of(A, taken_revisions=tuple(met)).name) in existing:
        met.append(taken_by(name, OTHER))
    assert len(met) <= 12


def test_a_revision_of_a_former_set_is_skipped_without_a_report() -> None:
    """A set that is deleted and recreated meets objects that the garbage collector has not deleted yet."""
    former = {**owner_reference(A), "uid": "uid-of-a-former-set"}
    create = the_create(choice_of(A, taken_revisions=(taken_by(f"demo-{KEY_A}-1", former),)))
    assert create.intent["metadata"]["name"] == f"demo-{KEY_A}-2"
    assert [event.type for event in create.announce] == ["Normal"]


def test_unneeded_taken_names_are_not_reported() -> None:
    taken = (taken_by(f"demo-{KEY_A}-7", OTHER), taken_by(f"demo-{KEY_B}-1", OTHER))
    create = the_create(choice_of(A, taken_revisions=taken))
    assert create.intent["metadata"]["name"] == f"demo-{KEY_A}-1"
    assert len(create.announce) == 1


def test_a_name_of_another_revision_of_the_set_is_skipped_without_a_report() -> None:
    """The number of that revision was edited, and it is being deleted."""
    leaving = replace(recorded(A, 2), is_terminating=True, number=1)
    create = the_create(choice_of(A, leaving, running=KEY_A))
    assert create.intent["metadata"]["name"] == f"demo-{KEY_A}-3"
    assert len(create.announce) == 1


def test_a_taken_name_of_an_unrecorded_revision_is_skipped() -> None:
    taken = (taken_by(f"demo-{KEY_A}-1", OTHER),)
    (fill,) = choice_of(A, running=KEY_A, taken_revisions=taken).actions
    assert isinstance(fill, Create)
    assert fill.intent["metadata"]["name"] == f"demo-{KEY_A}-2"
    assert fill.intent["metadata"]["labels"][REVISION_LABEL] == KEY_A
    assert fill.announce[-1].reason == "NameClash"


def status_of(current: str) -> dict[str, Any]:
    return {"currentRevision": current} if current else {}


@pytest.mark.parametrize(
    ("current", "keys", "expected"),
    [
        pytest.param("known", [KEY_A], None, id="unchanged during the update"),
        pytest.param("", [], f"demo-{KEY_B}-2", id="a new set"),
        pytest.param("", [KEY_B, KEY_A], f"demo-{KEY_A}-1", id="adopted during an update"),
        pytest.param("", [KEY_B, "lost"], f"demo-{KEY_B}-2", id="revision is missing"),
    ],
)
def test_current_revision_during_an_update(current: str, keys: list[str], expected: str | None) -> None:
    lws = {**copy.deepcopy(B), "status": status_of(current)}
    groups = tuple(make_group(lws, index, key=key) for index, key in enumerate(keys))
    history = (recorded(A, 1), recorded(B, 2))
    leader = make_leader_statefulset(lws, key=KEY_B)
    snapshot = SetSnapshot(lws, NOW, leader, groups=groups, revisions=history)
    assert former_revision(snapshot, choose_revision(snapshot, Ownership.OURS)) == expected


def test_reasons_of_pruning() -> None:
    history = [recorded(former, number) for number, former in enumerate((A, B, C), 1)]
    lws = make_set(image="app:c", size=4, revisionHistoryLimit=0)
    snapshot = SetSnapshot(lws, NOW, revisions=tuple(history), live_keys=frozenset({KEY_B, KEY_C}))
    (action,) = plan_pruning(snapshot, choose_revision(snapshot, Ownership.ABSENT), ())
    assert isinstance(action, Delete)
    assert (action.target, action.propagation) == (history[0].reference, "Background")
    assert action.why == "no pod is of revision 1 any more"
