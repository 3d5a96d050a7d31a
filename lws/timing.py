"""Every delay, interval and timeout of `lws`, with the reason for its value.

Settings for users are in `lws.config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between attempts, doubled after each failure in a row, up to the longest."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The pause after so many failures in a row; none after a success."""
        return min(self.first * 2 ** min(failures - 1, 20), self.longest) if failures > 0 else 0.0

    def following(self, pause: float) -> float:
        """The pause that follows this one."""
        return min(2 * pause, self.longest)


# --- Delays of passes

RECHECK_SECONDS = 30.0
"""Interval between checks of what no watched object shows: a taken name, a node that stops or resumes
reporting, a feature of the API server, a CRD that is installed, a rejection that no longer applies.
"""

SIBLINGS_RECHECK_SECONDS = 5.0
"""Interval at which a group with a delayed restart rechecks the other groups: their readiness enqueues
the set, not the group.
"""

RESYNC_SECONDS = 600.0
"""Interval between reconciles of everything: a missed event costs time, never correctness."""

BURST_SECONDS = 0.3
"""Events of one key within this time share one pass."""

MIN_PASS_DELAY_SECONDS, MAX_PASS_DELAY_SECONDS = 0.02, 1.0
"""Bounds of the delay before events start the next pass over a key: 50 times the duration of the last pass
(`lws.runtime.costs`), 20 ms for a set of 40 groups, a third of a second for one of 1,000.
"""

PASS_LOAD_SECONDS = 5.0
"""Window of the total duration of passes over all sets (`lws.runtime.costs`)."""

AT_ONCE = -1.0
"""Skips the delay of a key, for failed pods, new leaders and results of steps. They waited for up to 1 s."""

TERMINATING_GROUP_SECONDS = 2.0
"""Changes of a terminating group are batched: only a lost node that holds it matters."""

STARTING_GROUP_SECONDS, STARTING_SET_SECONDS = 1.0, 5.0
"""Changes of workers that are being created are batched for the pass over the group, and changes of a group
that is not ready yet for the pass over the set. Deletions are never delayed. 11.0 → 5.2 passes per group in
a rollout of 100 groups, 6.4 → 3.6 while they are created, and 22 → 13 for each of sixty sets of one group.
"""

PASS_BACKOFF = Backoff(0.05, 30.0)
"""After failed passes over a key; events do not shorten it."""

LONGEST_RETRY_AFTER_SECONDS = 30.0
"""Maximum for a Retry-After header: an API server requests seconds, a proxy may request a day."""

AFTER_OVERTAKEN_SECONDS = 1.0
"""After another client was faster: the streams may not show its change yet."""

UNKNOWN_KIND_SECONDS = 2.0
"""After a create that was rejected because the API server has not discovered the new CRD yet."""

TERMINATING_NAMESPACE_SECONDS = 60.0
"""A terminating namespace deletes everything in it: nothing to do or to report."""

CHILD_SECONDS = 0.3
"""Changes of a LeaderWorkerSet that no step waits for, but a user may: edits, lost groups."""

CHILD_REPORT_SECONDS = 15.0
"""Changes that nothing waits for: our own writes, and counts below the one that a step waits for. They only
lead to a status, which is written every 15 s at most. 29 → 9 passes of a set in a rollout of four steps,
10 → 4 while it is created, and one more every 15 s.
"""

# --- Batching

STEP_BURST_SECONDS = 3.0
"""Unused pace of a rollout (`lws.runtime.costs`) is available at once for this long: groups that become ready
shortly after one another are replaced one by one, and only a steady stream of them is batched.
"""

LONGEST_PACE_SECONDS, LONGEST_STATUS_SECONDS = 5.0, 60.0
"""Maximum between steps, and between statuses, of one set; and between statuses where many sets are active,
which saves one write for each of 200 sets of one group that are rolled out.
"""

FIRST_STATUS_SECONDS = 2.0
"""Until a new set reports that its groups are being created, which Events report at once: five writes instead
of six for a set of one group whose pods are ready by then. Longer while many sets are active.
"""

DISAGGREGATED_STATUS_SECONDS = 15.0
"""The same for DisaggregatedSets, whose LeaderWorkerSets report their progress earlier."""

STATUS_RESTORE = Backoff(0.5, 15.0)
"""Before a status is restored that another client keeps overwriting, as upstream's controller would if it ran
too: the first time at once. Without it both wrote twenty times a second, indefinitely.
"""

CLOCK_TOLERANCE_SECONDS = 0.01
"""A status or a step counts as due this much earlier: clocks differ in resolution."""

ACTIVE_SET_SECONDS = 60.0
"""A set is active for this long after a write of its status: as long as the longest delay of a status."""

