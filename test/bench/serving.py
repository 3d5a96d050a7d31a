"""Measure how long groups do not serve, with and without the fields that shorten this time.

Run by `make bench SHAPES=serving`. The control plane, the scheduler and the controller are real. Nodes are
simulated: a pull takes `PULL` seconds unless the node has the image. Pods that load their model share one
store, which serves one of them in `LOAD` seconds.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import API_VERSION, GROUP_INDEX_LABEL, KIND
from test.bench.floor import until_pods
from test.bench.processes import Others
from test.bench.subject import Subject, running
from test.bench.surroundings import NODES, commit, machine
from tools.localcluster import ApiError, LocalCluster, Options
from tools.localcluster.pods import Pods, is_ready

PULL, LOAD, GRACE = 10.0, 3.0, 30
RESULT = "serving.json"
HEAD = ("what", "seconds without", "seconds with")

_NAMESPACE, _SET = "serving", "model"
_TICK = 0.25
_PATIENCE = 600.0
_IMAGE = "server:{}-pulls-10s"

NODE = "node"
"""The part of the result that was measured on a real node."""

Object = dict[str, Any]


class Watch(threading.Thread):
    """Record which groups of a set serve.

    down: for each group, the seconds in which it did not serve after it had. served: when it served first.
    """

    def __init__(self, cluster: LocalCluster, size: int) -> None:
        super().__init__(daemon=True)
        self.api, self._size = cluster.api, size
        self._ended = threading.Event()
        self.serving: set[str] = set()
        self.down: defaultdict[str, float] = defaultdict(float)
        self.served: dict[str, float] = {}

    def run(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(_TICK):
            now = time.monotonic()
            try:
                self.step(now, now - last)
            except ApiError:
                # The pod has been replaced meanwhile.
                continue
            finally:
                last = now

    def end(self) -> None:
        self._ended.set()
        self.join()

    def step(self, now: float, passed: float) -> list[Object]:
        """Check once, and return all pods."""
        pods: list[Object] = self.api.get(f"/api/v1/namespaces/{_NAMESPACE}/pods")["items"]
        self._note(pods, now, passed)
        return pods

    def forget(self) -> None:
        """Drop what was recorded before the set was settled."""
        self.down.clear()

    def _note(self, pods: list[Object], now: float, passed: float) -> None:
        ready: defaultdict[str, int] = defaultdict(int)
        for pod in pods:
            if is_ready(pod):
                ready[(pod["metadata"].get("labels") or {}).get(GROUP_INDEX_LABEL, "")] += 1
        self.serving = {group for group, count in ready.items() if group and count == self._size}
        for group in self.served.keys() - self.serving:
            self.down[group] += passed
        for group in self.serving:
            self.served.setdefault(group, now)


class _Kubelets(Watch):
    """A Watch that also starts the pods of a set, on nodes that keep images."""

    def __init__(self, cluster: LocalCluster, size: int) -> None:
        super().__init__(cluster, size)
        self._pods = Pods(cluster.api)
        self._pulls: dict[tuple[str, str], float] = {}
        self._loaded: defaultdict[str, float] = defaultdict(float)

    def step(self, now: float, passed: float) -> list[Object]:
        pods, loading = super().step(now, passed), []
        for pod in pods:
            node, image = pod["spec"].get("nodeName"), pod["spec"]["containers"][0]["image"]
            phase, labels = pod["status"]["phase"], pod["metadata"].get("labels") or {}
            if not node or "deletionTimestamp" in pod["metadata"]:
                continue
            # A pull continues after its pod is gone.
            has_image = now - self._pulls.setdefault((node, image), now) >= PULL
            if has_image and phase == "Pending" and GROUP_INDEX_LABEL in labels:
                loading.append(pod)
        for pod in loading:
            uid = pod["metadata"]["uid"]
            self._loaded[uid] += passed / len(loading)
            if self._loaded[uid] >= LOAD:
                self._pods.set_ready(_NAMESPACE, pod["metadata"]["name"], True)
        return pods


Watching = Callable[[LocalCluster, int], Watch]
"""Creates a Watch from a cluster and the size of groups."""


@dataclass(frozen=True)
class Case:
    """One measurement.

    spec: of the set. changed: the field and its value, in `spec`, or an annotation if the name has a slash.
    act: what happens to the settled set, or None for its creation. figure: the result, from the watch and the
    time of the act.
    """

    what: str
    spec: Object
    changed: tuple[str, Any]
    act: Callable[[Any], None] | None
    figure: Callable[[Any, float], float]
    annotations: Mapping[str, str] = field(default_factory=dict)

    def manifest(self, is_on: bool) -> Object:
        name, value = self.changed
        metadata: Object = {"name": _SET, "annotations": dict(self.annotations)}
        spec = dict(self.spec)
        if is_on and "/" in name:
            metadata["annotations"] |= {name: value}
        elif is_on:
            spec[name] = {**spec.get(name, {}), **value} if isinstance(value, dict) else value
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _spec(replicas: int, size: int, **pod: str) -> Object:
    annotations = {"localcluster/ready-after": "3600s", **pod}
    containers = [{"name": "server", "image": _IMAGE.format(1)}]
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": GRACE, "containers": containers},
    }
    return {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}}


def leader_deleted(api: Any) -> None:
    api.delete(f"/api/v1/namespaces/{_NAMESPACE}/pods/{_SET}-0")


def _leader_deleted_on_busy_nodes(api: Any) -> None:
    """Delete a leader while other nodes have more room, so that the scheduler would prefer them."""
    pods = api.get(f"/api/v1/namespaces/{_NAMESPACE}/pods")["items"]
    for node in {pod["spec"]["nodeName"] for pod in pods}:
        container = {
            "name": "busy",
            "image": "busy",
            "resources": {"requests": {"cpu": "2", "memory": "2Gi"}},
        }
        metadata = {"name": f"busy-on-{node}", "labels": {"busy": "true"}}
        spec = {"nodeName": node, "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        api.create("/api/v1/namespaces/default/pods", pod)
    leader_deleted(api)


def _new_image(api: Any) -> None:
    with_containers(api, [{"name": "server", "image": _IMAGE.format(2)}])


def with_containers(api: Any, containers: list[Object]) -> None:
    """Start a rollout of the set to these containers."""
    template = {"workerTemplate": {"spec": {"containers": containers}}}
    api.merge(_path(_SET), {"spec": {"leaderWorkerTemplate": template}})


def mean_down(watch: Watch, began: float) -> float:
    return mean(watch.down.values())


def _first_served(watch: Watch, began: float) -> float:
    return min(watch.served.values()) - began


CASES = (
    Case(
        "`node-return`: a group is recreated",
        _spec(2, 2),
        (NODE_RETURN_ANNOTATION, "Preferred"),
        _leader_deleted_on_busy_nodes,
        mean_down,
    ),
    Case(
        f"`podTerminationPolicy: Parallel`: the same, with pods that end after {GRACE} s",
        _spec(2, 2, **{"localcluster/stops-after": str(GRACE)}),
        ("podTerminationPolicy", "Parallel"),
        leader_deleted,
        mean_down,
    ),
    Case(
        "`prewarm`, with `node-return`: each group of a rollout to a new image",
        _spec(3, 1),
        ("rolloutStrategy", {"prewarm": {}}),
        _new_image,
        mean_down,
        {NODE_RETURN_ANNOTATION: "Preferred"},
    ),
    Case(
        "`startStrategy`: the first of 8 new groups",
        _spec(8, 1),
        ("startStrategy", {"seedGroups": 1}),
        None,
        _first_served,
    ),
)


def measure_serving(say: Callable[[str], None]) -> Mapping[str, Any]:
    """Start a cluster, measure each case without and with its field, and stop the cluster."""
    with LocalCluster(Options(nodes=NODES)) as cluster:
        return measured(cluster, CASES, _Kubelets, say)


def measured(
    cluster: LocalCluster, cases: Sequence[Case], watch: Watching, say: Callable[[str], None]
) -> Mapping[str, Any]:
    """Run the controller in a cluster, and measure each case without and with its field."""
    others, seconds_by_case = Others(), {}
    cluster.kubectl("create", "namespace", _NAMESPACE)
    with running(cluster, None) as subject:
        for case in cases:
            seconds = [_measured(cluster, subject, case, watch, is_on) for is_on in (False, True)]
            say(f"{case.what}: {seconds[0]:.1f} s without, {seconds[1]:.1f} s with")
            seconds_by_case[case.what] = seconds
    return {"commit": commit(), "machine": machine(others), "cases": seconds_by_case}


def serving_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row of cells for each case, with cases of the real node last."""
    cases = {**(result.get("cases") or {}), **((result.get(NODE) or {}).get("cases") or {})}
    for case, seconds in cases.items():
        yield (case, *(f"{value:.0f}" for value in seconds))


