"""Answers: what does the manifest that the demo applies ask for?

In: its text. Out: the few facts that the tour builds on. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import yaml

_READY_AFTER = "localcluster/ready-after"
_IMAGE_PATH = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A set of groups that are all made from one template, updated one at a time.

    container: the name of the first container. image: its image.
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
    """The LeaderWorkerSet of a manifest. Raises KeyError when it asks for less than the tour needs."""
    found = yaml.safe_load(text)
    template = found["spec"]["leaderWorkerTemplate"]
    container = template["workerTemplate"]["spec"]["containers"][0]
    return Manifest(
        name=found["metadata"]["name"],
        replicas=found["spec"]["replicas"],
        size=template["size"],
        container=container["name"],
        image=container["image"],
    )


def slowly_starting(text: str, start_time: str) -> str:
    """The manifest with pods that simulated nodes need some time to start, such as "2s": more to see."""
    found = yaml.safe_load(text)
    metadata = found["spec"]["leaderWorkerTemplate"]["workerTemplate"].setdefault("metadata", {})
    metadata.setdefault("annotations", {})[_READY_AFTER] = start_time
    return yaml.safe_dump(found, sort_keys=False)


def with_tag(image: str, tag: str) -> str:
    """The same image under another tag."""
    repository, _, _ = image.rpartition(":")
    return f"{repository}:{tag}"


def image_patch(image: str) -> str:
    """The JSON patch that gives every pod of the set this image."""
    return json.dumps([{"op": "replace", "path": _IMAGE_PATH, "value": image}])
