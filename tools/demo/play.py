"""Change the set of the tour, and wait for the results."""

from __future__ import annotations

import http.client
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tools.demo.facts import SetFacts, View
from tools.demo.mirror import NAMESPACE, NotInTime
from tools.demo.scene import Scene, holder
from tools.demo.show import Show
from tools.demo.structure import Goal, is_empty, is_reached
from tools.localcluster.access import read_access
from tools.localcluster.api import ask

_READY_AFTER = "localcluster/ready-after"
_IMAGE_PATH = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"
_SECONDS = 90.0
_SCRAPE_SECONDS = 0.2
_SERIES = "controller_runtime_reconcile_total"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A set whose groups all have one template and are updated one at a time.

    container, image: the name and image of the first container.
    """

    name: str
    replicas: int
    size: int
    container: str
    image: str

    @property
    def pods(self) -> int:
        return self.replicas * self.size


def read_manifest(text: str) -> Manifest:
    """Parse the LeaderWorkerSet of a manifest. Raises KeyError if a field that the tour needs is missing."""
    lws = yaml.safe_load(text)
    template = lws["spec"]["leaderWorkerTemplate"]
    container = template["workerTemplate"]["spec"]["containers"][0]
    return Manifest(
        name=lws["metadata"]["name"],
        replicas=lws["spec"]["replicas"],
        size=template["size"],
        container=container["name"],
        image=container["image"],
    )


def slowly_starting(text: str, start_time: str) -> str:
    """Return the manifest with pods that take some time ("2s") to start, so that there is more to see."""
    lws = yaml.safe_load(text)
    metadata = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"].setdefault("metadata", {})
    metadata.setdefault("annotations", {})[_READY_AFTER] = start_time
    return yaml.safe_dump(lws, sort_keys=False)


def with_tag(image: str, tag: str) -> str:
    """Return the same image with another tag."""
    repository, _, _ = image.rpartition(":")
    return f"{repository}:{tag}"


def image_patch(image: str) -> str:
    """Return the JSON patch that gives every pod of the set this image."""
    return json.dumps([{"op": "replace", "path": _IMAGE_PATH, "value": image}])


@dataclass(frozen=True)
class Play:
    """One set, its manifest `file`, and everything that can happen to it; `older`: UIDs of earlier ones."""

    scene: Scene
    show: Show
    manifest: Manifest
    file: Path
    older: frozenset[str]

    def kubectl(self, *arguments: str) -> None:
        """Run kubectl, and show the command as a user would type it."""
        self.show.say(f"$ kubectl {shlex.join(arguments)}")
        self.scene.cluster.kubectl("--namespace", NAMESPACE, *arguments)

    def until(self, goal: Goal, condition: str) -> View:
        """Wait for the desired state, then read all objects from the API server, independently of streams.

        Raises NotInTime.
        """
        self._until(lambda view: is_reached(view, goal), condition)
        return self.scene.mirror.fresh()

    def until_empty(self) -> View:
        """Wait until nothing of the set is left, then read as `until` does. Raises NotInTime."""
        self._until(lambda view: is_empty(view, self.older), "everything to be gone")
        return self.scene.mirror.fresh()

    def until_taken_over(self, former: str) -> None:
        """Wait until a manager other than the former one holds the Lease. Raises NotInTime."""
        self._until(lambda view: holder(view) not in ("", former), "the new manager to take over the Lease")

    def until_passes(self, least: Mapping[str, int]) -> Mapping[str, int]:
        """Wait for at least these numbers of passes, and return the present ones. Raises NotInTime."""
        condition = "the new manager to look at every object"
        self.show.wait_for(condition)
        token = read_access(self.scene.cluster.kubeconfig.read_text()).token
        deadline = time.monotonic() + _SECONDS
        while True:
            passes = read_passes(self.scene.manager.metrics_port, token)
            if all(passes.get(controller, 0) >= count for controller, count in least.items()):
                return passes
            if time.monotonic() > deadline:
                raise NotInTime(condition, _SECONDS, self.scene.mirror.view())
            # Nothing reports that a counter changes, so the scrape has to be repeated.
            time.sleep(_SCRAPE_SECONDS)

    def facts(self, view: View) -> SetFacts:
        """Return the facts of the set. Raises LookupError if it does not exist."""
        facts = view.set(self.manifest.name)
        if facts is None:
            raise LookupError(f"LeaderWorkerSet {NAMESPACE}/{self.manifest.name} does not exist")
        return facts

    def _until(self, is_true: Callable[[View], bool], condition: str) -> None:
        self.show.wait_for(condition)
        self.scene.mirror.until(is_true, _SECONDS, condition)
        self.show.wait_for("")


def passes_in(text: str) -> Mapping[str, int]:
    """Count successful passes by controller, from metrics in the Prometheus text format. Pure."""
    counted: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == _SERIES and sample.labels.get("result") != "error":
                counted[sample.labels["controller"]] += int(sample.value)
    return counted


def read_passes(port: int, token: str) -> Mapping[str, int]:
    """Read the passes of the manager whose metrics are at this port; none while it does not answer."""
    status, text = ask(f"https://127.0.0.1:{port}/metrics", token, seconds=2)
    return passes_in(text) if status == http.client.OK else {}
