"""Record what the StatefulSet controller of a real control plane deletes and creates, for its fake.

Run as `python -m test.integration.record_statefulsets [--sequences N] [--seed N]`. It plays random
StatefulSets, changes of their spec, and pods that become ready, fail and are deleted. It writes one JSON file
per setting of the feature MaxUnavailableStatefulSet to test/unit/stories/recorded/: sequences of steps, each
with what was done and what the controller did until it was idle. Pods are never placed on a node, so
no other component changes them; a finalizer keeps them until the script removes it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.localcluster import LocalCluster, Options
from tools.localcluster.api import Api, ApiError

RECORDED = Path(__file__).parents[1] / "unit" / "stories" / "recorded"
FEATURE = "MaxUnavailableStatefulSet"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
PODS = "/api/v1/namespaces/default/pods"
FINALIZER = "example.com/hold"
STEPS = 18
QUIET_SECONDS = 1.0
PATIENCE_SECONDS = 120.0

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod in a snapshot."""

    ordinal: int
    template: str
    ready: bool
    ended: bool
    terminating: bool


@dataclass
class Recorder:
    """One StatefulSet, its script and its history."""

    api: Api
    name: str
    random: random.Random
    has_feature: bool
    steps: list[Step] = field(default_factory=list)
    desired: dict[str, Any] = field(default_factory=dict)
    _letters: dict[str, str] = field(default_factory=dict)

    def run(self) -> list[Step]:
        """Run the whole script."""
        self.desired = {"replicas": self.random.randint(1, 5), "template": "A", "partition": 0}
        if self.has_feature:
            self.desired["maxUnavailable"] = self.random.randint(1, 3)
        self.api.create(STATEFULSETS, self._manifest())
        pods = self._note(["spec", dict(self.desired)], {})
        for _ in range(STEPS):
            step = self._next(pods)
            self._do(step)
            pods = self._note(step, pods)
        return self.steps

    def _next(self, pods: dict[str, Pod]) -> list[Any]:
        """Return the next step: begin or continue a rollout, or sometimes cause a failure."""
        living = [pod for pod in pods.values() if not pod.terminating and not pod.ended]
        choices: list[tuple[int, list[Any]]] = [(4, ["spec", self._changed()])]
        choices += [(6, ["ready", pod.ordinal]) for pod in living if not pod.ready]
        choices += [(6, ["gone", pod.ordinal]) for pod in pods.values() if pod.terminating]
        if living:
            ordinal = self.random.choice(living).ordinal
            choices += [(2, ["delete", ordinal]), (1, ["failed", ordinal])]
        choices += [(1, ["unready", pod.ordinal]) for pod in living[:1] if pod.ready]
        weights = [weight for weight, _ in choices]
        return self.random.choices([step for _, step in choices], weights)[0]

    def _changed(self) -> dict[str, Any]:
        """Return some fields of the spec with new values."""
        replicas = self.random.randint(0, 6)
        changes = {
            "template": self.random.choice(
                [letter for letter in "ABCD" if letter != self.desired["template"]]
            ),
            "partition": self.random.choice([0, self.random.randint(0, self.desired["replicas"]), replicas]),
            "replicas": replicas,
        }
        if self.has_feature:
            changes["maxUnavailable"] = self.random.randint(1, 4)
        fields = self.random.choice(
            [["template"], ["template", "partition"], ["partition"], ["replicas"], list(changes)]
        )
        return {field: changes[field] for field in fields}

    def _do(self, step: list[Any]) -> None:
        kind, argument = step
        if kind == "spec":
            self.desired |= argument
            self.api.merge(f"{STATEFULSETS}/{self.name}", {"spec": self._manifest()["spec"]})
            return
        pod = f"{PODS}/{self.name}-{argument}"
        if kind == "delete":
            self.api.delete(pod)
        elif kind == "gone":
            with suppress(ApiError):
                self.api.merge(pod, {"metadata": {"finalizers": None}})
        else:
            phase = "Failed" if kind == "failed" else "Running"
            ready = {"type": "Ready", "status": "True" if kind == "ready" else "False"}
            self.api.merge(f"{pod}/status", {"status": {"phase": phase, "conditions": [ready]}})

    def _note(self, step: list[Any], before: dict[str, Pod]) -> dict[str, Pod]:
        """Wait until the controller is idle, and record what it did."""
        statefulset, after = self._settled()
        status = statefulset["status"]
        self._letters.setdefault(status["updateRevision"], self.desired["template"])
        own = step[1] if step[0] == "delete" else None
        created = [pod for uid, pod in after.items() if uid not in before]
        deleted = [
            pod
            for uid, pod in after.items()
            if pod.terminating and not (uid in before and before[uid].terminating) and pod.ordinal != own
        ]
        self.steps.append(
            {
                "do": step,
                "create": sorted([pod.ordinal, pod.template] for pod in created),
                "delete": sorted((pod.ordinal for pod in deleted), reverse=True),
                "current": self._letters[status["currentRevision"]],
            }
        )
        return after

    def _settled(self) -> tuple[dict[str, Any], dict[str, Pod]]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        last, since = "", time.monotonic()
        while time.monotonic() < deadline:
            statefulset = self.api.get(f"{STATEFULSETS}/{self.name}")
            items = self.api.get(f"{PODS}?labelSelector=set%3D{self.name}")["items"]
            pods = {item["metadata"]["uid"]: _pod(item) for item in items}
            seen = json.dumps([statefulset["metadata"]["resourceVersion"], sorted(map(str, pods.values()))])
            if seen != last:
                last, since = seen, time.monotonic()
            elif _has_reported(statefulset, pods) and time.monotonic() - since > QUIET_SECONDS:
                return statefulset, pods
            time.sleep(0.1)
        raise TimeoutError(f"{self.name} does not become idle: {last}")

    def _manifest(self) -> dict[str, Any]:
        labels = {"set": self.name}
        update: dict[str, Any] = {"partition": self.desired["partition"]}
        if self.has_feature:
            update["maxUnavailable"] = self.desired["maxUnavailable"]
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.desired["replicas"],
                "serviceName": self.name,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update},
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": {"template": self.desired["template"]},
                        "finalizers": [FINALIZER],
                    },
                    "spec": {
                        "schedulerName": "nobody",
                        "containers": [{"name": "main", "image": "main"}],
                    },
                },
            },
        }


