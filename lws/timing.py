"""How long `lws` waits, wherever it waits: each time with what it buys.

What users may set is in `lws.config`.
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
        """None are waited after a success."""
        return min(self.first * 2 ** min(failures - 1, 20), self.longest) if failures > 0 else 0.0

    def following(self, pause: float) -> float:
        """The pause after this one."""
        return min(2 * pause, self.longest)


# --- When a key is looked at

LOOK_AGAIN_SECONDS = 30.0
"""Between looks at what no event of ours shows: a clash that others resolve, a node that falls silent or
answers again, a feature of the API server, an API that is installed, a refusal that is over.
"""

SIBLINGS_SECONDS = 5.0
"""Until a group whose restart waits looks at its siblings again: their readiness wakes their set, not it."""

RESYNC_SECONDS = 600.0
"""Between looks at everything: an event that was missed costs time, never correctness."""

BURST_SECONDS = 0.3
"""Events of one key within this time make one pass."""

SHORTEST_REST_SECONDS, LONGEST_REST_SECONDS = 0.02, 1.0
"""Bounds of the rest before events start the next pass over a key, 50 times the last one (`lws.costs`): 20 ms
for a set of 40 groups, a third of a second for one of 1,000.
"""

LOOKS_SECONDS = 5.0
"""What passes over all sets have taken together (`lws.costs`) is forgotten within about so long."""

AT_ONCE = -1.0
"""What no rest of its key puts off: failed pods, new leaders, answers to steps. They waited for up to 1 s."""

ENDING_SECONDS = 2.0
"""Changes of a group on its way out wait for one another: what matters is whether a lost node holds it."""

STARTING_SECONDS, HALFWAY_SECONDS = 1.0, 5.0
"""So do changes of workers that are being made, and for a pass over the set whatever becomes of a group until
it is ready again. That one goes is never put off. 11.0 → 5.2 passes per group in a rollout of 100 groups,
6.4 → 3.6 while they are created, and 22 → 13 for each of sixty sets of one group that are rolled.
"""

PASS_BACKOFF = Backoff(0.05, 30.0)
"""After passes over a key that failed; events do not hurry it."""

LONGEST_RETRY_AFTER_SECONDS = 30.0
"""What an answer may ask to be waited: an API server asks for seconds, a proxy on the way for a day."""

OVERTAKEN_SECONDS = 1.0
"""After a conflict: what somebody else changed need not be anything that the streams show."""

UNKNOWN_KIND_SECONDS = 2.0
"""After a create that an API server refused which does not know the new definition yet."""

TERMINATING_NAMESPACE_SECONDS = 60.0
"""A namespace on its way out takes everything with it: nothing to do, and nothing to say."""

CHILD_SECONDS = 0.3
"""Changes of a LeaderWorkerSet that no step waits for, but somebody may: edits, groups that are lost."""

CHILD_REPORT_SECONDS = 15.0
"""Changes that nobody waits for: our own writes, and counts on their way to what a step waits for. All that
comes of them is a status, which is written every 15 s at most. 29 → 9 passes of a set in a rollout of four
steps, 10 → 4 while it is created, and one more every 15 s.
"""

# --- What waits for more of its kind

SAVED_SECONDS = 3.0
"""What a rollout did not use of its pace (`lws.costs`) in so long it may use at once: groups that happen to
get ready shortly after one another are replaced one by one, and only a steady stream of them is gathered.
"""

LONGEST_PACE_SECONDS, LONGEST_STATUS_SECONDS = 5.0, 60.0
"""Between steps, or statuses, of the largest set; and between statuses where many sets move: one write less
for each of 200 sets of one group that roll.
"""

FIRST_STATUS_SECONDS = 2.0
"""Until a new set says that its groups are being created, as Events do at once: five writes for a set of one
group whose pods are ready by then, not six. The longer, the more sets move.
"""

DISAGGREGATED_STATUS_SECONDS = 15.0
"""The same for DisaggregatedSets, whose LeaderWorkerSets say sooner how far they are."""

STATUS_FIGHT = Backoff(0.5, 15.0)
"""Until a status is put right again that somebody else writes over each time, as an original that runs beside
us would: the first time at once. Without it both wrote twenty times a second, for ever.
"""

CLOCK_SECONDS = 0.01
"""A status or a step counts as due so much earlier: clocks are exact to different digits."""

SETS_MOVE_SECONDS = 60.0
"""A set moves while its status was written so lately, which is as long as one waits at most."""

SURGE_SHOWN = timedelta(seconds=2)
"""Until the step after a surge was made: Kueue, which makes room for it, has seen it by then. Creation times
are whole seconds. Groups that start faster are made for tests; no other rollout gets slower.
"""

REPORT_WITHIN = timedelta(seconds=10)
"""For the report of a StatefulSet controller on our last write: it must not meet two partitions at once."""

EVENT_WINDOW_SECONDS = 60.0
"""Beyond the first few, Events of one kind within this time share one: 0.18 per group in a rollout of 100."""

EVENT_FOLD = Backoff(5.0, 60.0)
"""Until those that were gathered are written: soon for somebody who looks, one a minute in the long run."""

SERIES_SECONDS, SERIES_WRITE_SECONDS = 360.0, 60.0
"""The same Event again within the first is a series, as for client-go; one that goes on is written as often
as the second, however fast it grows.
"""

# --- How long what was seen or written is believed

REFUSALS_KEPT_SECONDS = 90.0
"""A refusal: the key that met it is tried again after 36 s at the latest, which says it anew."""

DROPPED_FIELD_SECONDS = 60.0
"""That the API server drops a field of StatefulSets whose feature gate is closed."""

SHORT_OF_PODS_FOR = timedelta(seconds=5)
"""Until Events are read about a StatefulSet that lacks pods: most get them earlier."""

FAILED_CREATES_READ_AGAIN = timedelta(seconds=30)
"""Between two reads of them for one StatefulSet."""

FAILED_CREATES_FRESH = timedelta(seconds=4)
"""One read of a namespace serves all sets there, for longer where it takes long (`lws.costs`)."""

FAILED_CREATES_FORGOTTEN = timedelta(minutes=1)
"""Then nobody asks about the namespace any more."""

FAILED_CREATES_TRUE = timedelta(minutes=20)
"""An Event about a refused pod: the StatefulSet controller tries again after 17 minutes at the latest."""

RETRY_PODS_AFTER, RETRY_PODS_EACH = timedelta(seconds=30), timedelta(seconds=0.2)
"""Until a StatefulSet of which pods were refused is made to try again: the first at least, the second for
each such StatefulSet of a set. By itself its controller waits twice as long after every failure in a row, up
to 17 minutes: an outage of 5 s left a set short of pods for more than 300 s, now for 35 s at most.
"""

RETRY_NEXT_PODS_AFTER = timedelta(seconds=5)
"""Between as many of them as are due in that time, and the next: 5 writes a second at most."""

# --- Groups

RESTART_DELAY = Backoff(10, 600)
"""Between a restart of a group and the next."""

STABLE_SECONDS = 1200
"""A group that did without a restart for so long starts from the first delay again."""

SKEW_SECONDS = 60
"""Clocks of two managers differ; by more than this, and the time in a record is not believed."""

COLLECTED_WITHIN = timedelta(minutes=1)
"""What the garbage collector may take from a lost leader to the pods of its workers."""

ENDED_WITHIN = timedelta(seconds=5)
"""A kubelet kills what has not ended within its grace period, and says so a little later."""

SCHEDULED_AT_ONCE = timedelta(seconds=2)
"""A pod that was bound within this time did not wait: condition and creation are in whole seconds."""

LINGERING_SECONDS = 1.0
"""Between looks at the last pods of a deleted LeaderWorkerSet: it is made again after them."""

NODE_WAIT_IS_LONG = timedelta(seconds=30)
"""Of a pod for a node, until users are told: schedulers try again after seconds, new nodes take minutes."""

GROUP_STARTS_WITHIN = timedelta(minutes=10)
"""Of a group that was not ready for so long nobody expects any more that it will be, unless its set names a
`progressDeadlineSeconds`: as long as Deployments wait by default.
"""

# --- Streams and requests

REQUEST_SECONDS = 30.0
"""For an answer, and for the connection of a watch."""

WATCH_SECONDS = 290
"""The server ends a watch after this long."""

SILENT_WATCH_SECONDS = 90.0
"""Without a byte the connection is given up and resumed: bookmarks come about once a minute."""

SILENT_STREAM_SECONDS = 240.0
"""A stream that missed several bookmarks is dead, whatever its socket says: the liveness probe fails."""

STREAM_BACKOFF = Backoff(0.2, 15.0)
"""Before a stream that failed is resumed or listed anew."""

STEADY_STREAM_SECONDS = 0.5
"""A stream that lasted longer has worked, though it was silent: something on the way cuts idle streams."""

COMPARE_SETS_SECONDS = 60.0
"""Between comparisons of kopf's sets with those of the API server."""

