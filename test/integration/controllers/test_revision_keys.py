"""Revision keys equal those of every earlier release of upstream.

They are compared with labels of running pods, so a different key would restart every group.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import API_VERSION, KIND, REVISION_LABEL
from test.harness.groups import labels_of, name_of, revisions_of
from test.harness.waiting import eventually
from test.harness.world import World

VECTORS: dict[str, dict[str, Any]] = {
    "58b6956df9": {
        "size": 1,
        "restartPolicy": "None",
        "workerTemplate": {"spec": {"containers": [{"name": "c", "image": "a:1"}]}},
    },
    "6b44f4458c": {
        "size": 2,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "workerTemplate": {
            "metadata": {"labels": {"app": "w"}},
            "spec": {
                "nodeName": "n1",
                "containers": [
                    {
                        "name": "main",
                        "image": "img:1",
                        "args": ["--a=<b>&c"],
                        "env": [{"name": "LWS_GROUP_SIZE", "value": "user"}, {"name": "X", "value": "1"}],
                        "resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}},
                    }
                ],
            },
        },
    },
}


@pytest.mark.parametrize("key", VECTORS)
def test_revision_keys_equal_those_of_upstream(shared_world: World, key: str) -> None:
    """A set without groups has a revision too, which is enough here."""
    name = f"vector-{key}"
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"replicas": 0, "leaderWorkerTemplate": VECTORS[key]},
    }
    shared_world.kubectl("apply", "-f", "-", input=manifest)
    (revision,) = eventually("a revision exists", lambda: revisions_of(shared_world, name))
    assert (name_of(revision), labels_of(revision)[REVISION_LABEL]) == (f"{name}-{key}-1", key)
