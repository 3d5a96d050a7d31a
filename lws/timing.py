"""Every delay, interval and timeout of `lws`, with the reason for its value.

Settings for users are in `lws.config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between attempts. They double after each failure in a row, up to the longest."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """Return the pause after so many failures in a row; 0 after a success."""
        return min(self.first * 2 ** min(failures - 1, 20), self.longest) if failures > 0 else 0.0

    def following(self, pause: float) -> float:
        """Return the pause that follows this one."""
        return min(2 * pause, self.longest)


# --- Delays of passes

RECHECK_SECONDS = 30.0
"""Interval between checks of what no watched object shows: a taken name, a node that stops or resumes
reporting, a feature of the API server, an installed CRD, a rejection that no longer applies.
"""

SIBLINGS_RECHECK_SECONDS = 5.0
"""Interval at which a group with a delayed restart checks the others: their changes enqueue only the set."""

RESYNC_SECONDS = 600.0
"""Interval between reconciles of everything, so that a missed event costs time but never correctness."""

BURST_SECONDS = 0.3
"""Window in which all events of one key share one pass."""

MIN_PASS_DELAY_SECONDS, MAX_PASS_DELAY_SECONDS = 0.02, 1.0
"""Bounds of the delay before events start the next pass over a key.

The delay is 50 times the duration of the last pass (`lws.runtime.costs`): 20 ms for a set of 40 groups, a
third of a second for a set of 1,000.
"""

PASS_LOAD_SECONDS = 5.0
"""Window over which the durations of passes over all sets are added up (`lws.runtime.costs`)."""

AT_ONCE = -1.0
"""Skips the delay of a key, for failed pods, new leaders and results of steps. It used to be up to 1 s."""

TERMINATING_GROUP_SECONDS = 2.0
"""Delay for batching changes of a terminating group: only a lost node that holds the group matters."""

STARTING_GROUP_SECONDS, STARTING_SET_SECONDS = 1.0, 5.0
"""Delays for batching changes: of workers that are being created, before the pass over their group; and of a
group that is not ready yet, before the pass over the set. Deletions are never delayed.

The delays reduced passes per group from 11.0 to 5.2 in a rollout of 100 groups, from 6.4 to 3.6 while they
are created, and from 22 to 13 for each of sixty sets of one group.
"""

PASS_BACKOFF = Backoff(0.05, 30.0)
"""Backoff after failed passes over a key. Events do not shorten it."""

LONGEST_RETRY_AFTER_SECONDS = 30.0
"""Maximum for a Retry-After header. An API server requests seconds, but a proxy may request a day."""

AFTER_OVERTAKEN_SECONDS = 1.0
"""Delay after another client was faster, because the streams may not show its change yet."""

UNKNOWN_KIND_SECONDS = 2.0
"""Delay after a create that was rejected because the API server has not discovered the new CRD yet."""

TERMINATING_NAMESPACE_SECONDS = 60.0
"""Delay in a terminating namespace, which deletes everything in it: nothing is left to do or to report."""

CHILD_SECONDS = 0.3
"""Delay for changes of a LeaderWorkerSet for which no step waits but a user may: edits, lost groups."""

CHILD_REPORT_SECONDS = 15.0
"""Delay for changes of a LeaderWorkerSet for which nothing waits: our writes, counts below the awaited one.

They only lead to a status, which is written every 15 s at most. The delay reduced passes of a set from 29 to
9 in a rollout of four steps, and from 10 to 4 while it is created. It adds one pass every 15 s.
"""

# --- Batching

STEP_BURST_SECONDS = 3.0
"""Time for which the unused pace of a rollout (`lws.runtime.costs`) is available at once.

Groups that become ready shortly after one another are replaced one by one; a steady stream is batched.
"""

LONGEST_PACE_SECONDS, LONGEST_STATUS_SECONDS = 5.0, 60.0
"""Maximum time between steps, and between statuses, of one set; and between statuses if many sets are active.

The second saves one write for each of 200 sets of one group that are rolled out.
"""

FIRST_STATUS_SECONDS = 2.0
"""Time until a new set reports that its groups are being created, which Events report at once.

A set of one group whose pods are ready by then needs five writes, not six. Many active sets prolong the time.
"""

DISAGGREGATED_STATUS_SECONDS = 15.0
"""Time between statuses of a DisaggregatedSet. Its LeaderWorkerSets report their progress earlier."""

STATUS_RESTORE = Backoff(0.5, 15.0)
"""Backoff before a status is restored again that another client, such as upstream's controller, overwrites.

Without it, both wrote twenty times a second, indefinitely. The first time it is restored at once.
"""

CLOCK_TOLERANCE_SECONDS = 0.01
"""Time by which a status or a step counts as due early, because clocks differ in resolution."""

ACTIVE_SET_SECONDS = 60.0
"""Time for which a set is active after a write of its status: as long as the longest delay of a status."""

AFTER_SURGE = timedelta(seconds=2)
"""Time until the step after the creation of a surge group: by then, Kueue has seen it and makes room.