def _measured(cluster: LocalCluster, subject: Subject, case: Case, watching: Watching, is_on: bool) -> float:
    spec = case.spec
    with _started(watching(cluster, spec["leaderWorkerTemplate"]["size"])) as watch:
        began = time.monotonic()
        cluster.api.create(_path(), case.manifest(is_on))
        _until_all_serve(watch, subject, spec["replicas"])
        if case.act is not None:
            watch.forget()
            began = time.monotonic()
            case.act(cluster.api)
            _until(lambda: bool(watch.down), subject)
            _until(lambda: _is_done(cluster.api, watch, spec["replicas"]), subject)
        figure = case.figure(watch, began)
        cluster.api.delete(_path(_SET))
        cluster.kubectl("delete", "pods", "--namespace=default", "--selector=busy", "--wait=false")
        until_pods(cluster.api, f"/api/v1/namespaces/{_NAMESPACE}/pods")
    return figure


def _is_done(api: Any, watch: Watch, replicas: int) -> bool:
    status = api.get(_path(_SET)).get("status") or {}
    is_current = status.get("updateRevision") == status.get("currentRevision")
    return is_current and len(watch.serving) == replicas == status.get("readyReplicas")


def _until_all_serve(watch: Watch, subject: Subject, replicas: int) -> None:
    _until(lambda: len(watch.serving) == replicas, subject)


def _until(holds: Callable[[], bool], subject: Subject) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        subject.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"groups do not serve after {_PATIENCE:g} s")
        time.sleep(_TICK)


@contextmanager
def _started(watch: Watch) -> Iterator[Watch]:
    watch.start()
    try:
        yield watch
    finally:
        watch.end()


def _path(name: str = "") -> str:
    return f"/apis/{API_VERSION}/namespaces/{_NAMESPACE}/leaderworkersets" + (f"/{name}" if name else "")
