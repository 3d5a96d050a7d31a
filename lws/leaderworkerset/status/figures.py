"""Numbers of a set for metrics, and the names that passes and series use for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lws.kube.conditions import find, is_true
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.status.progress import STALLED
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS
from lws.runtime.actions import Object
from lws.runtime.figures import ROLLING, Figures, Tally
from lws_api.leaderworkerset.v1 import KIND

DESIRED, READY, UPDATED, BY_STATE = "desired", "ready", "updated", "by state"
FAILED, STUCK = "failed", "stalled"
DELAYED = "delayed"
"""A group whose recreation waits for the end of its back-off."""
RECREATED, SPURIOUS = "recreated", "spurious"
"""Groups that this process has deleted to have them made anew; those of them that were replaced for a
revision that means the same as theirs.
"""

CONTAINER_RESTARTED, DISRUPTION, MISSING_REVISION = "ContainerRestarted", "Disruption", "MissingRevision"
POD_DELETED, POD_FAILED, POD_REPLACED, ROLLOUT = "PodDeleted", "PodFailed", "PodReplaced", "Rollout"
RECREATION_REASONS = (
    CONTAINER_RESTARTED,
    DISRUPTION,
    MISSING_REVISION,
    POD_DELETED,
    POD_FAILED,
    POD_REPLACED,
    ROLLOUT,
)
"""Why a group is recreated."""


def figures_of(lws: Object, status: Mapping[str, Any], replicas: int, failed: int) -> Figures:
    """How a set stands. status: the one that is intended. replicas: groups that the user wants. failed:
    groups that have used up their restarts.
    """
    conditions = status.get("conditions")
    rolling = is_true(conditions, UPDATE_IN_PROGRESS)
    numbers: dict[tuple[str, str], float] = {
        (DESIRED, ""): replicas,
        (READY, ""): status.get("readyReplicas", 0),
        (UPDATED, ""): status.get("updatedReplicas", 0),
        (FAILED, ""): failed,
        (STUCK, ""): is_true(conditions, STALLED),
        (ROLLING, ""): rolling,
    }
    counts = (status.get("groups") or {}).get("counts") or {}
    numbers |= {(BY_STATE, state): count for state, count in counts.items()}
    began = (find(conditions, UPDATE_IN_PROGRESS) or {}).get("lastTransitionTime") if rolling else None
    revision = status.get("updateRevision") or ""
    return Figures(KIND, lws["metadata"]["name"], numbers, revision, began or "")


def starts_of(groups: Iterable[GroupFacts], ready: Collection[int]) -> dict[str, str]:
    """By UID of each leader, when it was created if its group is ready, else nothing. ready: indices."""
    return {group.uid: group.created if group.index in ready else "" for group in groups}


def recreated(lws: Object, reason: str) -> Tally:
    """One more group that is made anew; reason: one of `RECREATION_REASONS`."""
    return Tally(KIND, lws["metadata"]["name"], RECREATED, reason)


def replaced_for_nothing(lws: Object) -> Tally:
    """One more group that was replaced for a revision that means the same."""
    return Tally(KIND, lws["metadata"]["name"], SPURIOUS)


def delayed(lws: Object) -> Figures:
    """A group whose recreation waits."""
    return Figures(KIND, lws["metadata"]["name"], {(DELAYED, ""): 1})
