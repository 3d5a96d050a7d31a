"""Does a set need the headless Service that all its groups share, and what must be done for it?

In: a SetSnapshot. Out: a part of the plan of a set.
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.actions import Create, Plan
from lws.children import Child, plan_child, plan_unwanted, put_back_service
from lws.history.order import find
from lws.kube.metadata import name_of, uid_of
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.likeness import ownership_of_service
from lws.leaderworkerset.revisions.history import Recorded, restore
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import subdomain_policy_of
from lws.leaderworkerset.templates.objects import build_service
from lws_api.leaderworkerset.v1 import NAME_LABEL, SubdomainPolicy


def plan_service(snapshot: SetSnapshot, is_done: bool) -> Plan:
    """Make it where a group needs it, take it away when the last such group is gone.

    is_done: no group is waiting to be updated.
    """
    lws, service, name = snapshot.lws, snapshot.service, name_of(snapshot.lws)
    if not _is_needed(snapshot):
        why = "every group has a subdomain of its own by now"
        goes = is_done and service is not None and _was_needed(snapshot)
        return plan_unwanted(snapshot.owner, service, why) if goes else Plan()
    intent = build_service(name, name, {NAME_LABEL: name}, lws)
    ownership = ownership_of_service(service, uid_of(lws), intent, snapshot.owners_alive)
    failure = events.failed_create(lws, "headless service for error")
    create = Create(intent, why="pods of the set find each other through it", failure=failure)
    return plan_child(
        snapshot.owner, Child(ownership, service, "the former Service"), create, put_back_service
    )


def _is_needed(snapshot: SetSnapshot) -> bool:
    """Groups whose turn in a rollout has not come keep the subdomain of their own revision."""
    if snapshot.spec.subdomain_policy == SubdomainPolicy.SHARED:
        return True
    running = (each for each in snapshot.revisions if each.key in snapshot.live_keys and not each.broken)
    return SubdomainPolicy.SHARED in _policies(snapshot, running)


def _was_needed(snapshot: SetSnapshot) -> bool:
    """Only where the history shows a change of the policy, and only if all that runs is known.

    Earlier releases left the Service behind: what they left stays as they left it.
    """
    recorded = [each for each in snapshot.revisions if not each.broken]
    is_known = all(find(recorded, key) is not None for key in snapshot.live_keys)
    return is_known and SubdomainPolicy.SHARED in _policies(snapshot, recorded)


def _policies(snapshot: SetSnapshot, recorded: Iterable[Recorded]) -> set[SubdomainPolicy]:
    return {subdomain_policy_of(restore(snapshot.lws, each)) for each in recorded}
