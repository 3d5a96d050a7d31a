"""The CRD of an earlier release is still installed, and drops every field that was added since.

Then defaults apply, and no pass repeats a write whose fields the API server drops.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import KIND
from test.harness.audit import AuditLog
from test.harness.groups import images_of, name_of, revisions_of, settle
from test.harness.manifests import a_set, new_image, rolling
from test.harness.quiet import let_time_pass, wait_until_quiet, writes
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ClusterAccess

pytestmark = pytest.mark.local_only

Object = dict[str, Any]

NAME = "web"
# Upstream's API.
KNOWN = {
    "spec": {"leaderWorkerTemplate", "networkConfig", "replicas", "rolloutStrategy", "startupPolicy"},
    "rolloutStrategy": {"type", "rollingUpdateConfiguration"},
    "status": {
        "conditions",
        "hpaPodSelector",
        "observedGeneration",
        "readyReplicas",
        "replicas",
        "updatedReplicas",
    },
}


@pytest.fixture
def old_definition(world: World, cluster: ClusterAccess) -> Iterator[None]:
    """Install a CRD that has only these fields, until the end of the test."""
    replace(cluster, former(definitions()[KIND]))
    try:
        eventually("new fields are dropped", lambda: keeps(world), lambda is_kept: not is_kept)
        yield
    finally:
        replace(cluster, definitions()[KIND])
        eventually("new fields are kept again", lambda: keeps(world))


def former(definition: Object) -> Object:
    result = copy.deepcopy(definition)
    for version in result["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        strategy = properties["spec"]["properties"]["rolloutStrategy"]
        for name, part in {**properties, "rolloutStrategy": strategy}.items():
            if name in KNOWN:
                part["properties"] = {key: part["properties"][key] for key in KNOWN[name]}
    return result


def replace(cluster: ClusterAccess, definition: Object) -> None:
    arguments = ("apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-")
    cluster.kubectl(*arguments, input=json.dumps(definition))


def keeps(world: World) -> bool:
    """Report whether the API server stores a field that earlier releases do not have."""
    manifest = a_set("probe", revisionHistoryLimit=3)
    path = f"{world.path(SET)}?dryRun=All"
    return "revisionHistoryLimit" in world.api.create(path, manifest)["spec"]


def test_defaults_apply_and_dropped_fields_are_not_written_again(
    old_definition: None, world: World, audit: AuditLog
) -> None:
    # A client that knows the new fields sends them.
    world.create(a_set(NAME, revisionHistoryLimit=0, rolloutStrategy={**rolling(), "paused": True}))
    settle(world, NAME)
    for number in (2, 3):
        world.patch(SET, NAME, new_image(f"server:{number}"))
        settle(world, NAME)
    assert images_of(world, NAME) == {0: {"server:3"}, 1: {"server:3"}}
    assert len(revisions_of(world, NAME)) == 3, "the default limit applies"
    assert world.get(SET, NAME)["status"].keys() == KNOWN["status"]

    wait_until_quiet(world, audit)
    (newest, *_) = reversed(revisions_of(world, NAME))
    for number in range(10):
        # Each change triggers a pass over the set, which finds its own fields missing.
        note = {"metadata": {"annotations": {"example.com/note": f"{number}"}}}
        world.patch("ControllerRevision", name_of(newest), note)
    let_time_pass(audit)
    assert writes(world, audit) == []
