"""Metrics of workloads, individually or summed up.

Passes deliver figures, and writes deliver tallies. Series exist while their workload exists and this process
acts on it. Durations of rollouts and group starts are measured here, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from cachetools import FIFOCache
from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lws.kube.conditions import moment_of
from lws.runtime.actions import ROLLING, Figures, Key, Tally

REVISION_CHANGES, ROLLOUT_START, LAST_START = "revision changes", "rollout start", "last start"
"""Words of values that this module computes: the number of changes of the target revision, the start of the
current rollout, and the start duration in seconds of the group that became ready last.
"""

_STARTS = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_ROLLOUTS = (10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
_NAMESPACE = "namespace"
# Words of values that cannot be summed over workloads.
_NOT_SUMMED = frozenset({ROLLOUT_START, LAST_START})

_MOST_DELETED = 1_000
"""Number of deleted workloads that are recorded, because running passes may still report their figures."""

_Owner = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


@dataclass(frozen=True, slots=True)
class WorkloadSeries:
    """A series of a kind of workload.

    word: its name in figures and tallies. series: its name in scrapes; that of a counter ends with `_total`.
    label: an additional label. values: all values of the label; empty if users choose them.
    """

    kind: str
    word: str
    series: str
    documentation: str
    label: str = ""
    values: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        return self.series.endswith("_total")

    @property
    def labels(self) -> tuple[str, ...]:
        return (_NAMESPACE, self.kind.lower(), *((self.label,) if self.label else ()))


@dataclass(slots=True)
class _Record:
    """The figures of one workload and its groups.

    measured: UIDs of leader pods whose start was measured or cannot be measured.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    own: Figures | None = None
    parts: dict[Key, Figures] = field(default_factory=dict)
    revision: str = ""
    rolling_since: float | None = None
    last_start: float | None = None
    measured: set[str] = field(default_factory=set)


