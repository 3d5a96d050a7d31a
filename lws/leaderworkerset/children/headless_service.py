"""Does a set need the headless Service that all its groups share, and what must be done for it?

In: a SetSnapshot. Out: a Part of the plan of a set.
"""

from __future__ import annotations

from lws.actions import Create, Delete, Merge, Object, Reference
from lws.kube.metadata import missing_labels
from lws.kube.ownership import Standing
from lws.leaderworkerset import events, spec
from lws.leaderworkerset.children.leader_statefulset import LOOK_AGAIN_SECONDS, Part, adopt, clash
from lws.leaderworkerset.children.likeness import standing_of_service
from lws.leaderworkerset.revisions.history import find, restore
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.templates.objects import build_service
from lws_api.leaderworkerset.v1 import NAME_LABEL, SubdomainPolicy


def plan_service(snapshot: SetSnapshot, is_done: bool) -> Part:
    """Make it where a group needs it, take it away when the last such group is gone.

    is_done: no group is waiting to be updated.
    """
    lws, service = snapshot.lws, snapshot.service
    name = spec.name_of(lws)
    intent = build_service(name, name, {NAME_LABEL: name}, lws)
    standing = standing_of_service(service, spec.uid_of(lws), intent, snapshot.owners_alive)
    if not _is_needed(snapshot):
        return _without(snapshot, service) if is_done and standing == Standing.OURS else Part()
    if standing == Standing.ABSENT:
        failure = events.failed_service(lws)
        return Part((Create(intent, why="pods of the set find each other through it", failure=failure),))
    if service is not None and standing == Standing.ORPHAN:
        return adopt(snapshot, service)
    if service is not None and standing == Standing.CLASH:
        return clash(snapshot, service)
    if standing == Standing.SUFFICIENT:
        # Of the end of what belongs to somebody else no event may tell.
        return Part(again_after=LOOK_AGAIN_SECONDS)
    labels = missing_labels(service, {NAME_LABEL: name}, (NAME_LABEL,)) if service is not None else {}
    if service is not None and standing == Standing.OURS and labels:
        # Without it the Service would drop out of every stream.
        patch = {"metadata": {"labels": labels}}
        return Part((Merge(Reference.to(service), patch, why="its name label was edited"),))
    return Part(waiting_for="the former Service to be gone" if standing == Standing.LEAVING else "")


def _is_needed(snapshot: SetSnapshot) -> bool:
    """Groups whose turn in a rollout has not come keep the subdomain of their own revision."""
    lws, live_keys = snapshot.lws, snapshot.live_keys
    running = [restore(lws, each) for each in snapshot.revisions if each.key in live_keys and not each.broken]
    return any(spec.subdomain_policy_of(each) == SubdomainPolicy.SHARED for each in (lws, *running))


def _without(snapshot: SetSnapshot, service: Object | None) -> Part:
    """Only after a change of the policy that the history shows, and only if all that runs is known.

    Earlier releases left the Service behind: what they left stays as they left it.
    """
    recorded = [each for each in snapshot.revisions if not each.broken]
    was_shared = any(
        spec.subdomain_policy_of(restore(snapshot.lws, each)) == SubdomainPolicy.SHARED for each in recorded
    )
    is_known = all(find(recorded, key) is not None for key in snapshot.live_keys)
    if service is None or not was_shared or not is_known:
        return Part()
    why = "every group has a subdomain of its own by now"
    return Part((Delete(Reference.to(service), "Background", why=why),))
