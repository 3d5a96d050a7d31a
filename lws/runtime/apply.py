"""Carry a plan out: every write in order, what it announces after it, the status last.

In: a `Plan`. Out: an `Outcome` that says what failed; nothing is decided here, and nothing is known of sets
or groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

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
    SetOwner,
    Status,
    Tally,
)
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists, ApiError, ClusterError, Conflict, NotFound, Overtaken
from lws.runtime.refusals import is_as_made

# --- Keep creations for an owner and the deletion of that owner from overlapping. Passes over a set and
# over its groups run side by side, and so do those of kinds that create sets. A child created for a leader
# in the instant in which another pass deletes that leader in the foreground comes too late: the garbage
# collector does not wait for it, and workers of the old leader meet the new one.


# Far more than can be on their way at a time.
_REMEMBERED = 10_000


class OwnerLocks:
    """Creations for an owner run side by side, its deletion before or after all of them."""

    def __init__(self) -> None:
        self._making: Counter[str] = Counter()
        self._made: dict[str, asyncio.Event] = {}
        self._deleted: dict[str, asyncio.Event] = {}
        self._going: dict[str, None] = {}

    @asynccontextmanager
    async def making(self, uid: str) -> AsyncIterator[bool]:
        """Whether anything may be made for this owner; its deletion waits meanwhile."""
        while uid in self._deleted:
            await self._deleted[uid].wait()
        if uid in self._going:
            yield False
            return
        self._making[uid] += 1
        try:
            yield True
        finally:
            self._making[uid] -= 1
            if not self._making[uid]:
                del self._making[uid]
                if uid in self._made:
                    self._made.pop(uid).set()

    @asynccontextmanager
    async def deleting(self, uid: str) -> AsyncIterator[None]:
        """Nothing is made for this owner meanwhile, nor ever again unless the deletion fails (raises)."""
        while uid in self._deleted:
            await self._deleted[uid].wait()
        over = self._deleted[uid] = asyncio.Event()
        try:
            if uid in self._making:
                made = self._made[uid] = asyncio.Event()
                await made.wait()
            yield
            self._goes(uid)
        finally:
            del self._deleted[uid]
            over.set()

    def _goes(self, uid: str) -> None:
        self._going[uid] = None
        if len(self._going) > _REMEMBERED:
            del self._going[next(iter(self._going))]


log = logging.getLogger(__name__)

_PRUNED = 65536


class Recorder(Protocol):
    """Writes Events."""

    def announce(self, announce: Announce) -> None: ...


def _not_remembered(*what: Any) -> None:
    """Keep no record of a write."""


class Statuses(Protocol):
    """Knows our last writes to statuses."""

    def expect(self, target: Reference, patch: Object) -> Object | None: ...

    def written(self, stored: Object, before: Object | None, patch: Object) -> None: ...


@dataclass(frozen=True, slots=True)
class WriteHooks:
    """Who is told what the API server returned, so that the next plan is never older than our own writes, and
    what it refused.

    done, refused: told of each action, with the workload whose plan it is from. taken: told of a create that
    met something else of its name. going: UIDs of what is being deleted by plans that are carried out right
    now. gone: told of what a deletion of ours has ended at once. statuses: told of writes of statuses, before
    they begin and of what they led to.
    """

    put: Callable[[Mapping[str, Any]], None]
    applied: Callable[[Apply, Mapping[str, Any]], None] = _not_remembered
    refused: Callable[[Action, ApiError, Reference], None] = _not_remembered
    taken: Callable[[Create], None] = _not_remembered
    going: set[str] = field(default_factory=set)
    gone: Callable[[Reference], None] = _not_remembered
    statuses: Statuses | None = None
    done: Callable[[Action, Reference], None] = _not_remembered


@dataclass(slots=True)
class Outcome:
    """errors: what failed, one per sequence or status at most. forced: deletions that left no time to end.
    overtaken: somebody else was faster with an object; nothing failed, and more is to be done. tallies: what
    is counted of the writes that are done.
    """

    errors: list[ClusterError] = field(default_factory=list)
    forced: int = 0
    overtaken: bool = False
    tallies: list[Tally] = field(default_factory=list)

    @property
    def retry_after(self) -> float:
        """Seconds to wait before a retry, as the server requested."""
        return max((e.retry_after or 0.0 for e in self.errors if isinstance(e, ApiError)), default=0.0)


class Applier:
    """Carries out plans on one cluster. turns: the locks of all owners."""

    def __init__(
        self, cluster: Cluster, recorder: Recorder, memory: WriteHooks, turns: OwnerLocks | None = None
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._memory = memory
        self._turns = turns or OwnerLocks()
        # By UID: what was sent to a status and not stored, and the version that it was sent for.
        self._pruned: OrderedDict[str, tuple[str, Mapping[str, Any]]] = OrderedDict()

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        self._pruned.pop(uid_of(obj), None)

    async def apply(self, plan: Plan) -> Outcome:
        """Sequences side by side, each in order up to its first failure; then the statuses, whatever
        happened.
        """
        outcome = Outcome()
        due = {str(status.target): status for status in plan.statuses}
        going = {action.target.uid for action in chain(*plan.sequences) if isinstance(action, Delete)}
        self._memory.going.update(going)
        try:
            running = (self._run(sequence, outcome, due, plan.owner) for sequence in plan.sequences)
            results = await asyncio.gather(*running, return_exceptions=True)
        finally:
            self._memory.going.difference_update(going)
        for status in due.values():
            if outcome.errors or not status.only_after_failure:
                await self._write_status(status, outcome, plan.owner)
        for announce in plan.announce:
            self._recorder.announce(announce)
        for bug in results:
            if bug is not None:
                raise bug
        return outcome

    async def _run(
        self,
        sequence: Sequence[Action],
        outcome: Outcome,
        due: dict[str, Status],
        owner: Reference | None,
    ) -> None:
        for action in sequence:
            try:
                if isinstance(action, Merge) and action.subresource == "status" and str(action.target) in due:
                    await self._remember(action, due, outcome)
                elif not await self._in_turn(action):
                    return
            except Overtaken as error:
                log.info("%s: left as it is", error.message)
                outcome.overtaken = True
                return
            except ClusterError as error:
                outcome.errors.append(error)
                self._announce_failure(action, error, owner)
                return
            if owner is not None:
                self._memory.done(action, owner)
            if isinstance(action, Delete):
                outcome.forced += action.grace_seconds == 0
                outcome.tallies += action.tallies
            for announce in action.announce:
                self._recorder.announce(announce)

    async def _in_turn(self, action: Action) -> bool:
        """Whether it was carried out: nothing is made for an owner that another pass has just deleted."""
        if isinstance(action, Delete) and action.target.uid:
            async with self._turns.deleting(action.target.uid):
                await self._carry_out(action)
            return True
        owner = _owner_in(action)
        if owner is None:
            await self._carry_out(action)
            return True
        async with self._turns.making(owner["uid"]) as may_be_made:
            if may_be_made:
                await self._carry_out(action)
        return may_be_made

    async def _carry_out(self, action: Action) -> None:
        target = _target_of(action)
        log.debug("%s %s: %s", type(action).__name__.lower(), target, action.why)
        match action:
            case Apply():
                await self._apply(action)
            case Create():
                await self._create(action)
            case Merge(subresource="status"):
                await self._write_to_status(action.target, action.patch)
            case Merge():
                self._memory.put(
                    await self._cluster.merge(action.target, action.patch, subresource=action.subresource)
                )
            case SetOwner():
                self._memory.put(await write_owner(self._cluster, action, self._memory.put))
            case Delete():
                await self._delete(action)

    async def _remember(self, action: Merge, due: dict[str, Status], outcome: Outcome) -> None:
        """Write a record together with the rest of the status: one write instead of two."""
        log.debug("merge %s: %s", action.target, action.why)
        status = due[str(action.target)]
        joined = replace(status, patch={**status.patch, **action.patch["status"]})
        await self._merge_status(joined, outcome)
        del due[str(action.target)]
        for announce in status.announce:
            self._recorder.announce(announce)

    async def _apply(self, action: Apply) -> None:
        intent = action.intent
        if action.uid:
            # With its UID in the intent the apply cannot create a second object, nor hit another of the name.
            intent = {**intent, "metadata": {**intent["metadata"], "uid": action.uid}}
        if action.is_rehearsal:
            await self._cluster.apply(intent, force=bool(action.uid), dry_run=True)
            return
        stored = await self._cluster.apply(intent, force=bool(action.uid))
        self._memory.put(stored)
        self._memory.applied(action, stored)

    async def _create(self, action: Create) -> None:
        intent = action.intent
        try:
            self._memory.put(await self._cluster.create(intent))
        except AlreadyExists as error:
            if error.is_refusal:
                # Webhooks answer with whatever status they like.
                raise
            reference = Reference.to(intent)
            existing = await self._cluster.get(reference.kind, reference.namespace, reference.name)
            # Whatever it is: the next plan must see what is in the way.
            self._memory.put(existing)
            if not is_as_made(existing, intent):
                self._memory.taken(action)
                raise

    async def _delete(self, action: Delete) -> None:
        try:
            answer = await self._cluster.delete(action.target, action.propagation, action.grace_seconds)
        except NotFound as error:
            if error.is_refusal:
                raise
            self._memory.gone(action.target)
            return
        except Conflict:
            if not await self._is_another(action.target):
                raise
            log.info("%s is another one by now (UID): not deleted", action.target)
            return
        if _lingers(answer):
            self._memory.put(answer)
        else:
            # The answer is a Status, or, of a pod, its last state.
            self._memory.gone(action.target)

    async def _is_another(self, target: Reference) -> bool:
        """Report whether the object is gone or another one has its name.

        The UID is not the only thing that makes a deletion a conflict: webhooks answer 409 too.
        """
        try:
            existing = await self._cluster.get(target.kind, target.namespace, target.name)
        except NotFound:
            return True
        self._memory.put(existing)
        return bool(existing["metadata"]["uid"] != target.uid)

    async def _write_status(self, status: Status, outcome: Outcome, owner: Reference | None) -> None:
        target = status.target
        # Of something else than its owner, whose own status can tell of it.
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
            self._memory.done(write, owner)
        self._remember_pruned(target.uid, status.patch, stored)
        for announce in status.announce:
            self._recorder.announce(announce)

    async def _merge_status(self, status: Status, outcome: Outcome) -> Mapping[str, Any]:
        stored = await self._write_to_status(status.target, {"status": status.patch}, status.before)
        # The stream reports too late what another client cleared meanwhile: the response is newer.
        if status.before is not None:
            now = stored.get("status") or {}
            outcome.overtaken |= not is_merged_into(status.before, status.patch, now)
        return stored

    async def _write_to_status(
        self, target: Reference, patch: Object, before: Object | None = None
    ) -> Mapping[str, Any]:
        statuses = self._memory.statuses
        left = statuses.expect(target, patch) if statuses is not None else None
        stored = await self._cluster.merge(target, patch, subresource="status")
        if statuses is not None:
            statuses.written(stored, before if before is not None else left, patch["status"])
        self._memory.put(stored)
        return stored

    def _remember_pruned(self, uid: str, patch: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
        """A definition of an earlier release drops fields that it does not know: to send them for the same
        version again would change nothing, pass after pass.
        """
        status = stored.get("status") or {}
        dropped = {key: value for key, value in patch.items() if value is not None and key not in status}
        self._pruned.pop(uid, None)
        if uid and dropped:
            self._pruned[uid] = (stored["metadata"].get("resourceVersion", ""), dropped)
            if len(self._pruned) > _PRUNED:
                self._pruned.popitem(last=False)

    def _announce_failure(self, action: Action, error: ClusterError, owner: Reference | None) -> None:
        # Only what the server refused concerns the user; a connection that broke is retried in silence.
        if not isinstance(error, ApiError) or not error.is_refusal:
            return
        target = _target_of(action)
        is_of_status = isinstance(action, Merge) and action.subresource == "status"
        if is_of_status and (owner is None or owner.uid == target.uid):
            self._announce_refused_status(target, error)
            return
        if owner is not None:
            self._memory.refused(action, error, owner)
        failure = getattr(action, "failure", None)
        if failure is not None:
            self._recorder.announce(replace(failure, note=f"{failure.note}: {error.message}"))

    def _announce_refused_status(self, target: Reference, error: ApiError) -> None:
        """No condition can say that none can be written."""
        reason = reason_of(error.message, "FailedUpdate")
        note = f"cannot update the status of {target.kind} {target.name}: {error.message}"
        self._recorder.announce(Announce(target, reason, "Update", note, "Warning"))


def _target_of(action: Action) -> Reference:
    return Reference.to(action.intent) if isinstance(action, Apply | Create) else action.target


def _owner_in(action: Action) -> Mapping[str, Any] | None:
    """The controller of a created object, or the new owner of an adopted one."""
    if isinstance(action, SetOwner):
        return action.owner
    return controller_of(action.intent) if isinstance(action, Create) else None


def _lingers(deleted: Mapping[str, Any]) -> bool:
    """Report whether a deleted object still exists, waiting for finalizers or its kubelet."""
    metadata = deleted.get("metadata") or {}
    return bool(
        metadata.get("deletionTimestamp")
        and (metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))
    )


async def write_owner(cluster: Cluster, action: SetOwner, see: Callable[[Mapping[str, Any]], None]) -> Object:
    """The object with its new owners; `Overtaken` if it is not as the plan saw it.

    A list of owners can only be replaced as a whole. So the new list is made from the object as it is now,
    and the write carries the version of that read: in between nobody can add or lose an owner. see: called
    with what was read if that is another object than was planned for; the next plan must know it.
    """
    live = await _read(cluster, action)
    if not _is_as_planned(live, action):
        see(live)
        raise Overtaken(f"{action.target} has another owner, or is another one or going")
    known = metadata_of(live).get("ownerReferences") or []
    owners = owners_with(live, action.owner) if action.is_owner else owners_without(live, action.owner)
    if not action.patch and _is_same(known, owners):
        return live
    version = live["metadata"]["resourceVersion"]
    beside = action.patch.get("metadata") or {}
    patch = {**action.patch, "metadata": {**beside, "ownerReferences": owners, "resourceVersion": version}}
    try:
        return await cluster.merge(action.target, patch)
    except (Conflict, NotFound) as error:
        live = await _read(cluster, action)
        if live["metadata"]["resourceVersion"] == version:
            # Webhooks answer 409 too.
            raise
        see(live)
        raise Overtaken(f"{action.target} was changed at the same time") from error


async def _read(cluster: Cluster, action: SetOwner) -> Object:
    target = action.target
    try:
        return await cluster.get(target.kind, target.namespace, target.name)
    except NotFound as error:
        raise Overtaken(f"{target} is gone") from error


def _is_as_planned(live: Object, action: SetOwner) -> bool:
    controller = controller_of(live)
    is_free = controller is None or controller.get("uid") == action.owner["uid"]
    return is_free and live["metadata"]["uid"] == action.target.uid and not is_terminating(live)


def _is_same(known: list[Any], owners: list[Mapping[str, Any]]) -> bool:
    return len(known) == len(owners) and all(owner in known for owner in owners)