AFTER_SURGE = timedelta(seconds=2)
"""Until the step after the creation of a surge group: Kueue, which makes room for it, has seen it by then.
Creation times are whole seconds. Only groups that start faster, as in tests, are delayed by it.
"""

REPORT_WITHIN = timedelta(seconds=10)
"""For the StatefulSet controller to report our last write: it must not see two partitions at once."""

EVENT_WINDOW_SECONDS = 60.0
"""Beyond the first few, Events of one kind within this time share one: 0.18 per group in a rollout of 100."""

EVENT_BATCH = Backoff(5.0, 60.0)
"""Until batched Events are written: soon for a user who watches, one a minute in the long run."""

SERIES_SECONDS, SERIES_WRITE_SECONDS = 360.0, 60.0
"""An equal Event within the first belongs to a series, as in client-go; a series is written at most once in
the second.
"""

# --- Validity of cached results

REJECTIONS_KEPT_SECONDS = 90.0
"""How long a rejection counts: its key is retried after 36 s at the latest, which records it again."""

DROPPED_FIELD_SECONDS = 60.0
"""How long the API server is assumed to drop a field of StatefulSets whose feature gate is off."""

SHORT_OF_PODS_FOR = timedelta(seconds=5)
"""Until Events are read about a StatefulSet that lacks pods: most get them earlier."""

FAILED_CREATES_READ_AGAIN = timedelta(seconds=30)
"""Interval between two reads of Events for one StatefulSet."""

FAILED_CREATES_FRESH = timedelta(seconds=4)
"""One read of a namespace serves all sets in it for this long, longer if the read is slow
(`lws.runtime.costs`).
"""

FAILED_CREATES_IDLE = timedelta(minutes=1)
"""Events of a namespace are dropped if no pass reads them for this long."""

FAILED_CREATES_VALID = timedelta(minutes=20)
"""Validity of an Event about a rejected pod: the StatefulSet controller retries after 17 minutes at the
latest.
"""

RETRY_PODS_AFTER, RETRY_PODS_EACH = timedelta(seconds=30), timedelta(seconds=0.2)
"""Until a StatefulSet with rejected pods is made to retry: at least the first, and the second for each such
StatefulSet of a set. Its controller doubles its back-off up to 17 minutes: an outage of 5 s left a set short
of pods for more than 300 s, now for 35 s at most.
"""

RETRY_NEXT_PODS_AFTER = timedelta(seconds=5)
"""Interval between batches of these retries: 5 writes a second at most."""

# --- Groups

RESTART_DELAY = Backoff(10, 600)
"""Between two restarts of a group."""

STABLE_SECONDS = 1200
"""A group without a restart for this long starts from the first delay again."""

SKEW_SECONDS = 60
"""Maximum clock skew between managers: a recorded time further ahead is ignored."""

COLLECTED_WITHIN = timedelta(minutes=1)
"""For the garbage collector to delete the workers of a lost leader."""

ENDED_WITHIN = timedelta(seconds=5)
"""For the kubelet to report that it killed a pod after its grace period."""

SCHEDULED_AT_ONCE = timedelta(seconds=2)
"""A pod bound within this time did not wait: condition and creation time are in whole seconds."""

LINGERING_SECONDS = 1.0
"""Interval between checks for the last pods of a deleted LeaderWorkerSet, which is recreated after them."""

NODE_OF_REVIEW_SECONDS = 2.0
"""For reading the node that a pod must return to: the API server waits 10 s for the review."""

NODE_WAIT_IS_LONG = timedelta(seconds=30)
"""Until an unscheduled pod is reported: schedulers retry after seconds, new nodes take minutes."""

NODE_OF_RETURN = Backoff(30.0, 300.0)
"""Between two reads of a node that pods of a set have long waited to return to."""

NODES_OF_RETURN, NODES_OF_RETURN_SECONDS = 10, 5.0
"""Reads of such nodes in one pass over a set, and until the next pass if more are due: two a second."""

GROUP_STARTS_WITHIN = timedelta(minutes=10)
"""Until a group that does not become ready counts as failed, unless its set has a
`progressDeadlineSeconds`: the default of Deployments.
"""

# --- Streams and requests

REQUEST_SECONDS = 30.0
"""For a response, and for the connection of a watch."""

WATCH_SECONDS = 290
"""The server ends a watch after this long."""

SILENT_WATCH_SECONDS = 90.0
"""A connection without a byte for this long is closed and resumed: bookmarks arrive about once a minute."""

SILENT_STREAM_SECONDS = 240.0
"""A stream that missed several bookmarks is dead, even if its socket is open: the liveness probe fails."""

STREAM_BACKOFF = Backoff(0.2, 15.0)
"""Before a failed stream is resumed or relisted."""