class Workloads(Collector):
    """The series of all workloads, or, unless `is_each_shown`, sums by kind under empty labels.

    clock: a function that returns the Unix time of the API server.
    """

    def __init__(self, registry: CollectorRegistry, is_each_shown: bool, clock: Callable[[], float]) -> None:
        self._is_each_shown = is_each_shown
        self._clock = clock
        self._series: dict[str, WorkloadSeries] = {}
        self._records: defaultdict[_Owner, _Record] = defaultdict(_Record)
        self._owner_of: dict[Key, _Owner] = {}
        # Parts of dropped workloads, so that they are not counted twice.
        self._left: dict[Key, Figures] = {}
        self._lately_deleted = FIFOCache[_Owner, None](_MOST_DELETED)
        # By kind: counts of deleted workloads. A sum that decreases looks like a restart of the process.
        self._counts_of_deleted: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._starts = Histogram(
            "lws_group_start_duration_seconds",
            "Seconds from the creation of a leader pod until its group is first ready.",
            buckets=_STARTS,
            registry=registry,
        )
        self._rollouts = Histogram(
            "lws_rollout_duration_seconds",
            "Duration of completed rollouts in seconds.",
            ("kind",),
            buckets=_ROLLOUTS,
            registry=registry,
        )
        registry.register(self)

    def serve(self, series: Iterable[WorkloadSeries]) -> None:
        """Show these series."""
        for added in series:
            self._series[added.series] = added
            self._rollouts.labels(added.kind)

    def observe(self, key: Key, figures: Figures | None) -> None:
        """Record the figures of a pass over a workload or a part of it.

        figures: None if a part has no figures any more, or if the figures of a workload have not changed.
        """
        if figures is None:
            self._left.pop(key, None)
            owner = self._owner_of.get(key)
            if owner is not None and self._records[owner].parts.pop(key, None) is not None:
                del self._owner_of[key]
            return
        owner = (figures.kind, key.namespace, figures.name)
        if figures.name == key.name:
            self._lately_deleted.pop(owner, None)
        elif owner in self._lately_deleted:
            return
        self._owner_of[key] = owner
        record = self._records[owner]
        if figures.name == key.name:
            self._observe_own(record, figures)
            return
        before = record.parts.get(key) or self._left.pop(key, None)
        # Figures that a part did not have before are also counted.
        record.counts.update(figures.numbers.keys() - (before.numbers.keys() if before is not None else ()))
        record.parts[key] = figures

    def count(self, namespace: str, tallies: Iterable[Tally]) -> None:
        """Count writes in this namespace, only in sums if their workload was deleted meanwhile."""
        for tally in tallies:
            owner = (tally.kind, namespace, tally.name)
            is_late = owner in self._lately_deleted
            counts = self._counts_of_deleted[tally.kind] if is_late else self._records[owner].counts
            counts[tally.word, tally.label] += 1

    def count_for_others(self, tallies: Iterable[Tally]) -> None:
        """Count writes for workloads that another process shows by now."""
        for tally in tallies:
            self._counts_of_deleted[tally.kind][tally.word, tally.label] += 1

    def gone(self, key: Key) -> None:
        """Drop a workload or part that is deleted or left alone."""
        self._left.pop(key, None)
        owner = self._owner_of.pop(key, None)
        if owner is None:
            return
        if owner[2] == key.name:
            record = self._records.pop(owner, _Record())
            self._counts_of_deleted[owner[0]].update(record.counts)
            for part in record.parts:
                self._owner_of.pop(part, None)
            self._lately_deleted[owner] = None
        else:
            self._records[owner].parts.pop(key, None)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the workloads of these namespaces, because the process that leads them now shows them."""
        for owner in [owner for owner in self._records if is_meant(owner[1])]:
            record = self._records.pop(owner)
            self._counts_of_deleted[owner[0]].update(record.counts)
            self._left.update(record.parts)
        for key in [key for key in self._owner_of if is_meant(key.namespace)]:
            del self._owner_of[key]

    def _observe_own(self, record: _Record, figures: Figures) -> None:
        before, now = record.own, self._clock()
        record.own = figures
        if figures.revision:
            record.counts[REVISION_CHANGES, ""] += record.revision not in ("", figures.revision)
            record.revision = figures.revision
        if figures.numbers.get((ROLLING, "")):
            began = moment_of(figures.rolling_since)
            record.rolling_since = began.timestamp() if began is not None else record.rolling_since or now
        elif record.rolling_since is not None:
            self._rollouts.labels(figures.kind).observe(max(0.0, now - record.rolling_since))
            record.rolling_since = None
        self._measure_starts(record, figures, is_first=before is None)

    def _measure_starts(self, record: _Record, figures: Figures, is_first: bool) -> None:
        """Measure the start of each group that has become ready.

        Groups that exist at the first observation may have been ready before, so they are not measured.
        """
        groups = figures.groups
        if is_first:
            record.measured = {*groups}
            return
        record.measured &= groups.keys()
        for uid, created in groups.items():
            moment = moment_of(created) if created and uid not in record.measured else None
            if moment is not None:
                record.measured.add(uid)
                record.last_start = max(0.0, self._clock() - moment.timestamp())
                self._starts.observe(record.last_start)

    def describe(self) -> Iterable[Metric]:
        return [_family(series) for series in self._series.values()]

    def collect(self) -> Iterator[Metric]:
        for series in self._series.values():
            if not self._is_each_shown and series.word in _NOT_SUMMED:
                continue
            family = _family(series)
            for labels, value in self._samples(series):
                family.add_metric(labels, value)
            yield family

    def _samples(self, series: WorkloadSeries) -> Iterable[tuple[tuple[str, ...], float]]:
        samples = (
            ((namespace, name, *label), value)
            for (kind, namespace, name), record in self._records.items()
            if kind == series.kind and record.own is not None
            for label, value in _values(series, record).items()
        )
        if self._is_each_shown:
            return samples
        sums = dict.fromkeys((_place_in_sums(series, value) for value in series.values or ("",)), 0.0)
        for labels, value in samples:
            sums[_place_in_sums(series, *labels[2:])] += value
        for (word, label), count in self._counts_of_deleted[series.kind].items() if series.is_counter else ():
            if word == series.word:
                sums[_place_in_sums(series, label)] += count
        return sums.items()


def series_of_rollouts(kind: str, stalled: str) -> tuple[WorkloadSeries, ...]:
    """Return the series of any kind that has rollouts. stalled: the word for a set that makes no progress."""
    start = f"lws_{kind.lower()}"
    lacks_progress = "1 while the set has made no progress for its progressDeadlineSeconds."
    in_progress = "1 during a rollout, also while it is paused."
    started = "Start of the current rollout, as a Unix time; absent without one."
    changes = "Changes of the target revision."
    return (
        WorkloadSeries(kind, stalled, f"{start}_stalled", lacks_progress),
        WorkloadSeries(kind, ROLLING, f"{start}_rollout_in_progress", in_progress),
        WorkloadSeries(kind, ROLLOUT_START, f"{start}_rollout_start_timestamp_seconds", started),
        WorkloadSeries(kind, REVISION_CHANGES, f"{start}_revision_changes_total", changes),
    )


def _family(series: WorkloadSeries) -> CounterMetricFamily | GaugeMetricFamily:
    make = CounterMetricFamily if series.is_counter else GaugeMetricFamily
    return make(series.series, series.documentation, labels=series.labels)


def _place_in_sums(series: WorkloadSeries, label: str = "") -> tuple[str, ...]:
    """Return the labels of a sum, without those that users choose: there would be a series for each set."""
    further = (label if series.values else "",) if series.label else ()
    return ("", "", *further)


def _values(series: WorkloadSeries, record: _Record) -> Mapping[tuple[str, ...], float]:
    """Return the values of a series by its additional label, if it has one."""
    if series.word in _NOT_SUMMED:
        value = record.rolling_since if series.word == ROLLOUT_START else record.last_start
        return {(): value} if value is not None else {}
    values_by_label: dict[str, float] = dict.fromkeys(series.values or (() if series.label else ("",)), 0.0)
    for (word, label), value in _numbers(series, record):
        if word == series.word:
            values_by_label[label] = values_by_label.get(label, 0.0) + value
    return {((label,) if series.label else ()): value for label, value in values_by_label.items()}


def _numbers(series: WorkloadSeries, record: _Record) -> Iterable[tuple[tuple[str, str], float]]:
    if series.is_counter:
        return record.counts.items()
    parts = (record.own, *record.parts.values())
    return chain.from_iterable(part.numbers.items() for part in parts if part is not None)