Creation times are whole seconds. Only groups that start faster, as in tests, are delayed.
"""

REPORT_WITHIN = timedelta(seconds=10)
"""Time for the StatefulSet controller to report our last write: it must not see two partitions at once."""

EVENT_WINDOW_SECONDS = 60.0
"""Window in which Events of one kind share one, beyond the first few: 0.18 per group in a rollout of 100."""

EVENT_BATCH = Backoff(5.0, 60.0)
"""Delay before batched Events are written: short for a user who watches, one a minute in the long run."""

SERIES_SECONDS, SERIES_WRITE_SECONDS = 360.0, 60.0
"""Time within which an equal Event joins a series, as in client-go; minimum between writes of a series."""

# --- Validity of cached results

REJECTIONS_KEPT_SECONDS = 90.0
"""Time for which a rejection counts. Its key is retried after 36 s at the latest, which records it again."""

DROPPED_FIELD_SECONDS = 60.0
"""Time for which the API server is assumed to drop a field of StatefulSets whose feature gate is off."""

SHORT_OF_PODS_FOR = timedelta(seconds=5)
"""Time until Events are read about a StatefulSet that lacks pods. Most get their pods earlier."""

FAILED_CREATES_READ_AGAIN = timedelta(seconds=30)
"""Interval between two reads of Events for one StatefulSet."""

FAILED_CREATES_FRESH = timedelta(seconds=4)
"""Time for which a read of a namespace serves its sets, more after a slow read (`lws.runtime.costs`)."""

FAILED_CREATES_IDLE = timedelta(minutes=1)
"""Time after which Events of a namespace that no pass reads are dropped."""

FAILED_CREATES_VALID = timedelta(minutes=20)
"""Validity of an Event about a rejected pod: the StatefulSet controller retries within 17 minutes."""

RETRY_PODS_AFTER, RETRY_PODS_EACH = timedelta(seconds=30), timedelta(seconds=0.2)
"""Time until a StatefulSet with rejected pods is made to retry: at least the first, and the second for each
such StatefulSet of a set.

Its controller doubles the backoff up to 17 minutes. An outage of 5 s left a set short of pods for more than
300 s, now for 35 s at most.
"""

RETRY_NEXT_PODS_AFTER = timedelta(seconds=5)
"""Interval between batches of these retries: at most 5 writes a second."""

# --- Groups

RESTART_DELAY = Backoff(10, 600)
"""Backoff between two restarts of a group."""

STABLE_SECONDS = 1200
"""Time without a restart after which a group starts from the first delay again."""

SKEW_SECONDS = 60
"""Maximum difference between the clocks of API servers. A time further ahead is ignored: a clock was set."""

COLLECTED_WITHIN = timedelta(minutes=1)
"""Time for the garbage collector to delete the workers of a lost leader."""

ENDED_WITHIN = timedelta(seconds=5)
"""Time for the kubelet to report that it killed a pod after its grace period."""

SCHEDULED_AT_ONCE = timedelta(seconds=2)
"""Time within which a pod was bound without waiting: condition and creation time are in whole seconds."""

LINGERING_SECONDS = 1.0
"""Interval between checks for the last pods of a deleted LeaderWorkerSet, which is recreated after them."""

NODE_OF_REVIEW_SECONDS = 2.0
"""Time for reading the node that a pod must return to; the API server waits 10 s for the review."""

GATE_WAIT_IS_LONG = timedelta(seconds=30)
"""Time after which Events report that a leader is gated: most grace periods of its former pods are over."""

NEW_LEADER = timedelta(seconds=10)
"""Age up to which a leader without workers is certainly new, so that it need not be read again."""

NODE_WAIT_IS_LONG = timedelta(seconds=30)
"""Time until an unscheduled pod is reported. Schedulers retry after seconds, new nodes take minutes."""

NODE_OF_RETURN = Backoff(30.0, 300.0)
"""Backoff between two reads of a node that pods of a set have long waited to return to."""

NODES_OF_RETURN, NODES_OF_RETURN_SECONDS = 10, 5.0
"""Maximum of such nodes that a pass reads, and time until the next pass if more are due: two a second."""

GROUP_STARTS_WITHIN = timedelta(minutes=10)
"""Time until a group that does not become ready counts as failed, unless its set has a
`progressDeadlineSeconds`: the default of Deployments.
"""

# --- Streams and requests

REQUEST_SECONDS = 30.0
"""Time for a response, and for the connection of a watch."""

WATCH_SECONDS = 290
"""Time after which the server ends a watch."""

SILENT_WATCH_SECONDS = 90.0
"""Time after which a silent connection is closed and resumed. Bookmarks arrive about once a minute."""

SILENT_STREAM_SECONDS = 240.0
"""Time after which a silent stream fails the liveness probe: several bookmarks are missing, so it is dead
even if its socket is open.
"""

STREAM_BACKOFF = Backoff(0.2, 15.0)
"""Backoff before a failed stream is resumed or relisted, and before gained namespaces are listed again."""

STEADY_STREAM_SECONDS = 0.5
"""Time after which a stream has worked, even if it was silent: proxies cut idle streams."""

COMPARE_SETS_SECONDS = 60.0
"""Interval between comparisons of kopf's sets with the sets on the API server."""

