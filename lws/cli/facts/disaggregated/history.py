"""Read the history of a DisaggregatedSet, resolve a revision in it, and build the patch that rolls back to
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lws.cli.refusal import Refusal
from lws.cli.session import Session
from lws.disaggregatedset import spec
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.revisions import undo
from lws.disaggregatedset.revisions.record import RecordedRoles, is_ours, read
from lws.disaggregatedset.revisions.target import TargetRevision, target_revision
from lws.history.revision import CHANGE_CAUSE_ANNOTATION, age
from lws.kube.metadata import annotations_of, is_controlled_by, owner_reference
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws.runtime.children import Owner
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND


@dataclass(frozen=True, slots=True)
class RunningRevision:
    """One LeaderWorkerSet of a set."""

    obj: Object
    role: str
    slice_index: int
    key: str

    @property
    def groups(self) -> int:
        """How many groups it wants."""
        return SetSpec.of(self.obj).replicas


@dataclass(frozen=True)
class DisaggregatedPast:
    """The history of a set.

    obj: the set. revisions: the oldest first. children: LeaderWorkerSets that it controls. causes: what users
    said of a change, by the name of the revision.
    """

    obj: Object
    revisions: tuple[RecordedRoles, ...]
    children: tuple[RunningRevision, ...]
    causes: Mapping[str, str]
    orphans: tuple[Object, ...] = ()
    taken: tuple[Object, ...] = ()

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def owner(self) -> Owner:
        """The set, which adopts nothing here."""
        return Owner(KIND, self.name, owner_reference(self.obj), is_alive=False, adoption="")

    @cached_property
    def target(self) -> TargetRevision:
        """The revision that the set asks for, recorded or not."""
        return target_revision(self)

    @property
    def wanted(self) -> RecordedRoles | None:
        """What the set asks for; None as long as that is not recorded."""
        return next((revision for revision in self.revisions if revision.name == self.target.name), None)

    def groups_on(self, key: str) -> dict[str, int]:
        """Groups that the LeaderWorkerSets of a key want, by role, over all slices."""
        counts: dict[str, int] = {}
        for child in self.children:
            if child.key == key:
                counts[child.role] = counts.get(child.role, 0) + child.groups
        return counts

    def numbered(self, number: int) -> RecordedRoles:
        """The revision of this number; Refusal if there is none, more than one, or if it cannot be used."""
        matches = [revision for revision in self.revisions if revision.number == number]
        if not matches:
            numbers = ", ".join(str(revision.number) for revision in self.revisions) or "none yet"
            raise Refusal(f"set {self.name} has no revision {number}: there is {numbers}")
        if len(matches) > 1:
            names = " and ".join(revision.name for revision in matches)
            raise Refusal(f"more than one revision has the number {number} ({names})")
        if matches[0].broken:
            raise Refusal(f"revision {number} cannot be used: {matches[0].broken}")
        return matches[0]

    def before(self, revision: RecordedRoles | None) -> RecordedRoles:
        """The newest usable revision that is older than this one and unlike it; of None the newest of all."""
        usable = [other for other in self.revisions if not other.broken]
        if revision is not None:
            forms = revision.record.forms
            usable = [
                other for other in usable if other.number < revision.number and other.record.forms != forms
            ]
        if not usable:
            raise Refusal(f"set {self.name} has no earlier revision: nothing was changed since it was made")
        return usable[-1]

    def earlier(self, revision: RecordedRoles) -> RecordedRoles | None:
        """The usable revision before this one."""
        usable = [other for other in self.revisions if not other.broken and other.number < revision.number]
        return usable[-1] if usable else None


async def past_of(session: Session, obj: Object) -> DisaggregatedPast:
    """The history of a set, with its revisions and LeaderWorkerSets."""
    name = obj["metadata"]["name"]
    selector = f"{NAME_LABEL}={name}"
    stored = await session.cluster.listed("ControllerRevision", session.namespace, selector)
    children = await session.cluster.listed(CHILD_KIND, session.namespace, selector)
    own = [revision for revision in stored if is_ours(revision, obj)]
    causes = {
        revision["metadata"]["name"]: annotations_of(revision).get(CHANGE_CAUSE_ANNOTATION, "")
        for revision in own
    }
    return DisaggregatedPast(
        obj=obj,
        revisions=tuple(sorted((read(revision) for revision in own), key=age)),
        children=tuple(running for child in children if (running := _running(child, obj)) is not None),
        causes={name: cause for name, cause in causes.items() if cause},
    )


def _running(child: Object, obj: Object) -> RunningRevision | None:
    identity = identity_of(obj["metadata"]["name"], child["metadata"]["name"])
    if identity is None or not is_controlled_by(child, obj["metadata"]["uid"]) or spec_fault(child):
        return None
    return RunningRevision(child, identity.role, identity.slice_index, identity.key)


def check(past: DisaggregatedPast) -> None:
    """Raises Refusal where going back is impossible."""
    name = past.name
    if spec.parse(past.obj).paused:
        raise Refusal(f"set {name} is paused: let it go on first (resume disaggregatedset/{name}), then undo")


def operations(past: DisaggregatedPast, read_again: Object, target: RecordedRoles) -> list[dict[str, Any]]:
    """The JSON patch that leads back."""
    return undo.operations(read_again, target.record, returning(past, target))


def returning(past: DisaggregatedPast, target: RecordedRoles) -> dict[str, int]:
    """Roles that come back, with the number of groups that they get: as many as are left of them, or one."""
    existing = {role.name for role in spec.parse(past.obj).roles}
    counts = {name: 1 for name in target.roles if name not in existing}
    for child in past.children:
        if child.role in counts:
            counts[child.role] = max(counts[child.role], child.groups)
    return counts
