"""Distributed engines of other projects answer requests, also during a rollout of their groups.

They are configured as docs/tasks/serving.md describes.
"""

from __future__ import annotations

import pytest

from test.harness.waiting import eventually
from test.node.clients import Client, running_client
from test.node.distributed import ENGINES, LABEL, PORT, Engine, keys
from test.node.groups import SECONDS, Groups, Pod
from test.node.managers import get
from tools.engines import NAME, TAG

REVISION = f"{LABEL}/template-revision-hash"
NEXT = f"{TAG}-next"


@pytest.mark.parametrize("engine", ENGINES, ids=[engine.name for engine in ENGINES])
def test_a_rollout_of_an_engine_loses_no_answer(groups: Groups, engine: Engine) -> None:
    groups.cluster.ctr("images", "tag", "--force", f"{NAME}:{TAG}", f"{NAME}:{NEXT}")
    groups.apply(keys(), *engine.objects(TAG))
    before = groups.ready(engine.name, engine.replicas * engine.size)
    service = get(groups.cluster, "service", engine.service, "-n", groups.namespace)
    address = f"{service['spec']['clusterIP']}:{PORT}"
    eventually("the engine answers", lambda: _answered(address), seconds=SECONDS)

    with running_client(address) as client:
        groups.apply(*engine.objects(NEXT))
        after = groups.recreated(engine.name, before)
    print(engine.name, len(client.answers), "answers,", len(client.lost), "lost; slowest", client.slowest)
    assert client.lost == []
    assert {answer.get("total") for answer in client.answers} == {engine.total}
    # All answers came from whole groups, old ones and new ones.
    answering = {(answer["revision"], tuple(sorted(answer["hosts"]))) for answer in client.answers}
    assert {revision for revision, _ in answering} == {_revision(before), _revision(after)}
    for _, hosts in answering:
        leader = hosts[0]
        assert hosts == (leader, *(f"{leader}-{index}" for index in range(1, engine.size)))


def _answered(address: str) -> bool:
    client = Client()
    client.once(address)
    return not client.lost


def _revision(pods: dict[str, Pod]) -> str:
    (key,) = {pod["metadata"]["labels"][REVISION] for pod in pods.values()}
    return str(key)
