"""lws.kube.ownership: every combination of owner, lifecycle state and labels of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws.kube.metadata import controller_of, labels_of
from lws.kube.ownership import Ownership, may_adopt, name_clash_note, ownership_of

OURS, OTHER = "uid-ours", "uid-other"
LABELS = {"app": "demo", "tier": "web"}


def _object(
    controller: str | None = None,
    *,
    kind: str = "LeaderWorkerSet",
    labels: dict[str, str] | None = None,
    is_going: bool = False,
    plain_owner: str | None = None,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "demo", "labels": LABELS if labels is None else labels}
    owners = []
    if plain_owner is not None:
        owners.append({"kind": kind, "name": "owner", "uid": plain_owner})
    if controller is not None:
        owners.append({"kind": kind, "name": "owner", "uid": controller, "controller": True})
    if owners:
        metadata["ownerReferences"] = owners
    if is_going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": "StatefulSet", "metadata": metadata}


@pytest.mark.parametrize(
    ("obj", "alive", "expected"),
    [
        pytest.param(None, [], Ownership.ABSENT, id="nothing-of-that-name"),
        pytest.param(_object(OURS), [], Ownership.OURS, id="ours"),
        pytest.param(_object(OURS, labels={}), [], Ownership.OURS, id="ours-with-edited-labels"),
        pytest.param(_object(OURS, is_going=True), [], Ownership.TERMINATING, id="ours-terminating"),
        pytest.param(
            _object(OURS, plain_owner=OTHER), [OTHER], Ownership.OURS, id="ours-with-another-plain-owner"
        ),
        pytest.param(_object(OTHER), [OTHER], Ownership.NAME_CLASH, id="of-a-living-stranger"),
        pytest.param(_object(OTHER), [], Ownership.TERMINATING, id="of-a-deleted-owner"),
        pytest.param(
            _object(OTHER, is_going=True),
            [OTHER],
            Ownership.TERMINATING,
            id="foreign-terminating",
        ),
        pytest.param(
            _object(OTHER, labels={}),
            [OTHER],
            Ownership.NAME_CLASH,
            id="of-a-living-stranger-labels-do-not-matter",
        ),
        pytest.param(_object(), [], Ownership.ORPHAN, id="without-owner-and-like-ours"),
        pytest.param(_object(labels={}), [], Ownership.NAME_CLASH, id="without-owner-and-unlike-ours"),
        pytest.param(_object(is_going=True), [], Ownership.TERMINATING, id="without-owner-terminating"),
        pytest.param(
            _object(labels={}, is_going=True),
            [],
            Ownership.TERMINATING,
            id="without-owner-unlike-ours-terminating",
        ),
        pytest.param(
            _object(plain_owner=OURS),
            [],
            Ownership.ORPHAN,
            id="an-owner-that-does-not-control-does-not-count",
        ),
    ],
)
def test_ownership(obj: dict[str, Any] | None, alive: list[str], expected: Ownership) -> None:
    def is_like_ours(orphan: Mapping[str, Any]) -> bool:
        assert controller_of(orphan) is None, "the content of a controlled object does not matter"
        return labels_of(orphan) == LABELS

    assert ownership_of(obj, OURS, is_like_ours, alive) is expected


def test_ownership_depends_on_the_uid_instead_of_the_name() -> None:
    namesake = _object("uid-of-a-former-set-of-this-name")
    assert ownership_of(namesake, OURS, lambda orphan: True, []) is Ownership.TERMINATING


@pytest.mark.parametrize(
    ("obj", "owner"),
    [
        pytest.param(_object(OTHER, kind="Rollout"), "controlled by Rollout owner", id="owned"),
        pytest.param(_object(), "not controlled by anything", id="orphan"),
    ],
)
def test_a_clash_reports_both_owners_and_a_remedy(obj: dict[str, Any], owner: str) -> None:
    assert name_clash_note(obj, "LeaderWorkerSet", "demo") == (
        f"StatefulSet demo exists and is {owner}: LeaderWorkerSet demo needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )


@pytest.mark.parametrize(
    ("reread", "expected"),
    [
        pytest.param(None, False, id="deleted"),
        pytest.param({"metadata": {"uid": OURS}}, True, id="alive"),
        pytest.param({"metadata": {"uid": OTHER}}, False, id="another-object-of-the-name"),
        pytest.param({"metadata": {"uid": OURS, "deletionTimestamp": "now"}}, False, id="terminating"),
    ],
)
def test_a_terminating_owner_does_not_adopt(reread: dict[str, Any] | None, expected: bool) -> None:
    assert may_adopt({"metadata": {"uid": OURS}}, reread) is expected