def _pod(item: dict[str, Any]) -> Pod:
    status = item["status"]
    ready = [
        condition["status"] for condition in status.get("conditions") or () if condition["type"] == "Ready"
    ]
    return Pod(
        ordinal=int(item["metadata"]["name"].rpartition("-")[2]),
        template=item["metadata"]["annotations"]["template"],
        ready=status["phase"] == "Running" and ready == ["True"],
        ended=status["phase"] in ("Failed", "Succeeded"),
        terminating="deletionTimestamp" in item["metadata"],
    )


def _has_reported(statefulset: dict[str, Any], pods: dict[str, Pod]) -> bool:
    status, generation = statefulset.get("status") or {}, statefulset["metadata"]["generation"]
    ready = sum(pod.ready for pod in pods.values())
    counts = (status.get("replicas", 0), status.get("readyReplicas", 0))
    return status.get("observedGeneration") == generation and counts == (len(pods), ready)


def _record(sequences: int, seed: int, has_feature: bool) -> Iterator[list[Step]]:
    # The pod garbage collector deletes terminating pods without a node by name, which may hit the next pod.
    controllers = "*,-node-ipam-controller,-pod-garbage-collector-controller"
    flags = {"kube-controller-manager": [f"--controllers={controllers}"]}
    options = Options(nodes=1, feature_gates={FEATURE: has_feature}, extra_flags=flags)
    with LocalCluster(options) as cluster:
        recorders = [
            Recorder(cluster.api, f"r{number}", random.Random(seed + number), has_feature)
            for number in range(sequences)
        ]
        with ThreadPoolExecutor(sequences) as pool:
            yield from pool.map(Recorder.run, recorders)


def main() -> None:
    """Record, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=25, help="for each setting (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the scripts (default: %(default)s)")
    arguments = parser.parse_args()
    for has_feature in (False, True):
        sequences = _record(arguments.sequences, arguments.seed, has_feature)
        lines = ",\n".join(
            "[\n" + ",\n".join(json.dumps(step, separators=(",", ":")) for step in steps) + "\n]"
            for steps in sequences
        )
        path = RECORDED / f"feature-{'on' if has_feature else 'off'}.json"
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