STEADY_STREAM_SECONDS = 0.5
"""A stream that lasted longer has worked, even if it was silent: proxies cut idle streams."""

COMPARE_SETS_SECONDS = 60.0
"""Interval between comparisons of kopf's sets with those of the API server."""

CATCH_UP = Backoff(0.1, 2.0)
"""Between comparisons while they differ: the first until kopf has listed, the longest after that."""

KOPF_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Between the attempts of one request of kopf; the last one repeats indefinitely."""

KOPF_IDLE_SECONDS = 0.5
"""kopf has a task for each set that changed recently, which keeps a copy of the whole set."""

NAMESPACE_SECONDS = 10.0
"""How long a namespace of pods that a finalizer keeps is not read again."""

COVERAGE_SECONDS, COVERAGE_RETRY_SECONDS = 60.0, 2.0
"""Interval between checks which namespaces the pod webhook covers; the second until the first success."""

# --- The process

ENGINE_PAUSE = Backoff(1.0, 60.0)
"""Before a new engine relists everything; an engine that lasted longer than the longest has worked."""

PRECONDITIONS_PAUSE = Backoff(1.0, 15.0)
"""Between checks for an API server and its CRDs at the start."""

DENIED_KIND_SECONDS = 300.0
"""Until a kind whose reads are denied is no longer served, which relists everything: reapplying permissions
takes less.
"""

TAKEOVER_RETRY_SECONDS = 1.0
"""After a failed list of gained namespaces, which is needed before anything is done for them."""

DRAIN_SECONDS, SHUTDOWN_SECONDS = 10.0, 3.0
"""For running passes when the process ends; for the last Events, and for kopf. Together well within the grace
period of the pod, which is 30 s in the chart.
"""

REVIEWS_GRACE_SECONDS, ENDPOINTS_GRACE_SECONDS = 5.0, 1.0
"""For running reviews when the webhooks close; for probes and scrapes, which can be repeated."""

SLOW_CLIENT_SECONDS, SLOW_CLIENT_CHECK_SECONDS, CLIENT_SECONDS = 3.0, 0.05, 30.0
"""For a silent or slow client while others wait to be served; interval between checks for one; for a TLS
handshake, and for a whole request: the longest time that an API server waits for a response.
"""

# --- Credentials and certificates

CREDENTIALS_SECONDS = 60.0
"""For a credential plugin: it may call a cloud API; one that takes longer hangs."""

CREDENTIALS_RETRY_SECONDS = 5.0
"""Interval between attempts to load credentials."""

CREDENTIALS_EARLY_SECONDS = 300.0
"""New credentials are loaded this long before the old ones expire, as by the kubernetes client."""

TOKEN_FILE_SECONDS = 60.0
"""Interval between reads of a token file, as in kubectl; the kubelet rotates a pod's token long before it
expires.
"""

TRUST_SECONDS = 1.0
"""Interval between checks whether the system's CA files have changed."""

AUTHENTICATED_SECONDS, ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 300.0, 30.0
"""How long a scraper's user, permission or denial is cached: scrapes cost no reviews."""

METRICS_CERTIFICATE_SECONDS = 86400.0
"""Interval between checks whether the self-signed certificate of the metrics expires soon."""

CERTIFICATE_FILES_SECONDS = 10.0
"""Interval between reads of mounted certificates: the kubelet updates them within about a minute."""

CERTIFICATES_PAUSE = Backoff(1.0, 60.0)
"""Between checks of our own certificates: the longest, or the shorter ones after failures."""

CA_KNOWN_WITHIN = timedelta(seconds=30)
"""Every API server must have seen a new CA before the manager serves a certificate that it signed."""

CA_LIFE, CERTIFICATE_LIFE = timedelta(days=3650), timedelta(days=365)
"""Lifetime of what we sign ourselves."""

CERTIFICATE_BACKDATING = timedelta(hours=1)
"""Clocks of API servers may be behind ours."""

RENEW_BEFORE = timedelta(days=90)
"""A certificate or CA is renewed this long before it expires."""

EXPIRES_SOON, STUCK_AFTER, LEASE_LATE = timedelta(days=7), timedelta(minutes=10), timedelta(minutes=1)
"""`lws doctor` reports a certificate that expires within the first, a set without progress for the second, a
Lease overdue by the third.
"""

CA_OVERLAP = timedelta(hours=24)
"""A former CA stays trusted: other replicas may still serve certificates that it signed."""

# --- Commands

SCREEN_SECONDS = 1.0
"""Interval between updates of `lws status --watch`."""

COMPLETION_SECONDS = 3.0
"""Maximum wait for the names that a shell completes."""