CATCH_UP = Backoff(0.1, 2.0)
"""Between comparisons while they differ: the first until kopf has listed, the longest after that."""

KOPF_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Between the attempts of one request of kopf; the last one for ever."""

KOPF_IDLE_SECONDS = 0.5
"""kopf has a task for each set that changed lately, which keeps the whole set as it was."""

COVERAGE_SECONDS, COVERAGE_RETRY_SECONDS = 60.0, 2.0
"""Between looks at which namespaces the pod webhook sees; the second as long as it was never read."""

# --- The process

ENGINE_PAUSE = Backoff(1.0, 60.0)
"""Before a new engine lists everything anew; one that lasted longer than the longest has worked."""

PRECONDITIONS_PAUSE = Backoff(1.0, 15.0)
"""Between looks for an API server and its definitions at the start."""

REFUSED_FOR_GOOD_SECONDS = 300.0
"""After that a kind that may no longer be read is no longer served, and all is listed anew: permissions that
are applied anew are away for less.
"""

TAKEOVER_RETRY_SECONDS = 1.0
"""After a list failed that is needed before anything is done for gained namespaces."""

DRAIN_SECONDS, FAREWELL_SECONDS = 10.0, 3.0
"""For passes that run when the process ends; for what is said after them, and for kopf. Together well within
the grace period of the pod, which is 30 s in the chart.
"""

REVIEWS_GRACE_SECONDS, ENDPOINTS_GRACE_SECONDS = 5.0, 1.0
"""For reviews that are being answered when the webhooks close; for probes and scrapes, which lose nothing."""

CALLER_SECONDS, CALLER_LOOK_SECONDS, ASKING_SECONDS = 3.0, 0.05, 30.0
"""For a caller that is silent or slow while others wait to be served; between looks whether one is; for a
handshake, and for a request to be there: as long as an API server ever waits for the answer.
"""

# --- Credentials and certificates

CREDENTIALS_SECONDS = 60.0
"""A plugin may talk to a cloud; one that takes longer hangs."""

CREDENTIALS_RETRY_SECONDS = 5.0
"""Between attempts to load credentials."""

CREDENTIALS_EARLY_SECONDS = 300.0
"""So long before they end new ones are loaded: as early as the kubernetes client does it."""

TOKEN_FILE_SECONDS = 60.0
"""Between reads of the file of a token, as kubectl's; the kubelet exchanges a pod's long before it ends."""

TRUST_SECONDS = 1.0
"""Between looks at whether the files of the system's CAs have changed."""