CATCH_UP = Backoff(0.1, 2.0)
"""Backoff between comparisons while they differ: the first until kopf has listed, the longest after that."""

KOPF_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Time between the attempts of one request of kopf. The last one repeats indefinitely."""

KOPF_IDLE_SECONDS = 0.5
"""Time after which kopf ends its task for an unchanged set. The task keeps a copy of the whole set."""

NAMESPACE_SECONDS = 10.0
"""Time for which a namespace of pods that a finalizer keeps is not read again."""

COVERAGE_SECONDS, COVERAGE_RETRY_SECONDS = 60.0, 2.0
"""Intervals between checks of which namespaces the pod webhook covers: the second until the first success."""

# --- The process

ENGINE_PAUSE = Backoff(1.0, 60.0)
"""Backoff before a new engine relists everything. An engine that outlasts the longest pause has worked."""

PRECONDITIONS_PAUSE = Backoff(1.0, 15.0)
"""Backoff between checks for an API server and its CRDs at the start."""

DENIED_KIND_SECONDS = 300.0
"""Time until a kind with denied reads is dropped, which relists everything. Reapplying RBAC takes less."""

DRAIN_SECONDS, SHUTDOWN_SECONDS = 10.0, 3.0
"""Times at the end of the process: the first for running passes, the second for the last Events and for kopf.

Together they are well within the grace period of the pod, which is 30 s in the chart.
"""

REVIEWS_GRACE_SECONDS, ENDPOINTS_GRACE_SECONDS = 5.0, 1.0
"""Times at the end of the process: for running reviews; and for probes and scrapes, which can be repeated."""

SLOW_CLIENT_SECONDS, SLOW_CLIENT_CHECK_SECONDS, CLIENT_SECONDS = 3.0, 0.05, 10.0
"""Time for a silent or slow client while others wait to be served; interval between checks for such clients;
and time for the headers of a client's first request with the TLS handshake, for each body, and for reading a
large answer: as long as an API server waits for the response to a review by default.
"""

IDLE_CLIENT_SECONDS = 100.0
"""Time until a connection is closed on which no further request has arrived. API servers close theirs after
90 s, and must be first: a review that is sent on a closing connection is lost.
"""

REVIEWS_AT_ONCE_SECONDS = 0.02
"""Time for reviews, of which hundreds may have arrived, until the event loop runs everything else once: the
Lease is renewed and probes are answered meanwhile. A review of a pod takes 0.1 ms.
"""

# --- Credentials and certificates

CREDENTIALS_SECONDS = 60.0
"""Time for a credential plugin. It may call a cloud API, but one that takes longer hangs."""

CREDENTIALS_RETRY_SECONDS = 5.0
"""Interval between attempts to load credentials."""

CREDENTIALS_EARLY_SECONDS = 300.0
"""Time before their expiry at which credentials are replaced, as by the kubernetes client."""

TOKEN_FILE_SECONDS = 60.0
"""Interval between reads of a token file, as in kubectl. The kubelet rotates it long before it expires."""

TRUST_SECONDS = 1.0
"""Interval between checks of whether the CA or client certificate files of a connection have changed."""

AUTHENTICATED_SECONDS, ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 300.0, 30.0
"""How long a scraper's user, permission or denial is cached, so that scrapes cost no reviews."""

METRICS_CERTIFICATE_SECONDS = 86400.0
"""Interval between checks of whether the self-signed certificate of the metrics expires soon."""

CERTIFICATE_FILES_SECONDS = 10.0
"""Interval between reads of mounted certificates. The kubelet updates them within about a minute."""

CERTIFICATES_PAUSE = Backoff(1.0, 60.0)
"""Backoff between checks of our own certificates: the longest pause, and shorter ones after failures."""

CA_KNOWN_WITHIN = timedelta(seconds=30)
"""Time for every API server to see a new CA before the manager serves a certificate that this CA signed."""

CA_LIFE, CERTIFICATE_LIFE = timedelta(days=3650), timedelta(days=365)
"""Lifetime of the CAs and certificates that we sign ourselves."""

CERTIFICATE_BACKDATING = timedelta(hours=1)
"""Time by which certificates are valid before their creation: clocks of API servers may be behind ours."""

RENEW_BEFORE = timedelta(days=90)
"""Time before its expiry at which a certificate or CA is renewed."""

EXPIRES_SOON, STUCK_AFTER, LEASE_LATE = timedelta(days=7), timedelta(minutes=10), timedelta(minutes=1)
"""Thresholds of `lws doctor`: a certificate that expires within the first, a set without progress for the
second, a Lease that is overdue by the third.
"""

CA_OVERLAP = timedelta(hours=24)
"""Time for which a former CA stays trusted: other replicas may still serve certificates that it signed."""

# --- Commands

SCREEN_SECONDS = 1.0
"""Interval between updates of `lws status --watch`."""

COMPLETION_SECONDS = 3.0
"""Maximum wait for the names that complete a word in the shell."""
