"""lws.cli.histories: a set with all its objects, and suggestions if no set has the name."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from lws.cli.commands.plan import recreated
from lws.cli.histories import all_of, leaders_of
from lws.cli.impact import impact, impact_lines
from lws.cli.session import Refusal
from lws.cli.sets import NamedSet, find
from lws.cli.states import report_on
from lws.kube.conditions import timestamp
from lws.leaderworkerset.revisions.history import record
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_group, make_leader_statefulset, make_set, make_worker_pod
from test.unit.fake_api import Answer, answer_json, failure, plain
from test.unit.lws.cli.conftest import Talk
from test.unit.lws.cli.histories import revision_of

BROKEN = make_set(namespace="team", replicas="two")
NOT_THERE = failure(404, "NotFound", 'leaderworkersets.leaderworkerset.x-k8s.io "demo" not found')


def listed(*objects: dict[str, Any]) -> Any:
    """Return a page as the API server sends it, with items without kind and apiVersion."""
    items = [{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} for obj in objects]
    return answer_json({"items": items, "metadata": {}})


def named(*names: str) -> Any:
    return listed(*({"metadata": {"name": name}} for name in names))


@pytest.mark.parametrize(
    ("name", "existing", "message"),
    [
        ("dmeo", ["demo", "other"], '"dmeo" not found in namespace "team"; did you mean demo?'),
        ("x", ["demo", "other"], '"x" not found in namespace "team"; there is demo, other'),
        ("x", [], '"x" not found in namespace "team": there is none; choose another namespace with -n'),
        ("x", [f"set{i:02}" for i in range(12)], "set08, set09, …"),
    ],
)
async def test_an_unknown_name(talk: Talk, name: str, existing: list[str], message: str) -> None:
    talk.api.will(NOT_THERE, named(*existing))
    with pytest.raises(Refusal) as refusal:
        await find(talk.session, NamedSet(name))
    assert refusal.value.message.endswith(message)
    assert refusal.value.opening == "Error from server (NotFound)"
    assert refusal.value.message.startswith("leaderworkersets.leaderworkerset.x-k8s.io ")


async def test_a_cluster_without_the_kind(talk: Talk) -> None:
    talk.api.will(plain(404, "404 page not found"), plain(404, "404 page not found"))
    with pytest.raises(Refusal, match='doesn\'t have a resource type "leaderworkersets": install the chart'):
        await find(talk.session, NamedSet("demo"))


def world(*objects: dict[str, Any]) -> Answer:
    """Answer every request from these objects: lists by kind, single objects by name."""

    async def answer(request: web.Request) -> web.StreamResponse:
        *_, plural, name = f"{request.path}/".split("/namespaces/team/")[1].split("/")[:2]
        matching = [obj for obj in objects if f"{obj['kind'].lower()}s" == plural]
        if not name:
            return await listed(*matching)(request)
        same_name = [obj for obj in matching if obj["metadata"]["name"] == name]
        return await (answer_json(same_name[0]) if same_name else failure(404, "NotFound"))(request)

    return answer


async def test_the_history_of_a_set(talk: Talk) -> None:
    lws = make_set(namespace="team")
    lws["metadata"]["managedFields"] = [{"manager": "flux"}]
    key = record(lws).key
    group, leader = make_group(lws, 0, key=key), make_leader_statefulset(lws, key=key)
    respond = world(
        lws, revision_of(lws, 1), leader, dict(group.worker_statefulset or {}), dict(group.leader)
    )
    talk.api.will(*[respond] * 20)
    facts = await leaders_of(talk.session, await find(talk.session, NamedSet("demo")))
    assert [revision.number for revision in facts.snapshot.revisions] == [1]
    assert [group.index for group in facts.snapshot.groups] == [0]
    assert (facts.groups, list(facts.pods)) == ({}, ["demo-0"])
    assert facts.lws == lws, "the set is complete: undo reads its managed fields"
    lists = [request for request in talk.api.requests if "labelSelector" in request.query]
    assert [request.path.rpartition("/")[2] for request in lists] == [
        "controllerrevisions",
        "statefulsets",
        "pods",
    ]
    # The thousands of other workers are not needed here.
    assert lists[2].query["labelSelector"].endswith(",leaderworkerset.sigs.k8s.io/worker-index=0")


async def test_all_objects_of_a_set(talk: Talk) -> None:
    lws = make_set(namespace="team")
    key = record(lws).key
    group, leader = make_group(lws, 0, key=key), make_leader_statefulset(lws, key=key)
    assert group.worker_statefulset is not None
    worker = make_worker_pod(dict(group.worker_statefulset))
    respond = world(
        lws, revision_of(lws, 1), leader, dict(group.worker_statefulset), dict(group.leader), worker
    )
    talk.api.will(*[respond] * 20)
    facts = await all_of(talk.session, lws)
    assert sorted(facts.pods) == ["demo-0", "demo-0-1"]
    assert [pod["metadata"]["name"] for pod in facts.groups[0].worker_pods] == ["demo-0-1"]
    assert facts.groups[0].revision is not None


async def test_progress_of_prewarming_is_what_the_status_records(talk: Talk) -> None:
    old, lws = (make_set(namespace="team", replicas=1, image=image) for image in ("app:1", "app:2"))
    lws["spec"]["rolloutStrategy"]["prewarm"] = {}
    lws["spec"]["progressDeadlineSeconds"] = 60
    revisions = [revision_of(old, 1), revision_of(lws, 2)]
    key, target = record(old).key, revisions[1]["metadata"]["name"]
    began = {"revision": target, "startTime": timestamp(talk.session.now), "nodes": 6, "ended": 2}
    lws["status"] = {"observedGeneration": 1, "updateRevision": target, "prewarm": began}
    group = make_group(old, 0, key=key)
    respond = world(
        lws,
        *revisions,
        make_leader_statefulset(old, key=key),
        dict(group.worker_statefulset or {}),
        dict(group.leader),
    )
    talk.api.will(*[respond] * 20)
    report = report_on(await all_of(talk.session, lws))
    assert report.waiting_for.startswith("images on the nodes of outdated groups: 2 of 6 nodes done")
    assert report.deadline is None, "no deadline applies meanwhile"


async def test_node_information_is_unknown_without_permission(talk: Talk) -> None:
    """Exclusive placement depends on the leader's node, which the ClusterRole view cannot read."""
    message = 'nodes "node-1" is forbidden: User "reader" cannot get resource "nodes"'
    lws = make_set(namespace="team", replicas=1)
    lws["metadata"]["annotations"] = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
    key = record(lws).key
    group, leader = make_group(lws, 0, key=key, ready=False), make_leader_statefulset(lws, key=key)
    pod = dict(group.leader)
    pod["spec"] = {**pod["spec"], "nodeName": "node-1"}
    respond = world(lws, revision_of(lws, 1), leader, pod)

    async def answer(request: web.Request) -> web.StreamResponse:
        is_node = request.path == "/api/v1/nodes/node-1"
        return await (failure(403, "Forbidden", message) if is_node else respond)(request)

    talk.api.will(*[answer] * 40)
    facts = await all_of(talk.session, lws)
    assert (facts.groups, facts.unknown) == ({}, {0: message})
    report = report_on(facts)
    assert report.groups[0].why.endswith(f"what it waits for is unknown: {message}")
    effect = impact(facts.snapshot, lws, recreated(facts.groups, lws), facts.unknown)
    assert [line.text for line in impact_lines(effect)] == [
        "no pod is restarted, as far as is known",
        f"  whether group 0 is recreated at once is unknown: {message}",
    ]


async def test_an_invalid_stored_set_is_reported(talk: Talk) -> None:
    talk.api.will(world(BROKEN))
    message = r"set demo cannot be read: spec.replicas is 'two'"
    with pytest.raises(Refusal, match=message):
        await find(talk.session, NamedSet("demo"))
    with pytest.raises(Refusal, match=message):
        await all_of(talk.session, BROKEN)


async def test_an_unreadable_status_field_becomes_null(talk: Talk) -> None:
    lws = make_set(namespace="team", status={"conditions": "text", "replicas": 2})
    talk.api.will(*[world(lws)] * 20)
    assert (await find(talk.session, NamedSet("demo")))["status"] == {"conditions": None, "replicas": 2}
