"""Metrics of LeaderWorkerSets."""

from __future__ import annotations

from lws.leaderworkerset.status import figures
from lws.leaderworkerset.status.progress import STALLED
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS
from lws.leaderworkerset.status.summary import STATES
from lws.runtime.endpoints.metrics import KeyState
from lws.runtime.endpoints.workloads import LAST_START, WorkloadSeries, series_of_rollouts
from lws_api.leaderworkerset.v1 import KIND

_START = "lws_leaderworkerset"


def _gauge(
    word: str, name: str, documentation: str, label: str = "", values: tuple[str, ...] = ()
) -> WorkloadSeries:
    return WorkloadSeries(KIND, word, f"{_START}_{name}", documentation, label, values)


def _counter(
    word: str, name: str, documentation: str, label: str = "", values: tuple[str, ...] = ()
) -> WorkloadSeries:
    return WorkloadSeries(KIND, word, f"{_START}_{name}_total", documentation, label, values, is_counter=True)


SERIES = (
    _gauge(figures.DESIRED, "groups_desired", "Groups that a set asks for."),
    _gauge(figures.READY, "groups_ready", "Groups that are ready, those of a surge included."),
    _gauge(figures.UPDATED, "groups_updated", "Groups that are on the target revision, ready or not."),
    _gauge(
        figures.BY_STATE,
        "groups",
        "Groups by state, as in status.groups: Ready is ready on the target revision, Outdated is ready on "
        "another one.",
        "state",
        STATES,
    ),
    _gauge(
        figures.FAILED,
        "groups_failed",
        "Groups that failed once more than maxGroupRestarts allows and are left as they are.",
    ),
    _gauge(
        figures.DELAYED,
        "groups_restart_delayed",
        "Groups that failed and wait for the end of their back-off to be recreated.",
    ),
    _gauge(
        figures.STUCK,
        "stalled",
        "1 while a set has been without progress for longer than its progressDeadlineSeconds.",
    ),
    *series_of_rollouts(KIND),
    _gauge(
        LAST_START,
        "last_group_start_duration_seconds",
        "Seconds that the group took to be ready that has become ready last; absent until one has.",
    ),
    _counter(
        figures.RECREATED,
        "group_recreations",
        "Groups that the manager has deleted to have them made anew, by why.",
        "reason",
        figures.RECREATION_REASONS,
    ),
    _counter(
        figures.DELAYED,
        "group_restarts_delayed",
        "Times that a group which failed had to wait for the end of its back-off.",
    ),
    _counter(
        figures.SPURIOUS,
        "spurious_replacements",
        "Groups that a rollout has replaced although their revision means the same as the wanted one; 0 "
        "unless something is wrong.",
    ),
)

STANDINGS = (
    KeyState(
        "set",
        UPDATE_IN_PROGRESS,
        "lws_leaderworkersets_in_rollout",
        "LeaderWorkerSets that are being moved to another revision.",
    ),
    KeyState(
        "set",
        STALLED,
        "lws_leaderworkersets_stalled",
        "LeaderWorkerSets without progress for longer than their progressDeadlineSeconds.",
    ),
)
