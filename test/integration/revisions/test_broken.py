"""A revision that is unusable or barely readable is reported once and blocks nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from lws.kube.metadata import owner_reference
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL
from test.harness.events import events_of, wait_for_events
from test.harness.groups import labels_of, pod_uids, revisions_of, settle
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World

NAME = "web"
DEEP = '{"a":[' * 1500 + "1" + "]}" * 1500


def a_revision(world: World, name: str, number: int) -> dict[str, Any]:
    """Return another revision of the set with the key of the running one."""
    (running,) = revisions_of(world, NAME)
    key = labels_of(running)[REVISION_LABEL]
    metadata = {
        "name": name,
        "labels": {NAME_LABEL: NAME, REVISION_LABEL: key},
        "ownerReferences": [owner_reference(world.get(SET, NAME))],
    }
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": number,
    }
    return {**revision, "data": running["data"]}


def test_a_broken_revision_is_reported_once_and_blocks_nothing(world: World, product: Product) -> None:
    world.create(a_set(NAME, replicas=1))
    settle(world, NAME)
    before = pod_uids(world, NAME)
    broken = a_revision(world, "broken", 9)
    broken["data"]["spec"]["leaderWorkerTemplate"]["size"] = "two"
    # The API server stores such data byte for byte, and returns it in every list of revisions.
    raw = json.dumps({**a_revision(world, "raw", 8), "data": "DATA"})
    raw = raw.replace('"DATA"', f'{{"half a character":"\\ud800","deep":{DEEP}}}')
    world.create(broken)
    world.cluster.kubectl("create", "--raw", world.path("ControllerRevision"), "-f", "-", input=raw)
    events = wait_for_events(world, NAME, "BrokenRevision", 2)
    assert any(
        "broken: data.spec.leaderWorkerTemplate.size is 'two', not a whole number" in event.note
        for event in events
    )
    product.restart()
    world.patch(SET, NAME, {"spec": {"replicas": 2}})
    settle(world, NAME)
    now = pod_uids(world, NAME)
    assert {pod: now[pod] for pod in before} == before
    eventually(
        "each manager reports each broken revision once",
        lambda: [event.related for event in events_of(world, NAME) if event.reason == "BrokenRevision"],
        lambda related: Counter(related) == {"ControllerRevision broken": 2, "ControllerRevision raw": 2},
    )
