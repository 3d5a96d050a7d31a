"""Which revision the set wants, and what is written before anything acts on it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from lws.actions import Create, Delete, Merge
from lws.kube.ownership import Standing
from lws.leaderworkerset import revisions
from lws.leaderworkerset.revision_choice import (
    Choice,
    choose_revision,
    former_revision,
    plan_adoption,
    plan_pruning,
)
from lws.leaderworkerset.revisions import Recorded, build_revision, parse, record
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, NAME_LABEL, REVISION_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_group, make_leader_statefulset, make_set

A, B, C = (make_set(image=f"app:{letter}", size=size) for letter, size in (("a", 2), ("b", 3), ("c", 4)))
KEY_A, KEY_B, KEY_C = (record(each).key for each in (A, B, C))


def recorded(lws: dict[str, Any], number: int, **options: Any) -> Recorded:
    """As stored; options: those of `build_revision`."""
    return parse(api_server.stored(dict(build_revision(lws, record(lws), number, **options))))


def choice_of(
    wanted: dict[str, Any], *history: Recorded, running: str | None = None, **changes: Any
) -> Choice:
    """running: the key of the leader StatefulSet, None without one."""
    leader = make_leader_statefulset(wanted, key=running) if running is not None else None
    standing = Standing.OURS if running is not None else Standing.ABSENT
    return choose_revision(SetSnapshot(wanted, NOW, leader, revisions=history, **changes), standing)


def the_create(choice: Choice) -> Create:
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
    assert choice.size_of == {KEY_A: 2}


def test_a_changed_template() -> None:
    choice = choice_of(B, recorded(A, 1), running=KEY_A)
    create = the_create(choice)
    assert (choice.key, create.intent["revision"]) == (KEY_B, 2)
    said = "template changed: size: 2 → 3; worker template container main image: app:a → app:b"
    assert create.why == said
    assert create.announce[0].note == f"Creating revision with key {KEY_B} for updated LWS"
    assert choice.size_of == {KEY_A: 2, KEY_B: 3}, "old groups are measured by their own size"


@pytest.mark.parametrize(
    ("wanted", "history", "number"),
    [
        pytest.param(A, [(A, 1)], None, id="the only one: nothing to record"),
        pytest.param(B, [(A, 1), (B, 2)], None, id="the newest: nothing to record"),
        pytest.param(A, [(A, 1), (B, 2)], 3, id="an older one is raised above all others"),
        pytest.param(A, [(A, 5), (B, 9), (C, 7)], 10, id="numbers have gaps"),
        pytest.param(A, [(A, 3), (B, 3)], None, id="none has a higher number"),
    ],
)
def test_an_equal_revision_is_reused(wanted: Any, history: list[Any], number: int | None) -> None:
    stored = [recorded(*each) for each in history]
    choice = choice_of(wanted, *stored, running=KEY_A)
    assert choice.key == record(wanted).key
    assert choice.revision.uid, "it is the stored one"
    if number is None:
        assert choice.actions == ()
        return
    (raised,) = choice.actions
    assert isinstance(raised, Merge) and raised.target == stored[0].reference
    assert raised.patch == {"revision": number}
    assert raised.why == f"the set asks again for what revision {history[0][1]} holds"


def test_an_equal_revision_keeps_its_key_whatever_the_hash_would_be() -> None:
    choice = choice_of(
        A, recorded(A, 1, key="40-hex-digits-of-long-ago"), running="40-hex-digits-of-long-ago"
    )
    assert (choice.key, choice.actions) == ("40-hex-digits-of-long-ago", ())


@pytest.mark.parametrize("is_alive", [True, False])
def test_an_orphan_is_used_and_adopted_if_the_set_lives(is_alive: bool) -> None:
    orphans = [replace(recorded(each, number), is_orphan=True) for number, each in enumerate((A, B, C), 1)]
    snapshot = SetSnapshot(C, NOW, revisions=tuple(orphans), reread=C if is_alive else None)
    choice = choose_revision(snapshot, Standing.ABSENT)
    rest = plan_adoption(snapshot, choice)
    assert choice.key == KEY_C
    merges = [action for action in (*choice.actions, *rest) if isinstance(action, Merge)]
    assert [merge.target.name for merge in merges] == (
        [each.name for each in (orphans[2], *orphans[:2])] * is_alive
    )
    for merge in merges:
        (owner,) = merge.patch["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("uid-of-set-demo", True)


@pytest.mark.parametrize("label", ["", "other"], ids=["removed", "edited"])
def test_a_name_label_that_was_edited_is_put_back(label: str) -> None:
    edited, kept = replace(recorded(A, 1), set_name=label), recorded(B, 2)
    snapshot = SetSnapshot(B, NOW, revisions=(edited, kept))
    (merge,) = plan_adoption(snapshot, choose_revision(snapshot, Standing.ABSENT))
    assert isinstance(merge, Merge)
    assert (merge.target, merge.patch) == (edited.reference, {"metadata": {"labels": {NAME_LABEL: "demo"}}})
    leaving = replace(edited, is_leaving=True)
    snapshot = SetSnapshot(B, NOW, revisions=(leaving, kept))
    assert plan_adoption(snapshot, choose_revision(snapshot, Standing.ABSENT)) == ()


def test_an_older_orphan_is_adopted_and_raised_in_one_write() -> None:
    orphan = replace(recorded(A, 1), is_orphan=True)
    choice = choice_of(A, orphan, recorded(B, 2), reread=A)
    (action,) = choice.actions
    assert isinstance(action, Merge)
    assert action.patch.keys() == {"metadata", "revision"} and action.patch["revision"] == 3


def test_what_is_being_deleted_is_not_reused() -> None:
    leaving = replace(recorded(A, 1), is_leaving=True)
    create = the_create(choice_of(A, leaving, running=KEY_A))
    assert create.intent["metadata"]["name"] == f"demo-{KEY_A}-2"
    assert create.intent["metadata"]["labels"][REVISION_LABEL] == KEY_A


@pytest.mark.parametrize("standing", [Standing.CLASH, Standing.LEAVING])
def test_the_key_of_a_strangers_statefulset_says_nothing(standing: Standing) -> None:
    theirs = make_leader_statefulset(A, key="their-key")
    choice = choose_revision(SetSnapshot(A, NOW, theirs), standing)
    assert choice.key == KEY_A
    assert the_create(choice).announce[0].note.endswith("for a newly created LeaderWorkerSet")


def test_two_templates_of_one_hash_get_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "key_of", lambda text, probe=0: f"same{probe or ''}")
    first = recorded(A, 1)
    choice = choice_of(B, first, running="same")
    assert (choice.key, choice.name, choice.collisions) == ("same1", "demo-same1-2", 1)

    # A pass whose writes failed comes to the same end.
    again = choice_of({**B, "status": {"collisionCount": 1}}, first, running="same")
    assert (again.key, again.collisions) == ("same1", 1)

    third = choice_of({**C, "status": {"collisionCount": 1}}, first, recorded(B, 2, probe=1), running="same1")
    assert (third.key, third.collisions) == ("same2", 2)

    later = choice_of({**A, "status": {"collisionCount": 2}}, first, recorded(B, 2, probe=1), running="same1")
    assert (later.key, later.collisions) == ("same", None), "known ones keep what they have"


def test_topology_annotations_are_part_of_a_revision() -> None:
    zone = make_set(image="app:a", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"})
    choice = choice_of(zone, recorded(A, 1), running=KEY_A)
    create = the_create(choice)
    assert choice.key != KEY_A and choice.collisions == 1
    assert create.intent["metadata"]["annotations"] == {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}


def status_of(current: str) -> dict[str, Any]:
    return {"currentRevision": current} if current else {}


@pytest.mark.parametrize(
    ("current", "keys", "expected"),
    [
        pytest.param("known", [KEY_A], None, id="it stays what it was"),
        pytest.param("", [], f"demo-{KEY_B}-2", id="a new set"),
        pytest.param("", [KEY_B, KEY_A], f"demo-{KEY_A}-1", id="taken over in the middle of an update"),
        pytest.param("", [KEY_B, "lost"], f"demo-{KEY_B}-2", id="its revision is lost"),
    ],
)
def test_the_current_revision_while_an_update_is_under_way(
    current: str, keys: list[str], expected: str | None
) -> None:
    lws = {**copy.deepcopy(B), "status": status_of(current)}
    groups = tuple(make_group(lws, index, key=key) for index, key in enumerate(keys))
    history = (recorded(A, 1), recorded(B, 2))
    leader = make_leader_statefulset(lws, key=KEY_B)
    snapshot = SetSnapshot(lws, NOW, leader, groups=groups, revisions=history)
    assert former_revision(snapshot, choose_revision(snapshot, Standing.OURS)) == expected


def test_pruning_says_what_goes_and_why() -> None:
    history = [recorded(each, number) for number, each in enumerate((A, B, C), 1)]
    lws = make_set(image="app:c", size=4, revisionHistoryLimit=0)
    snapshot = SetSnapshot(lws, NOW, revisions=tuple(history), live_keys=frozenset({KEY_B, KEY_C}))
    (action,) = plan_pruning(snapshot, choose_revision(snapshot, Standing.ABSENT))
    assert isinstance(action, Delete)
    assert (action.target, action.propagation) == (history[0].reference, "Background")
    assert action.why == "no pod is of revision 1 any more"
