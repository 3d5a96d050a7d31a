"""Carry out a plan: its writes in order, each followed by its Events, and the status last.

The resulting `Outcome` lists what failed. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, Protocol

from cachetools import FIFOCache

from lws.kube.conditions import reason_of
from lws.kube.metadata import controller_of, is_terminating, metadata_of, uid_of
from lws.kube.ownership import owners_with, owners_without
from lws.kube.patches import is_merged_into
from lws.runtime.actions import (
    Action,
    Announce,
    Apply,
    Create,
    Delete,
    Merge,
    Object,
    Plan,
    Reference,
    SetFinalizer,
    SetOwner,
    Status,
    Tally,
    target_of,
)
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists, ApiError, ClusterError, Conflict, NotFound, Overtaken
from lws.runtime.events import EventRecorder
from lws.runtime.refusals import matches_intent

# --- Keep creations for an owner and the deletion of that owner from overlapping. Passes over a set and its
# groups run concurrently. If a child is created for a leader while another pass deletes that leader in the
# foreground, the garbage collector does not wait for it, and old workers coexist with the new leader.


# Far more deletions than can be in flight at a time.
_DELETED = 10_000


class OwnerLocks:
    """Locks by owner: children are created concurrently, but never while their owner is being deleted."""

    def __init__(self) -> None:
        # By UID of the owner: the number of running creations, and the Event for which its deletion waits.
        self._creating: Counter[str] = Counter()
        self._created: dict[str, asyncio.Event] = {}
        # By UID of the owner: the Event that is set when its running deletion has ended.
        self._deleting: dict[str, asyncio.Event] = {}
        self._deleted = FIFOCache[str, None](_DELETED)

    @asynccontextmanager
    async def creating(self, uid: str) -> AsyncIterator[bool]:
        """Yield whether children may be created for this owner. Its deletion waits for this context."""
        while uid in self._deleting:
            await self._deleting[uid].wait()
        if uid in self._deleted:
            yield False
            return
        self._creating[uid] += 1
        try:
            yield True
        finally:
            self._creating[uid] -= 1
            if not self._creating[uid]:
                del self._creating[uid]
                if uid in self._created:
                    self._created.pop(uid).set()

    @asynccontextmanager
    async def deleting(self, uid: str) -> AsyncIterator[None]:
        """Block creations for this owner, and keep them blocked unless the deletion raises an error."""
        while uid in self._deleting:
            await self._deleting[uid].wait()
        ended = self._deleting[uid] = asyncio.Event()
        try:
            if uid in self._creating:
                created = self._created[uid] = asyncio.Event()
                await created.wait()
            yield
            self._deleted[uid] = None
        finally:
            del self._deleting[uid]
            ended.set()


log = logging.getLogger(__name__)

_PRUNED = 65536


def _no_record(*_: Any) -> None:
    """Keep no record of a write."""


class Statuses(Protocol):
    """A record of our last writes to statuses (`WrittenStatuses`)."""

    def record_sent(self, target: Reference, patch: Object) -> Object | None: ...

    def record_stored(self, stored: Object, before: Object | None, patch: Object) -> None: ...


@dataclass(frozen=True, slots=True)
class WriteHooks:
    """Functions that receive the results of writes, so that no plan is older than our own writes.

    put: called with each object that the API server returned. applied, created: called with each successful
    apply or create and the object that it returned. rejected, succeeded: called with each such action and the
    owner of its plan. name_taken: called with each create whose name belongs to another object. deleting: the
    UIDs of objects that running plans delete. deleted: called with each object that no longer exists after a
    write, and with the response: the last state of a pod, a Status for other kinds, or an empty mapping if
    the object was already gone. statuses: a record that receives each status write before it is sent, and its
    result.
    """

    put: Callable[[Mapping[str, Any]], None]
    applied: Callable[[Apply, Mapping[str, Any]], None] = _no_record
    rejected: Callable[[Action, ApiError, Reference], None] = _no_record
    name_taken: Callable[[Create], None] = _no_record
    deleting: set[str] = field(default_factory=set)
    deleted: Callable[[Reference, Mapping[str, Any]], None] = _no_record
    statuses: Statuses | None = None
    succeeded: Callable[[Action, Reference], None] = _no_record
    created: Callable[[Create, Mapping[str, Any]], None] = _no_record


@dataclass(slots=True)
class Outcome:
    """The result of carrying out a plan.

    errors: the failures. A sequence stops at its first one, or after a row of concurrent deletions. forced:
    the number of forced deletions. overtaken: whether another client changed an object first. Nothing failed,
    but a further pass is needed. tallies: increments of counters for successful writes. statuses: those that
    are written last, by target, without those that a record has carried.
    """

    errors: list[ClusterError] = field(default_factory=list)
    forced: int = 0
    overtaken: bool = False
    tallies: list[Tally] = field(default_factory=list)
    statuses: dict[str, Status] = field(default_factory=dict)

    @property
    def retry_after(self) -> float:
        """The longest wait before a retry that the server requested, in seconds; 0 if it requested none."""
        return max((error.retry_after or 0.0 for error in self.errors), default=0.0)


class Applier:
    """Carries out plans on one cluster, with owner locks that it may share with other appliers."""

    def __init__(
        self, cluster: Cluster, recorder: EventRecorder, hooks: WriteHooks, locks: OwnerLocks | None = None
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._hooks = hooks
        self._locks = locks or OwnerLocks()
        # By UID of the object: the resourceVersion after a status write, and the fields that were not stored.
        self._pruned = FIFOCache[str, tuple[str, Mapping[str, Any]]](_PRUNED)

    def forget(self, obj: Object) -> None:
        """Drop the record of a deleted object."""
        self._pruned.pop(uid_of(obj), None)

    async def apply(self, plan: Plan) -> Outcome:
        """Carry out a plan: run its sequences concurrently, then write its statuses, even after failures.

        Each sequence runs in order and stops at its first failure. Consecutive deletions of one kind run
        concurrently.
        """
        outcome = Outcome(statuses={str(status.target): status for status in plan.statuses})
        deleting = {action.target.uid for action in chain(*plan.sequences) if isinstance(action, Delete)}
        self._hooks.deleting.update(deleting)
        try:
            running = (self._run(sequence, outcome, plan.owner) for sequence in plan.sequences)
            results = await asyncio.gather(*running, return_exceptions=True)
        finally:
            self._hooks.deleting.difference_update(deleting)
        for status in outcome.statuses.values():
            if outcome.errors or not status.only_after_failure:
                await self._write_status(status, outcome, plan.owner)
        for announce in plan.announce:
            self._recorder.announce(announce)
        for bug in results:
            if bug is not None:
                raise bug
        return outcome

    async def _run(self, sequence: Sequence[Action], outcome: Outcome, owner: Reference | None) -> None:
        for deleted, group in groupby(
            sequence, lambda action: isinstance(action, Delete) and action.target.kind
        ):
            actions = tuple(group)
            # If they were deleted one after the other, other controllers would delete the last objects first.
            for step in [actions] if deleted else [(action,) for action in actions]:
                if not await self._execute_concurrently(step, outcome, owner):
                    return

    async def _execute_concurrently(
        self, actions: Sequence[Action], outcome: Outcome, owner: Reference | None
    ) -> bool:
        """Carry out actions concurrently. Return False if the sequence must stop."""
        executions = [self._execute(action, outcome, owner) for action in actions]
        if len(executions) == 1:
            # As a task of its own, a single action would let other sequences go first.
            return await executions[0]
        results = await asyncio.gather(*executions, return_exceptions=True)
        for bug in results:
            if isinstance(bug, BaseException):
                raise bug
        return all(results)

    async def _execute(self, action: Action, outcome: Outcome, owner: Reference | None) -> bool:
        """Carry out one action. Return False if the sequence must stop."""
        try:
            if (
                isinstance(action, Merge)
                and action.subresource == "status"
                and str(action.target) in outcome.statuses
            ):
                await self._write_record(action, outcome)
            elif not await self._write_under_lock(action):
                return False
        except Overtaken as error:
            log.info("%s: left as it is", error.message)
            outcome.overtaken = True
            return False
        except ClusterError as error:
            outcome.errors.append(error)
            self._announce_failure(action, error, owner)
            return False
        if owner is not None:
            self._hooks.succeeded(action, owner)
        if isinstance(action, Delete):
            outcome.forced += action.grace_seconds == 0
        if isinstance(action, (Apply, Delete)):
            outcome.tallies += action.tallies
        for announce in action.announce:
            self._recorder.announce(announce)
        return True

    async def _write_under_lock(self, action: Action) -> bool:
        """Carry out an action under the lock of the owner that it deletes, or adds an object to.

        Return False if another pass has deleted the owner.
        """
        if isinstance(action, Delete) and action.target.uid:
            async with self._locks.deleting(action.target.uid):
                await self._write_action(action)
            return True
        owner = _owner_in(action)
        if owner is None:
            await self._write_action(action)
            return True
        async with self._locks.creating(owner["uid"]) as may_create:
            if may_create:
                await self._write_action(action)
        return may_create

    async def _write_action(self, action: Action) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s: %s", type(action).__name__.lower(), target_of(action), action.why)
        match action:
            case Apply():
                await self._apply(action)
            case Create():
                await self._create(action)
            case Merge(is_strategic=True):
                stored = await self._cluster.merge(
                    action.target, action.patch, action.subresource, is_strategic=True
                )
                self._hooks.put(stored)
            case Merge(subresource="status"):
                await self._write_to_status(action.target, action.patch)
            case Merge():
                self._hooks.put(await write_merge(self._cluster, action, self._hooks.put))
            case SetFinalizer():
                await self._set_finalizer(action)
            case SetOwner():
                self._hooks.put(await write_owner(self._cluster, action, self._hooks.put))
            case Delete():
                await self._delete(action)

    async def _set_finalizer(self, action: SetFinalizer) -> None:
        stored = await write_finalizer(self._cluster, action, self._hooks.put)
        if stored is None:
            self._hooks.deleted(action.target, {})
        else:
            self._hooks.put(stored)

    async def _write_record(self, action: Merge, outcome: Outcome) -> None:
        """Write a record and the rest of the status in one request instead of two."""
        log.debug("merge %s: %s", action.target, action.why)
        status = outcome.statuses[str(action.target)]
        joined = replace(status, patch={**status.patch, **action.patch["status"]})
        await self._merge_status(joined, outcome)
        del outcome.statuses[str(action.target)]
        for announce in status.announce:
            self._recorder.announce(announce)

    async def _apply(self, action: Apply) -> None:
        intent = action.intent
        if action.uid:
            # With the UID, the apply fails instead of creating an object or changing another one.
            intent = {**intent, "metadata": {**intent["metadata"], "uid": action.uid}}
        stored = await self._cluster.apply(intent, force=bool(action.uid))
        self._hooks.put(stored)
        self._hooks.applied(action, stored)

    async def _create(self, action: Create) -> None:
        intent = action.intent
        try:
            stored = await self._cluster.create(intent)
            self._hooks.put(stored)
            self._hooks.created(action, stored)
        except AlreadyExists as error:
            if error.is_refusal:
                # A webhook may reject a request with any status.
                raise
            reference = Reference.to(intent)
            existing = await self._cluster.get(reference.kind, reference.namespace, reference.name)
            # The next plan must see the object that has this name.
            self._hooks.put(existing)
            if not matches_intent(existing, intent):
                self._hooks.name_taken(action)
                raise

    async def _delete(self, action: Delete) -> None:
        try:
            answer = await self._cluster.delete(
                action.target, action.propagation, action.grace_seconds, action.version
            )
        except NotFound as error:
            if error.is_refusal:
                raise
            self._hooks.deleted(action.target, {})
            return
        except Conflict as error:
            if not await self._is_gone_or_replaced(action.target):
                if action.version and not error.is_refusal:
                    raise Overtaken(f"{action.target} was changed at the same time") from error
                raise
            log.info("%s is another one by now (UID): not deleted", action.target)
            return
        if _still_exists(answer):
            self._hooks.put(answer)
        else:
            self._hooks.deleted(action.target, answer)

    async def _is_gone_or_replaced(self, target: Reference) -> bool:
        """Return whether the object no longer exists or another object has its name.

        A 409 alone does not prove it, because a webhook may respond with 409 too.
        """
        try:
            existing = await self._cluster.get(target.kind, target.namespace, target.name)
        except NotFound:
            return True
        self._hooks.put(existing)
        return bool(existing["metadata"]["uid"] != target.uid)

    async def _write_status(self, status: Status, outcome: Outcome, owner: Reference | None) -> None:
        target = status.target
        write = Merge(target, {"status": status.patch}, why="how it is has changed", subresource="status")
        if target.uid and self._pruned.get(target.uid) == (target.resource_version, status.patch):
            return
        try:
            stored = await self._merge_status(status, outcome)
        except ClusterError as error:
            if isinstance(error, NotFound) and not error.is_refusal:
                return
            outcome.errors.append(error)
            self._announce_failure(write, error, owner)
            return
        if owner is not None:
            self._hooks.succeeded(write, owner)
        self._record_pruned(target.uid, status.patch, stored)
        for announce in status.announce:
            self._recorder.announce(announce)

    async def _merge_status(self, status: Status, outcome: Outcome) -> Mapping[str, Any]:
        stored = await self._write_to_status(status.target, {"status": status.patch}, status.before)
        # The stream reports too late that another client cleared a field. The response is newer.
        if status.before is not None:
            now = stored.get("status") or {}
            outcome.overtaken |= not is_merged_into(status.before, status.patch, now)
        return stored

    async def _write_to_status(
        self, target: Reference, patch: Object, before: Object | None = None
    ) -> Mapping[str, Any]:
        statuses = self._hooks.statuses
        expected = statuses.record_sent(target, patch) if statuses is not None else None
        stored = await self._cluster.merge(target, patch, subresource="status")
        if statuses is not None:
            statuses.record_stored(stored, before if before is not None else expected, patch["status"])
        self._hooks.put(stored)
        return stored

    def _record_pruned(self, uid: str, patch: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
        """Record the fields that an older CRD dropped: resending them for this version changes nothing."""
        status = stored.get("status") or {}
        dropped = {key: value for key, value in patch.items() if value is not None and key not in status}
        self._pruned.pop(uid, None)
        if uid and dropped:
            self._pruned[uid] = (stored["metadata"].get("resourceVersion", ""), dropped)

    def _announce_failure(self, action: Action, error: ClusterError, owner: Reference | None) -> None:
        # Only rejections concern the user. Broken connections are retried without an Event.
        if not isinstance(error, ApiError) or not error.is_refusal:
            return
        target = target_of(action)
        is_of_status = isinstance(action, Merge) and action.subresource == "status"
        if is_of_status and (owner is None or owner.uid == target.uid):
            self._announce_rejected_status(target, error)
            return
        if owner is not None:
            self._hooks.rejected(action, error, owner)
        failure = getattr(action, "failure", None)
        if failure is not None:
            self._recorder.announce(replace(failure, note=f"{failure.note}: {error.message}"))

    def _announce_rejected_status(self, target: Reference, error: ApiError) -> None:
        """Report a rejected status by an Event, because no condition can be written."""
        reason = reason_of(error.message, "FailedUpdate")
        note = f"cannot update the status of {target.kind} {target.name}: {error.message}"
        self._recorder.announce(Announce(target, reason, "Update", note, "Warning"))


def _owner_in(action: Action) -> Mapping[str, Any] | None:
    """Return the controller of an object to create, or the owner in a SetOwner; None for other actions."""
    if isinstance(action, SetOwner):
        return action.owner
    return controller_of(action.intent) if isinstance(action, Create) else None


def _still_exists(deleted: Mapping[str, Any]) -> bool:
    """Return whether a deleted object still exists, waiting for finalizers or its kubelet."""
    metadata = deleted.get("metadata") or {}
    return bool(
        metadata.get("deletionTimestamp")
        and (metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))
    )


async def write_owner(cluster: Cluster, action: SetOwner, see: Callable[[Mapping[str, Any]], None]) -> Object:
    """Add or remove an owner of an object, and return the object.

    A list of owners can only be replaced as a whole, so the new list is built from a live read, and the write
    carries the resourceVersion of that read. If the live object is not as planned (it has another controller,
    was replaced, is terminating or has changed since the read), `see` is called with it, because the next
    plan must see it, and `Overtaken` is raised.
    """
    live = await _read(cluster, action.target)
    if not _is_as_planned(live, action):
        see(live)
        raise Overtaken(f"{action.target} has another owner, was replaced or is terminating")
    stored = metadata_of(live).get("ownerReferences") or []
    owners = owners_with(live, action.owner) if action.is_owner else owners_without(live, action.owner)
    if not action.patch and len(stored) == len(owners) and all(owner in stored for owner in owners):
        return live
    return await _write(cluster, action.target, _of_version(action.patch, live, ownerReferences=owners), see)


async def write_finalizer(
    cluster: Cluster, action: SetFinalizer, see: Callable[[Mapping[str, Any]], None]
) -> Object | None:
    """Add or remove a finalizer, and return the object; None if it no longer exists.

    Raises `Overtaken` if it cannot be added or the object has changed. `see` is as for `write_owner`.
    """
    try:
        live = await _read(cluster, action.target)
    except Overtaken:
        if action.is_there:
            raise
        return None
    stored = live["metadata"].get("finalizers") or []
    is_replaced = live["metadata"]["uid"] != action.target.uid
    if action.is_there and (is_replaced or (is_terminating(live) and action.finalizer not in stored)):
        see(live)
        raise Overtaken(f"{action.target} was replaced or is terminating")
    if not action.is_there and (is_replaced or action.finalizer not in stored):
        return live
    others = [finalizer for finalizer in stored if finalizer != action.finalizer]
    finalizers = [*others, action.finalizer] if action.is_there else others
    return await _write(cluster, action.target, _of_version(action.patch, live, finalizers=finalizers), see)


async def write_merge(cluster: Cluster, action: Merge, see: Callable[[Mapping[str, Any]], None]) -> Object:
    """Apply a merge patch and return the object. `see` is as for `write_owner`.

    Raises `Overtaken` if the patch is for another version of the object.
    """
    if "resourceVersion" not in (action.patch.get("metadata") or {}):
        return await cluster.merge(action.target, action.patch, subresource=action.subresource)
    return await _write(cluster, action.target, action.patch, see)


def _of_version(patch: Object, live: Object, **metadata: Any) -> Object:
    version = live["metadata"]["resourceVersion"]
    beside = patch.get("metadata") or {}
    return {**patch, "metadata": {**beside, **metadata, "resourceVersion": version}}


async def _write(
    cluster: Cluster, target: Reference, patch: Object, see: Callable[[Mapping[str, Any]], None]
) -> Object:
    try:
        return await cluster.merge(target, patch)
    except (Conflict, NotFound) as error:
        live = await _read(cluster, target)
        if live["metadata"]["resourceVersion"] == patch["metadata"]["resourceVersion"]:
            # A webhook rejected the write with 409.
            raise
        see(live)
        raise Overtaken(f"{target} was changed at the same time") from error


async def _read(cluster: Cluster, target: Reference) -> Object:
    try:
        return await cluster.get(target.kind, target.namespace, target.name)
    except NotFound as error:
        raise Overtaken(f"{target} is gone") from error


def _is_as_planned(live: Object, action: SetOwner) -> bool:
    controller = controller_of(live)
    is_free = controller is None or controller.get("uid") == action.owner["uid"]
    return is_free and live["metadata"]["uid"] == action.target.uid and not is_terminating(live)
