"""lws.cli.histories and `lws undo`: the history of a DisaggregatedSet, and its rollback."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.commands.history import history_data
from lws.cli.commands.undo import returning, roles_operations
from lws.cli.histories import RolesHistory, roles_history
from lws.cli.session import Refusal
from lws.cli.sets import KINDS, NamedSet, find, refuse_paused
from lws.history.revision import CHANGE_CAUSE_ANNOTATION
from test.unit.fake_api import failure
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.test_lookup import world
from test.unit.lws.disaggregatedset.revisions.histories import (
    children_of,
    key_by_hash,
    make_dset,
    make_role,
    revision_of,
)

A, B = (make_dset(*(make_role(name, image=image) for name in ("prefill", "decode"))) for image in "ab")
C = make_dset(make_role("prefill", image="b"), make_role("router", image="b"))

LLM = NamedSet("llm", KINDS[1])


async def past_in(talk: Talk, *states: dict[str, Any]) -> RolesHistory:
    """Return the history of a set that went through these states.

    The set runs the last state but one; the first revision has a change cause.
    """
    revisions = [revision_of(state, number) for number, state in enumerate(states, 1)]
    revisions[0]["metadata"]["annotations"][CHANGE_CAUSE_ANNOTATION] = "the beginning"
    children = [child.obj for child in children_of(states[-2], slices=2)]
    for child in children:
        child["metadata"]["ownerReferences"] = revisions[0]["metadata"]["ownerReferences"]
    stranger = revision_of(make_dset(name="other"), 9)
    talk.api.will(*[world(states[-1], *revisions, *children, stranger)] * 3)
    return await roles_history(talk.session, await find(talk.session, LLM))


async def test_the_history(talk: Talk) -> None:
    past = await past_in(talk, A, B)
    assert [revision.number for revision in past.revisions] == [1, 2]
    assert past.target is past.revisions[1]
    assert past.groups_on(key_by_hash(A)) == {"prefill": 4, "decode": 4}, "over all slices"
    image = "worker template container main image: a → b"
    data = history_data(past, past.revisions, with_content=False)["revisions"]
    assert [revision["changes"] for revision in data] == [
        ["the first revision"],
        [f"role prefill {image}", f"role decode {image}"],
    ]
    assert [revision.get("changeCause") for revision in data] == ["the beginning", None]
    assert [revision["wanted"] for revision in data] == [False, True]
    (entire,) = history_data(past, past.revisions[:1], with_content=True)["revisions"]
    assert [role["name"] for role in entire["roles"]] == ["prefill", "decode"]


async def test_a_revision_is_selected_by_number(talk: Talk) -> None:
    past = await past_in(talk, A, B, C)
    assert past.numbered(2) is past.revisions[1]
    assert past.before(past.target) is past.revisions[1]
    with pytest.raises(Refusal, match="set llm has no revision 7: there is 1, 2, 3"):
        past.numbered(7)
    with pytest.raises(Refusal, match="has no earlier revision"):
        past.before(past.revisions[0])


async def test_the_undo_patch(talk: Talk) -> None:
    past = await past_in(talk, A, B, C)
    target = past.revisions[1]
    assert returning(past, target) == {"decode": 2}, "the remaining replicas of one slice"
    test, patch = roles_operations(past, past.obj, target)
    assert (test["op"], patch["path"]) == ("test", "/spec/roles")
    assert [role["name"] for role in patch["value"]] == ["prefill", "decode"]


async def test_a_paused_set_must_be_resumed_first(talk: Talk) -> None:
    past = await past_in(talk, A, {**B, "spec": {**B["spec"], "rolloutStrategy": {"paused": True}}})
    with pytest.raises(Refusal, match="set llm is paused"):
        refuse_paused(past.obj, "undo")


async def test_a_missing_or_unreadable_set(talk: Talk) -> None:
    talk.api.will(failure(404, "NotFound", 'disaggregatedsets "llm" not found'), world(make_dset(name="lm")))
    with pytest.raises(Refusal, match='"llm" not found in namespace "team"; did you mean lm') as refusal:
        await find(talk.session, LLM)
    assert refusal.value.opening == "Error from server (NotFound)"
    talk.api.will(world(make_dset(slices=0)))
    with pytest.raises(Refusal, match=r"cannot be read: spec.slices is 0"):
        await find(talk.session, LLM)
