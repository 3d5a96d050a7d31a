"""The output that README.md shows for a first set matches its manifest."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import errors_in
from lws.leaderworkerset.revisions.history import record
from lws_api.crds import defaulted

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_the_picture_shows_the_objects_of_the_first_set() -> None:
    (manifest,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    lws = defaulted(yaml.safe_load(manifest))
    default(lws)
    assert errors_in(lws) == []
    name, spec = lws["metadata"]["name"], lws["spec"]
    size = spec["leaderWorkerTemplate"]["size"]
    assert f"LeaderWorkerSet  {name}   replicas: {spec['replicas']}, size: {size}" in README
    assert re.findall(r"ControllerRevision +(\S+)", README) == [f"{name}-{record(lws).key}-1"]
    leaders = [f"{name}-{group}" for group in range(spec["replicas"])]
    workers = [f"{leader}-{worker}" for leader in leaders for worker in range(1, size)]
    assert sorted(re.findall(r"─ Pod +(\S+)", README)) == sorted(leaders + workers)
