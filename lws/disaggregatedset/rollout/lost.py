"""Decide with how many groups deleted children of old revisions are restored.

Out: the slice with counts for the lost children, which stand like children whose groups are starting. What no
revision has any more needs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState


@dataclass(frozen=True, slots=True)
class Lost:
    """initial: groups that the child wanted when the rollout began; None before it does. most: how many it
    had when it was last seen, or more. lingering: of them, those whose leader pods are still there. orphaned:
    those that wait for it, to be taken over.
    """

    initial: int | None
    most: int
    lingering: int = 0
    orphaned: int = 0


def with_lost(state: SliceState, lost: Mapping[str, Mapping[str, Lost]]) -> SliceState:
    """lost: key → role → what is known of a child that there is not.

    They come back with what their siblings have kept of their groups, as far as there is room: what a step
    has taken does not return. Once the target revision is complete, nothing of others comes back.
    """
    if not any(lost.values()) or _is_complete(state):
        return state
    for revision in state.old:
        state = _restored(state, revision, lost.get(revision.key, {}))
    return state


def most_groups(role: RoleTarget) -> int:
    """More of them would take places that new groups need. One at least, where the role is not wanted any
    more: its revision serves nobody without.
    """
    return max(1, role.target)


def _restored(state: SliceState, revision: RevisionCounts, lost: Mapping[str, Lost]) -> SliceState:
    counts, gone = dict(revision.counts), dict(state.gone)
    for role in state.roles:
        known = lost.get(role.name)
        if known is None or role.name in revision.counts:
            continue
        count = _count(state, role, known, revision)
        if count > 0:
            present = max(count, known.lingering, known.orphaned)
            counts[role.name] = Count(
                count,
                present,
                0,
                False,
                known.initial,
                broken_on_top=count,
                starting=count,
                is_lost=True,
                lingering=known.lingering,
            )
    if len(counts) == len(revision.counts):
        return state
    for name in counts.keys() - revision.counts.keys():
        gone[name] = max(0, gone.get(name, 0) - (counts[name].initial or 0))
    old = (replace(each, counts=counts) if each.key == revision.key else each for each in state.old)
    return replace(state, old=tuple(old), gone=gone)


def _count(state: SliceState, role: RoleTarget, known: Lost, revision: RevisionCounts) -> int:
    room = role.ceiling - state.present(role.name)
    if known.initial is None:
        return min(known.most, room) if any(each.wanted for each in revision.counts.values()) else 0
    left = [
        -(-known.initial * each.wanted // each.initial) for each in revision.counts.values() if each.initial
    ]
    return min((known.initial, known.most, room, most_groups(role), *left)) if left else 0


def _is_complete(state: SliceState) -> bool:
    return all(state.new.of(role.name).wanted >= role.target for role in state.roles)
