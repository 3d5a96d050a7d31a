from __future__ import annotations

import json

import pytest
import yaml

from tools.demo.play import image_patch, read_manifest, slowly_starting, with_tag
from tools.demo.tour import MANIFEST, MORE_GROUPS, NEW_TAG, VICTIM_GROUP, VICTIM_INDEX

TEXT = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a}
spec:
  replicas: 3
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers: [{name: worker, image: "example.com:5000/pause:1"}]
"""


def test_fields_of_a_manifest() -> None:
    manifest = read_manifest(TEXT)
    assert (manifest.name, manifest.replicas, manifest.size, manifest.pods) == ("a", 3, 2, 6)
    assert (manifest.container, manifest.image) == ("worker", "example.com:5000/pause:1")


def test_an_incomplete_manifest_is_rejected() -> None:
    with pytest.raises(KeyError):
        read_manifest(TEXT.replace("replicas: 3", ""))


def test_the_example_meets_the_requirements_of_the_tour() -> None:
    manifest = read_manifest(MANIFEST.read_text())
    assert VICTIM_GROUP < manifest.replicas < MORE_GROUPS
    assert 0 < VICTIM_INDEX < manifest.size
    assert with_tag(manifest.image, NEW_TAG) != manifest.image
    update = yaml.safe_load(MANIFEST.read_text())["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert update["maxUnavailable"] == 1 and not update.get("maxSurge")


def test_the_patch_only_slows_the_start_of_pods() -> None:
    slow, plain = yaml.safe_load(slowly_starting(TEXT, "2s")), yaml.safe_load(TEXT)
    template = slow["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert template.pop("metadata") == {"annotations": {"localcluster/ready-after": "2s"}}
    assert slow == plain


def test_annotations_of_the_manifest_are_kept() -> None:
    text = TEXT.replace("      spec:\n", "      metadata: {annotations: {a: b}}\n      spec:\n")
    template = yaml.safe_load(slowly_starting(text, "2s"))["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert template["metadata"]["annotations"] == {"a": "b", "localcluster/ready-after": "2s"}


def test_a_port_is_not_a_tag() -> None:
    assert with_tag("example.com:5000/pause:1", "2") == "example.com:5000/pause:2"


def test_the_patch_changes_only_the_image() -> None:
    (operation,) = json.loads(image_patch("a:2"))
    assert operation["op"] == "replace" and operation["value"] == "a:2"
    value = yaml.safe_load(TEXT)
    *path, last = operation["path"].strip("/").split("/")
    for step in path:
        value = value[int(step) if step.isdigit() else step]
    assert value[last] == "example.com:5000/pause:1"
