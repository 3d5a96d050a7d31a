"""Measure one shape of DisaggregatedSets: the same LeaderWorkerSets alone, then the sets, in one cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from test.bench.disaggregated.creation import create_sliced
from test.bench.disaggregated.least import measure_least
from test.bench.disaggregated.players import Alone, Paired
from test.bench.disaggregated.shape import PairedShape
from test.bench.disaggregated.writes import written
from test.bench.manifests import OLD
from test.bench.meter import Meter, Result, quantiles
from test.bench.processes import Others
from test.bench.subject import Subject, review_quantile, running, webhook_quantile
from test.bench.surroundings import NODES, commit, machine
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

_ALONE, _PAIRED, _SLICED, _LEAST = "alone", "paired", "sliced", "least"
_PATH = "/validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"
_WEBHOOK = "vdisaggregatedset.kb.io"


@dataclass(frozen=True)
class PairedOrder:
    """What to measure.

    has_alone: whether the LeaderWorkerSets alone and a single set are measured too. say: a function that
    receives progress.
    """

    shape: PairedShape
    has_alone: bool = True
    say: Callable[[str], None] = print


def measure_paired(order: PairedOrder) -> Result:
    """Start a cluster, measure, and stop the cluster."""
    others, options = Others(), Options(nodes=NODES, audit_policy=AUDIT_METADATA)
    with LocalCluster(options) as cluster:
        for namespace in (_ALONE, _PAIRED, _SLICED, _LEAST):
            cluster.kubectl("create", "namespace", namespace)
        with running(cluster) as subject:
            run = _Run(cluster, order, subject)
            alone = run.alone() if order.has_alone else {}
            result = run.paired()
            sliced = run.sliced()
        least = _least(cluster, order) if order.has_alone else {}
    shape = order.shape
    return {
        "shape": shape.name,
        "groups": shape.all_groups,
        "steps": shape.steps,
        "changes": shape.changes,
        "commit": commit(),
        "machine": machine(others),
        "alone": alone,
        "least": least,
        "sliced": sliced,
        **result,
    }


def _least(cluster: LocalCluster, order: PairedOrder) -> Result:
    """Measure what the writes alone cost, without webhooks and without a manager."""
    cluster.kubectl("delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--all")
    phases = measure_least(str(cluster.kubeconfig), order.shape, _LEAST)
    for name, phase in phases.items():
        order.say(
            f"writes without any decision, {name}: {phase['requests']} requests, CPU {phase['cpu']:.2f} s"
        )
    return phases


class _Run:
    def __init__(self, cluster: LocalCluster, order: PairedOrder, subject: Subject) -> None:
        self._cluster = cluster
        self._order = order
        self._subject = subject
        self._meter = Meter(cluster, subject, order.say)

    def alone(self) -> Result:
        """Measure the other side with a separate process, so that its memory does not count here."""
        player = Alone(self._cluster.api, self._order.shape, _ALONE, self._subject.check)
        phases = {name: self._phase(f"alone, {name}", run) for name, run in player.phases.items()}
        player.close()
        phases["rollout"]["seconds_of_steps"] = player.seconds_of_steps
        self._subject.stop()
        self._subject.start()
        return phases

    def paired(self) -> Result:
        player = Paired(self._cluster.api, self._order.shape, _PAIRED, self._subject.check)
        phases: dict[str, Result] = {}
        for name, run in player.phases.items():
            if name == "delete":
                break
            phases[name] = self._paired_phase(name, run)
        settled = self._meter.settled()
        single = {}
        if self._order.has_alone:
            single = self._paired_phase("rollout of one set", partial(player.roll_one, OLD))
        restart = self._meter.restart(self._subject)
        phases["delete"] = self._paired_phase("delete", player.phases["delete"])
        player.close()
        return {"phases": phases, "settled": settled, "single": single, "restart": restart}

    def sliced(self) -> Result:
        """Measure slices after all other sets are deleted: only the set's name tells writes apart."""
        api, shape, check = self._cluster.api, self._order.shape, self._subject.check
        return self._paired_phase(
            "create, with slices and a scaler", partial(create_sliced, api, shape, _SLICED, check)
        )

    def _phase(self, name: str, run: Callable[[], float]) -> Result:
        return self._meter.phase(name, run, lambda: self._order.shape.all_groups)

    def _paired_phase(self, name: str, run: Callable[[], float]) -> Result:
        before = self._meter.mark()
        phase = self._phase(name, run)
        after = self._meter.mark()
        writes = written(self._meter.audit, before.offset, after.offset)
        own, server = after.own.since(before.own), after.server.since(before.server)
        return {
            **phase,
            "written": writes.in_all,
            "most_of_a_set": writes.most,
            "step_waits": writes.waits,
            **quantiles("set_review", lambda share: review_quantile(own, share, _PATH)),
            **quantiles("set_webhook", lambda share: webhook_quantile(server, share, _WEBHOOK)),
        }
