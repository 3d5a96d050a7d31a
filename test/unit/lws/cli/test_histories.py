"""lws.cli.histories: selection of a revision, and damaged histories."""

from __future__ import annotations

import pytest

from lws.cli.histories import set_history
from lws.cli.session import Refusal
from lws.history.revision import CHANGE_CAUSE_ANNOTATION
from lws.leaderworkerset.revisions.history import SEAL_ANNOTATION, record
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL
from test.unit.builders import make_set
from test.unit.lws.cli.histories import past, revision_of, sets, snapshot_of

A, B, C = sets("app:1", "app:2", "app:3")


def test_the_target_revision_and_the_groups_of_each_revision() -> None:
    history = past(A, B, running=[A, B])
    assert history.target is not None
    assert (history.target.number, history.target.key) == (2, record(B).key)
    assert history.groups == {record(A).key: (0,), record(B).key: (1,)}
    assert list(history.complaints()) == []


def test_a_template_without_a_revision() -> None:
    history = set_history(snapshot_of(B, [revision_of(A, 1)], [A, A]), [revision_of(A, 1)])
    assert history.target is None
    assert history.before(None).number == 1


def test_a_revision_is_found_by_number() -> None:
    history = past(A, B)
    assert history.numbered(1).key == record(A).key
    with pytest.raises(Refusal, match=r"set demo has no revision 7: there is 1, 2$"):
        history.numbered(7)


def test_a_set_without_revisions() -> None:
    history = set_history(snapshot_of(A, []), [])
    with pytest.raises(Refusal, match="no revision 1: there is none yet"):
        history.numbered(1)
    with pytest.raises(Refusal, match="no earlier revision"):
        history.before(None)


def test_the_previous_revision_has_another_template() -> None:
    # Upstream leaves copies of a revision behind.
    history = past(A, B, B)
    assert history.before(history.target).number == 1
    with pytest.raises(Refusal, match="no earlier revision"):
        history.before(history.numbered(1))


def test_the_previous_revision_is_not_broken() -> None:
    broken = {**revision_of(B, 2), "data": None}
    history = set_history(snapshot_of(C, [revision_of(A, 1), broken, revision_of(C, 3)]), [])
    assert history.before(history.target).number == 1


def test_a_broken_revision() -> None:
    broken = {**revision_of(A, 1), "data": {"spec": {}}}
    history = past(B, extra=[broken | {"revision": 5}])
    with pytest.raises(Refusal, match=r"revision 5 cannot be used: .* contains no leaderWorkerTemplate"):
        history.numbered(5)
    assert [
        complaint for complaint in history.complaints() if "contains no leaderWorkerTemplate" in complaint
    ]


def test_two_revisions_with_the_same_number() -> None:
    history = past(A, B, extra=[revision_of(C, 2)])
    with pytest.raises(Refusal, match=r"more than one revision has the number 2 \(demo-.*-2 and demo-.*-2\)"):
        history.numbered(2)
    (complaint,) = history.complaints()
    assert "number 2" in complaint


def test_two_templates_with_the_same_key() -> None:
    twin = revision_of(C, 3)
    twin["metadata"]["labels"][REVISION_LABEL] = record(A).key
    # An earlier release wrote this revision, so no checksum confirms its key.
    del twin["metadata"]["annotations"][SEAL_ANNOTATION]
    history = past(A, B, extra=[twin])
    with pytest.raises(Refusal, match=f"different templates share the key {record(A).key}"):
        history.numbered(1)
    assert history.numbered(2).key == record(B).key
    (complaint,) = history.complaints()
    assert "share the key" in complaint


def test_equal_templates_with_the_same_key_are_no_complaint() -> None:
    history = past(A, A, B)
    assert history.numbered(1).key == history.numbered(2).key
    assert list(history.complaints()) == []


def test_a_terminating_revision() -> None:
    terminating = revision_of(A, 1, deletionTimestamp="2026-01-01T00:00:00Z")
    history = past(B, extra=[terminating | {"revision": 5}])
    with pytest.raises(Refusal, match="revision 5 is being deleted"):
        history.numbered(5)


def test_an_orphan_of_the_set_is_part_of_the_history() -> None:
    orphan = revision_of(A, 1, ownerReferences=[])
    history = set_history(snapshot_of(B, [orphan, revision_of(B, 2)]), [orphan, revision_of(B, 2)])
    assert (history.numbered(1).is_orphan, history.strangers) == (True, ())


def test_an_orphan_whose_data_do_not_match_its_name() -> None:
    stranger = revision_of(C, 7, ownerReferences=[], name="demo-somebody-7")
    history = past(A, B, extra=[stranger])
    assert [revision.number for revision in history.revisions] == [1, 2]
    with pytest.raises(Refusal, match=r"demo-somebody-7 \(revision 7\) has no owner"):
        history.numbered(7)
    (complaint,) = history.complaints()
    assert "demo-somebody-7" in complaint


def test_revisions_of_statefulsets_are_ignored() -> None:
    theirs = {
        "metadata": {"name": "demo-abc", "uid": "x", "labels": {NAME_LABEL: "demo"}},
        "revision": 1,
        "data": {"spec": {"template": {"$patch": "replace"}}},
    }
    assert past(A, extra=[]).strangers == set_history(snapshot_of(A, []), [theirs]).strangers == ()


def test_groups_whose_revision_is_deleted() -> None:
    (complaint,) = past(B, running=[A, A]).complaints()
    assert complaint == f"groups 0 to 1 run with key {record(A).key}, but its revision no longer exists"


def test_change_causes() -> None:
    lws = make_set(annotations={CHANGE_CAUSE_ANNOTATION: "new model"})
    history = past(A, lws | {"spec": B["spec"]})
    assert list(history.causes.values()) == ["new model"]
    assert history.causes == {history.numbered(2).name: "new model"}
