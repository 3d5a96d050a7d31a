"""The metrics of many sets take little memory."""

from __future__ import annotations

import gc
import tracemalloc

from lws.leaderworkerset.registration import SERIES
from lws.leaderworkerset.status.status import figures_of
from lws.runtime.actions import Figures, Key, Tally
from lws.runtime.endpoints.metrics import Metrics

SETS, GROUPS = 200, 1
MOST_BYTES = 3 * 2**20
CREATED = "2026-01-01T00:00:00Z"


def test_sets_of_1600_pods_take_less_than_3_mib() -> None:
    """200 groups of 8 pods, each in a separate set: no other division of 1,600 pods has more series."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        metrics = Metrics()
        metrics.workloads.serve(SERIES)
        for number in range(SETS):
            _pass_over(metrics, f"set-{number}")
        assert metrics.text().count(b"\n") > 20 * SETS
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < after - before < MOST_BYTES, f"{(after - before) / 2**20:.2f} MiB"


def _pass_over(metrics: Metrics, name: str) -> None:
    lws = {"metadata": {"name": name}}
    status = {"readyReplicas": 1, "groups": {"counts": {"Ready": 1}}, "updateRevision": f"{name}-abc-1"}
    figures = figures_of(lws, status, GROUPS, failed=0)
    groups = {f"{name}-{index}": CREATED for index in range(GROUPS)}
    figures = Figures(figures.kind, name, figures.numbers, figures.revision, groups=groups)
    metrics.workloads.observe(Key("set", "ns", name), figures)
    metrics.workloads.count("ns", [Tally("LeaderWorkerSet", name, "recreated", "PodFailed")])