AUTHENTICATED_SECONDS, ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 300.0, 30.0
"""Who a token of a scraper belongs to, and what its owner may read, is kept: a scrape costs no review."""

METRICS_CERTIFICATE_SECONDS = 86400.0
"""Between looks at whether the self-signed certificate of the metrics is about to end."""

CERTIFICATE_FILES_SECONDS = 10.0
"""Between looks at mounted certificates: the kubelet needs about a minute to bring new ones."""

CERTIFICATES_PAUSE = Backoff(1.0, 60.0)
"""Between looks at our own certificates: the longest, or after failures those before."""

CA_KNOWN_WITHIN = timedelta(seconds=30)
"""Every API server must have seen a new CA before anybody is shown a certificate that it signed."""

CA_LIFE, CERTIFICATE_LIFE = timedelta(days=3650), timedelta(days=365)
"""Of what we sign ourselves."""

CERTIFICATE_BACKDATING = timedelta(hours=1)
"""Clocks of API servers may be behind ours."""

RENEW_BEFORE = timedelta(days=90)
"""So long before its end a certificate, or a CA, is made anew."""

NEARLY_OVER, STUCK_AFTER, LEASE_LATE = timedelta(days=7), timedelta(minutes=10), timedelta(minutes=1)
"""`lws doctor` tells of a certificate so near its end, a set that moved so long ago, a Lease so overdue."""

CA_OVERLAP = timedelta(hours=24)
"""A former CA stays trusted: other replicas may still show what it signed."""

# --- Commands

SCREEN_SECONDS = 1.0
"""Between two pictures of `lws status --watch`."""

COMPLETION_SECONDS = 3.0
"""Nobody waits longer for the names that a shell completes."""
