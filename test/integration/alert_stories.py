"""For each alert, series for which it fires, and series for which it does not.

The notation is promtool's: `a+bxn` is a, followed by n samples that increase by b; `_` is a missing sample.
There is one sample a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_SET = '{namespace="ns",leaderworkerset="llm",instance="one"}'
_PAIR = '{namespace="ns",disaggregatedset="pair",instance="one"}'


@dataclass(frozen=True)
class Story:
    """One test case of an alert.

    at: the minute of the evaluation. fires, quiet: samples by series.
    """

    alert: str
    at: int
    fires: Mapping[str, str]
    quiet: Mapping[str, str] = field(default_factory=dict)


def _slow(name: str, label: str, fast: str, slow: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return a histogram completely above the limit of its alert, and one completely below."""

    def buckets(first: str) -> dict[str, str]:
        samples = {fast: first, slow: "0+60x60", "+Inf": "0+60x60"}
        return {f'{name}_bucket{{{label},le="{bound}"}}': value for bound, value in samples.items()}

    return buckets("0x60"), buckets("0+60x60")


_LEASE = 'leader_election_master_status{name="lease",instance="%s"}'
_ERRORS = 'controller_runtime_reconcile_errors_total{controller="pod"}'
_RECREATED = 'lws_leaderworkerset_group_recreations_total{namespace="ns",leaderworkerset="llm",reason="%s"}'
_RECREATED_OF_ALL = (
    'lws_leaderworkerset_group_recreations_total{namespace="",leaderworkerset="",reason="ContainerRestarted"}'
)
_FAILED = 'lws_webhook_decisions_total{webhook="/mutate--v1-pod",decision="%s"}'
_START = "lws_leaderworkerset_rollout_start_timestamp_seconds" + _SET
_START_OF_PAIR = "lws_disaggregatedset_rollout_start_timestamp_seconds" + _PAIR
_READY, _DESIRED = (f"lws_leaderworkerset_groups_{word}{_SET}" for word in ("ready", "desired"))
_READY_OF_ALL, _DESIRED_OF_ALL = (
    f'lws_leaderworkerset_groups_{word}{{namespace="",leaderworkerset=""}}' for word in ("ready", "desired")
)
_SPURIOUS = "lws_leaderworkerset_spurious_replacements_total" + _SET

