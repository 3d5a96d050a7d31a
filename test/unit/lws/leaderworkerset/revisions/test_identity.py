"""Tests of the key of a revision without a checksum whose label is not the hash in its name."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lws.history.revision import edited_labels, find
from lws.leaderworkerset.revisions.history import FORMAT, SEAL_ANNOTATION, Recorded, record
from lws.leaderworkerset.revisions.reading import identified, parse
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit import api_server
from test.unit.builders import build_revision, make_set

A, B, C = (make_set(image=f"app:{letter}") for letter in "abc")
KEY_A, KEY_B, KEY_C = (record(lws).key for lws in (A, B, C))
OLD = "0123456789abcdef0123456789abcdef01234567"


def unsealed(lws: dict[str, Any], number: int, label: str | None = None) -> Recorded:
    """Return a revision as upstream or an earlier release wrote it.

    label: the value of the key label; None for the hash.
    """
    revision = api_server.stored(dict(build_revision(lws, record(lws), number)))
    del revision["metadata"]["annotations"][SEAL_ANNOTATION]
    if label is not None:
        revision["metadata"]["labels"][REVISION_LABEL] = label
    return parse(revision)


@pytest.mark.parametrize(
    ("history", "carried", "keys"),
    [
        pytest.param([(A, None)], [KEY_A], [KEY_A], id="nothing was edited"),
        pytest.param([(A, OLD)], [OLD], [OLD], id="pods carry an older key"),
        pytest.param([(A, OLD), (B, None)], [OLD, KEY_B], [OLD, KEY_B], id="the same in a rollout"),
        pytest.param([(A, OLD), (A, None)], [OLD, KEY_A], [OLD, KEY_A], id="recorded twice"),
        pytest.param([(A, OLD)], [], [OLD], id="nothing runs it"),
        pytest.param([(A, "garbage")], [KEY_A], [KEY_A], id="edited"),
        pytest.param([(A, "")], [KEY_A], [KEY_A], id="removed"),
        pytest.param([(A, None), (B, KEY_A)], [KEY_A, KEY_B], [KEY_A, KEY_B], id="to a key that runs"),
        pytest.param([(A, None), (B, KEY_A)], [KEY_A], [KEY_A, KEY_B], id="of one that does not run"),
        pytest.param([(A, KEY_B), (B, KEY_A)], [KEY_A, KEY_B], [KEY_A, KEY_B], id="swapped"),
        pytest.param([(A, KEY_B), (B, KEY_A)], [KEY_A], [KEY_A, KEY_B], id="swapped, one runs"),
        pytest.param([(A, KEY_B), (B, KEY_A)], [], [KEY_A, KEY_B], id="swapped, none runs"),
        pytest.param([(A, "garbage"), (B, KEY_A)], [KEY_A], [KEY_A, KEY_B], id="both, one to the other's"),
        pytest.param(
            [(A, KEY_B), (B, KEY_C), (C, KEY_A)], [KEY_A], [KEY_A, KEY_B, KEY_C], id="three in a circle"
        ),
        pytest.param(
            [(A, "garbage"), (B, "garbage"), (C, None)], [KEY_C], [KEY_A, KEY_B, KEY_C], id="all to one"
        ),
        pytest.param([(B, OLD), (A, OLD)], [OLD], [KEY_B, OLD], id="back on the older key"),
        pytest.param([(B, KEY_A)], [KEY_A, KEY_B], [KEY_B], id="to a key that runs and is lost"),
        pytest.param([(A, OLD), (B, OLD)], [OLD, KEY_B], [OLD, KEY_B], id="to an older key"),
    ],
)
def test_an_edited_label_gives_no_group_another_template(
    history: list[tuple[dict[str, Any], str | None]], carried: list[str], keys: list[str]
) -> None:
    parsed = [unsealed(lws, number, label) for number, (lws, label) in enumerate(history, 1)]
    revisions = identified(parsed, lambda: carried)
    assert [revision.key for revision in revisions] == keys
    for before, after in zip(parsed, revisions, strict=True):
        is_kept = before.key == after.key
        restored = edited_labels(FORMAT, A, after)
        assert restored == ({} if is_kept else {REVISION_LABEL: after.key})
        assert find(revisions, after.key) is not None


def test_a_revision_with_an_unknown_key_is_broken() -> None:
    (revision,) = identified([unsealed(A, 1, "")], lambda: ["of another template"])
    assert "nothing shows which pods were created from it" in revision.broken


@pytest.mark.parametrize("carried", [[], ["garbage"]], ids=["no object has the key", "an object has it"])
def test_many_edited_labels_are_identified_in_linear_time(carried: list[str]) -> None:
    """Anyone who may write ControllerRevisions in the namespace could otherwise block all passes."""
    parsed = [unsealed(make_set(image=f"app:{number}"), number, "garbage") for number in range(1, 301)]
    begun = time.process_time()
    assert all(revision.key == hashed(revision) for revision in identified(parsed, lambda: carried)[:-1])
    assert time.process_time() - begun < 0.4, "comparing each revision with each other takes a second"


def hashed(revision: Recorded) -> str:
    return FORMAT.fingerprint_in(revision.name)
