"""Find LeaderWorkerSets of old revisions that a slice has lost, and create them again.

Lost children of the target revision are not included: every step creates those anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from lws.disaggregatedset.names import Identity, child_name, identity_of
from lws.disaggregatedset.rollout.lost import Lost, most_groups
from lws.disaggregatedset.rollout.state import SliceState, SliceStep
from lws.disaggregatedset.slices.state import Roles
from lws.disaggregatedset.slices.step import SliceFacts, annotated, create_child
from lws.disaggregatedset.slices.targets import RoleTargets
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.kube.metadata import is_mapping
from lws.runtime.actions import Create
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND


def lost_children(wanted: RoleTargets, within: SliceFacts, roles: Roles) -> dict[str, dict[str, Lost]]:
    """By key and role: those that are gone and can be made anew."""
    found: dict[str, dict[str, Lost]] = {}
    for identity, known in (*_of_rollout(within), *_of_waiting_slice(wanted, within, roles)):
        recorded = wanted.recorded(identity.key)
        is_known = recorded is not None and recorded.role(identity.role) is not None
        is_there = any((each.role, each.key) == (identity.role, identity.key) for each in within.children)
        if is_known and not is_there and not _is_refused(within.snapshot, identity):
            name = _name_of(within.snapshot, identity)
            lingering, orphaned = (
                each.get(name, 0) for each in (within.snapshot.lingering, within.snapshot.orphaned)
            )
            found.setdefault(identity.key, {})[identity.role] = replace(
                known, lingering=lingering, orphaned=orphaned
            )
    return found


def leftovers(within: SliceFacts, state: SliceState) -> dict[str, int]:
    """Role → groups that are left of deleted children of old revisions which do not come back."""
    set_name, found = within.snapshot.obj["metadata"]["name"], dict[str, int]()
    counted = {
        child_name(set_name, Identity(within.index, each.key, role))
        for each in state.old
        for role, count in each.counts.items()
        if count.is_lost
    }
    for name, count in within.snapshot.lingering.items():
        identity = identity_of(set_name, name)
        if identity is None or identity.slice_index != within.index or identity.key == within.key:
            continue
        if name not in counted:
            found[identity.role] = found.get(identity.role, 0) + count
    return found


def lost_before(within: SliceFacts, roles: Roles) -> dict[str, int]:
    """By name, children of old revisions that the status saw when the rollout begins, and that are gone:
    they belong to what it begins with, but for groups that are not wanted any more. Of a revision that is
    gone as a whole nothing is lost.
    """
    most = {each.name: most_groups(each) for each in roles.targets}
    set_name = within.snapshot.obj["metadata"]["name"]
    there = {(each.key, each.role) for each in within.children}
    found = {}
    for key in {key for key, _ in there} - {within.key}:
        for role, count in last_seen(within.snapshot.obj, within.index, key).items():
            if count and (key, role) not in there:
                name = child_name(set_name, Identity(within.index, key, role))
                found[name] = min(count, most.get(role, count))
    return found


def creations(
    wanted: RoleTargets, within: SliceFacts, state: SliceState, step: SliceStep
) -> Iterator[Create]:
    """What makes them anew, with what the step leaves of them, once nothing is left of the former ones:
    groups that terminate count.
    """
    for revision in state.old:
        for name, count in revision.counts.items():
            left = step.old.get(revision.key, {}).get(name, count.wanted)
            recorded = wanted.recorded(revision.key) if count.is_lost and left else None
            role = recorded.role(name) if recorded is not None else None
            identity = Identity(within.index, revision.key, name)
            if _name_of(within.snapshot, identity) in within.snapshot.lingering:
                continue
            if recorded is not None and role is not None:
                create = create_child(within, role, revision.key, left, recorded.placement)
                # As the original writes it on children that a rollout begins with.
                known = count.initial is not None
                yield annotated(create, INITIAL_REPLICAS_ANNOTATION, str(count.initial)) if known else create


def _of_rollout(within: SliceFacts) -> Iterator[tuple[Identity, Lost]]:
    """Children of other revisions with which the rollout began."""
    snapshot, memory = within.snapshot, within.memory
    if memory is None or memory.key != within.key:
        return
    for name, initial in memory.initial.items():
        identity = identity_of(snapshot.obj["metadata"]["name"], name)
        if initial and identity is not None and identity.key != within.key:
            seen = last_seen(snapshot.obj, identity.slice_index, identity.key)
            yield identity, Lost(initial, seen.get(identity.role, initial))


def _of_waiting_slice(
    wanted: RoleTargets, within: SliceFacts, roles: Roles
) -> Iterator[tuple[Identity, Lost]]:
    """Those of the one revision on which a slice stays until its rollout may begin."""
    keys = {each.key for each in within.children}
    waits = within.spec.paused or within.spec.max_updating_slices is not None
    if not waits or len(keys) != 1 or within.key in keys:
        return
    (key,) = keys
    recorded = wanted.recorded(key)
    for role in roles.targets:
        known = recorded.role(role.name) if recorded is not None else None
        # One that waits for others may never have been made.
        if known is not None and not known.start_after:
            yield Identity(within.index, key, role.name), Lost(None, role.target)


def _is_refused(snapshot: DisaggregatedSnapshot, identity: Identity) -> bool:
    """A stranger has the name, the API server does not take the child, or it is there and cannot be read: no
    step can wait for it.
    """
    name = _name_of(snapshot, identity)
    subject = f"cannot create {CHILD_KIND} {name}"
    is_there = (CHILD_KIND, name) in snapshot.strangers or name in snapshot.unreadable
    return is_there or any(each.subject == subject for each in snapshot.obstructions)


def _name_of(snapshot: DisaggregatedSnapshot, identity: Identity) -> str:
    """The name that it gets when it is made anew."""
    return child_name(snapshot.obj["metadata"]["name"], replace(identity, is_legacy=False))


def last_seen(obj: Mapping[str, Any], slice_index: int, key: str) -> dict[str, int]:
    """The groups that the status last said the children of a revision had, by role; it may be behind, and old
    counts only fall.
    """
    counts = {}
    for of_slice in _entries(obj.get("status"), "sliceStatuses", "index", slice_index):
        for revision in _entries(of_slice, "revisions", "revision", key):
            for role in _entries(revision, "roles"):
                count = role.get("replicas", 0)
                if isinstance(role.get("name"), str) and type(count) is int:
                    counts[role["name"]] = count
    return counts


def _entries(holder: Any, field: str, key: str = "", value: object = None) -> Iterator[Mapping[str, Any]]:
    """Those of a list that say this of themselves; all by default."""
    known = holder.get(field) if is_mapping(holder) else None
    for each in known if isinstance(known, list) else ():
        if is_mapping(each) and (not key or each.get(key) == value):
            yield each
