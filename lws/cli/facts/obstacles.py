"""What keeps the pods of a group from being ready, and what is in the way of a whole set?

In: what the controller knows of the group, and its pods as they are. Out: one short clause that adds to the
reason in the status, which may not speak of single pods; empty if there is nothing to add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lws.actions import Object
from lws.group.plan import plan as plan_group
from lws.group.snapshot import GroupSnapshot
from lws.kube import conditions
from lws.kube.metadata import is_terminating
from lws.kube.pods import is_ready
from lws.leaderworkerset.status.status import REPLICA_FAILURE

WAY_TO_BE_CLEAR = "what is in the way to go"
_LONGEST = 100


def failure_of(obj: Object) -> str:
    """What the controller says in the status that it cannot do, or that does not get its pods; of a
    LeaderWorkerSet or a DisaggregatedSet.
    """
    condition = conditions.find((obj.get("status") or {}).get("conditions"), REPLICA_FAILURE)
    if condition is None or condition.get("status") != "True":
        return ""
    return str(condition.get("message") or "")


def obstacle(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str = "") -> str:
    """The worst one. pods: of the group, the leader first. size: pods of the group when it is complete.
    unknown: what the API server says against showing what the group waits for; empty if it does not.
    """
    return next(_obstacles(group, pods, size, unknown), "")


def _obstacles(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str) -> Iterator[str]:
    for pod in pods:
        yield from _troubles(pod)
    if unknown:
        yield f"what it waits for is unknown: {unknown}"
    plan = plan_group(group) if group is not None else None
    if plan is not None and plan.waiting_for:
        yield f"waits for {plan.waiting_for}"
    if len(pods) < size:
        missing = size - len(pods)
        yield f"{missing} pod{'' if missing == 1 else 's'} yet to be created"
    unready = [pod["metadata"]["name"] for pod in pods if not is_ready(pod)]
    if not unready:
        yield "StatefulSet controller has yet to report"
    elif unready != [pods[0]["metadata"]["name"]]:
        more = f" and {len(unready) - 1} more" if len(unready) > 1 else ""
        yield f"pod {unready[0]}{more} not ready"


def _troubles(pod: Object) -> Iterator[str]:
    """What will not pass by itself."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if is_terminating(pod):
        yield f"pod {name} is being deleted"
    if status.get("phase") == "Failed":
        yield _short(
            f"pod {name} failed: {status.get('reason') or status.get('message') or 'no reason given'}"
        )
    scheduled = conditions.find(status.get("conditions"), "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        yield _short(f"pod {name} has no node: {scheduled.get('message') or scheduled.get('reason')}")
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            # These two are how every container begins.
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                yield _short(
                    f"pod {name}, container {container['name']}: {reason} {waiting.get('message', '')}"
                )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