STORIES = (
    Story("LWSAbsent", 10, {"up": "0x20"}, {'lws_build_info{version="1"}': "1x20"}),
    Story("LWSAbsent", 4, {}, {"up": "0x20"}),
    Story("LWSNobodyActs", 10, {_LEASE % "one": "0x20", _LEASE % "two": "0x20"}, {_LEASE % "one": "1x20"}),
    # The Lease changes its holder.
    Story("LWSNobodyActs", 10, {}, {_LEASE % "one": "1x5 0x15", _LEASE % "two": "0x6 1x14"}),
    Story("LWSSeveralAct", 10, {_LEASE % "one": "1x20", _LEASE % "two": "1x20"}, {_LEASE % "one": "1x20"}),
    Story("LWSPassesFail", 40, {_ERRORS: "0+12x60"}, {_ERRORS: "0+1x60"}),
    # The errors end before the alert has waited long enough.
    Story("LWSPassesFail", 40, {}, {_ERRORS: "0+12x5 60x60"}),
    Story(
        "LWSBug",
        40,
        {'controller_runtime_reconcile_panics_total{controller="pod"}': "0x20 1x40"},
        {'controller_runtime_reconcile_panics_total{controller="pod"}': "3x60"},
    ),
    Story(
        "LWSBug",
        40,
        {"controller_runtime_webhook_panics_total": "0x20 1x40"},
        {"controller_runtime_webhook_panics_total": "0x60"},
    ),
    Story("LWSQueueWaits", 50, *_slow("workqueue_queue_duration_seconds", 'controller="pod"', "1", "10")),
    Story("LWSWebhookFails", 30, {_FAILED % "failed": "0x25 1x20"}, {_FAILED % "denied": "0+1x60"}),
    Story(
        "LWSWebhookSlow",
        50,
        *_slow("controller_runtime_webhook_latency_seconds", 'webhook="/mutate--v1-pod"', "0.5", "2.5"),
    ),
    Story(
        "LWSRequestsRefused",
        40,
        {'rest_client_requests_total{code="403",method="PATCH",host="api"}': "0+12x60"},
        {'rest_client_requests_total{code="409",method="PATCH",host="api"}': "0+12x60"},
    ),
    Story(
        "LWSCacheStale",
        10,
        {'lws_cache_age_seconds{instance="one",stream="pods"}': "0+60x20"},
        {'lws_cache_age_seconds{instance="one",stream="pods"}': "60x20"},
    ),
    Story(
        "LWSCertificateExpires",
        90,
        {'lws_certificate_expiry_timestamp_seconds{certificate="webhook"}': "864000x120"},
        {'lws_certificate_expiry_timestamp_seconds{certificate="webhook"}': "8640000x120"},
    ),
    Story("LWSNoGroupReady", 20, {_READY: "0x30", _DESIRED: "2x30"}, {_READY: "1x30", _DESIRED: "2x30"}),
    # The set requests no group, or its first group is still loading.
    Story("LWSNoGroupReady", 20, {}, {_READY: "0x30", _DESIRED: "0x30"}),
    Story("LWSNoGroupReady", 10, {}, {_READY: "0x30", _DESIRED: "2x30"}),
    Story("LWSGroupsMissing", 90, {_READY: "1x120", _DESIRED: "2x120"}, {_READY: "2x120", _DESIRED: "2x120"}),
    # Surge groups are not missing groups.
    Story("LWSGroupsMissing", 90, {}, {_READY: "3x120", _DESIRED: "2x120"}),
    Story(
        "LWSStalled",
        10,
        {"lws_leaderworkerset_stalled" + _SET: "1x20"},
        {"lws_leaderworkerset_stalled" + _SET: "0x20"},
    ),
    Story(
        "LWSStalled",
        10,
        {"lws_disaggregatedset_stalled" + _PAIR: "1x20"},
        {"lws_disaggregatedset_stalled" + _PAIR: "0x20"},
    ),
    Story(
        "LWSSetsStalled",
        20,
        {"lws_leaderworkersets_stalled": "1x60"},
        {"lws_leaderworkersets_stalled": "0x60"},
    ),
    # LWSStalled names the set.
    Story(
        "LWSSetsStalled",
        20,
        {},
        {"lws_leaderworkersets_stalled": "1x60", "lws_leaderworkerset_stalled" + _SET: "1x60"},
    ),
    # Sums over all sets, of which different ones lack a group for a while.
    Story("LWSGroupsMissing", 80, {}, {_READY_OF_ALL: "3x90", _DESIRED_OF_ALL: "4x90"}),
    Story("LWSRolloutTakesLong", 400, {_START: "0x400"}, {_START: "_x100 6000x300"}),
    Story("LWSRolloutTakesLong", 400, {_START_OF_PAIR: "0x400"}, {_START_OF_PAIR: "0x300 _x100"}),
    Story(
        "LWSGroupsFailed",
        10,
        {"lws_leaderworkerset_groups_failed" + _SET: "0x5 1x15"},
        {"lws_leaderworkerset_groups_failed" + _SET: "0x20"},
    ),
    Story(
        "LWSGroupsRecreatedOften",
        60,
        {_RECREATED % "ContainerRestarted": "0x10 5x60"},
        {_RECREATED % "ContainerRestarted": "0x10 1x60"},
    ),
    Story(
        "LWSGroupsRecreatedOften",
        60,
        {},
        {_RECREATED % reason: "0+1x60" for reason in ("Rollout", "Disruption")},
    ),
    # A sum over all sets, each of which lost one group.
    Story("LWSGroupsRecreatedOften", 60, {}, {_RECREATED_OF_ALL: "0x10 5x60"}),
    Story("LWSReplacedForNothing", 60, {_SPURIOUS: "0x50 1x20"}, {_SPURIOUS: "0x70"}),
    Story(
        "LWSPodsOnLostNodes",
        10,
        {"lws_pods_held_by_lost_nodes": "2x20"},
        {"lws_pods_held_by_lost_nodes": "0x20"},
    ),
)
