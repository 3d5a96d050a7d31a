"""The identity that a process receives, read by a program in every container."""

from __future__ import annotations

import hashlib
from typing import Any

from test.node.groups import Groups, Pod, manifest, member
from tools.realnode.members import addresses_of, given_to

FIRST = ["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"]
LABEL = "leaderworkerset.sigs.k8s.io"


def label(name: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{LABEL}/{name}']"}}


def address_of(pod: Pod) -> str:
    return str(pod["status"]["podIP"])


def test_variables_come_before_those_that_refer_to_them_and_arguments_are_filled_in(groups: Groups) -> None:
    environment = [
        {"name": "ENDPOINT", "value": "tcp://$(LWS_LEADER_ADDRESS):$(LWS_GROUP_SIZE)"},
        {"name": "LWS_GROUP_SIZE", "value": "of the user"},
        {"name": "GROUP", "valueFrom": label("group-index")},
        {"name": "KEY", "valueFrom": label("group-key")},
        {"name": "SIZE", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{LABEL}/size']"}}},
    ]
    arguments = ["serve", "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)/$(LWS_GROUP_SIZE)"]
    second = {
        "name": "second",
        "env": [*environment, {"name": "MEMBER_PORT", "value": "8081"}],
        "args": arguments,
    }
    second["readinessProbe"] = {"tcpSocket": {"port": 8081}, "periodSeconds": 1}
    containers = [member(env=environment, args=arguments), member(**second)]
    groups.apply(manifest("seen", {"replicas": 2}, {"containers": containers}, size=3))
    pods = groups.ready("seen", 6)
    for name, pod in pods.items():
        leader, index = "-".join(name.split("-")[:2]), [*name.split("-"), "0"][2]
        address = f"{leader}.seen.{groups.namespace}"
        for container in pod["spec"]["containers"]:
            # The kubelet expands names of earlier variables, and passes all of them on in its own order.
            assert [each["name"] for each in container["env"]][:4] == [*FIRST, "ENDPOINT"]
        for port in (8080, 8081):
            given = given_to(pod, port)
            assert [given.variables[each] for each in FIRST] == [address, "3", index]
            assert given.variables["ENDPOINT"] == f"tcp://{address}:3"
            assert given.variables["GROUP"] == leader.split("-")[1]
            assert given.variables["KEY"] == hashlib.sha1(f"{groups.namespace}/{leader}".encode()).hexdigest()
            assert given.variables["SIZE"] == "3"
            assert given.arguments == (address, f"{index}/3")
            assert given.hostname == name


def test_a_worker_finds_its_leader_before_it_is_ready_and_everybody_finds_everybody(groups: Groups) -> None:
    slow = member(readinessProbe={"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5})
    groups.apply(manifest("names", {"replicas": 2}, {"containers": [slow]}, size=3))
    pods = groups.ready("names", 6)
    for name, pod in pods.items():
        leader = pods["-".join(name.split("-")[:2])]
        given = given_to(pod)
        if name.count("-") == 2:
            # The process resolved the name once, when it started.
            assert given.resolved == {given.variables["LWS_LEADER_ADDRESS"]: (address_of(leader),)}
        found = {other: addresses_of(pod, f"{other}.names") for other in pods}
        assert found == {other: [address_of(each)] for other, each in pods.items()}


def test_names_of_a_group_with_its_own_subdomain(groups: Groups) -> None:
    network = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
    groups.apply(manifest("unique", {"replicas": 2, **network}, {"containers": [member()]}))
    pods = groups.ready("unique", 4)
    for name, pod in pods.items():
        leader = "-".join(name.split("-")[:2])
        assert given_to(pod).variables["LWS_LEADER_ADDRESS"] == f"{leader}.{leader}.{groups.namespace}"
        own = {each: address_of(it) for each, it in pods.items() if each.startswith(leader)}
        assert {each: addresses_of(pod, f"{each}.{leader}") for each in own} == {
            k: [v] for k, v in own.items()
        }
        (other,) = {"unique-0", "unique-1"} - {leader}
        assert addresses_of(pod, f"{other}-1.{leader}") == []


def test_subgroups_as_a_process_learns_them(groups: Groups) -> None:
    names = ("subgroup-index", "subgroup-size", "subgroup-key")
    places = {names[0]: "labels", names[1]: "annotations", names[2]: "labels"}
    environment = [
        {
            "name": name.upper().replace("-", "_"),
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{places[name]}['{LABEL}/{name}']"}},
        }
        for name in names
    ]
    groups.apply(
        manifest(
            "parts",
            {"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupSize": 2}}},
            {"containers": [member(env=environment)]},
            size=5,
        )
    )
    given = {name: given_to(pod).variables for name, pod in groups.ready("parts", 5).items()}
    # The leader and the first worker are in one subgroup; with a leader, one subgroup has an extra pod.
    indices = {name: each["SUBGROUP_INDEX"] for name, each in given.items()}
    assert indices == {"parts-0": "0", "parts-0-1": "0", "parts-0-2": "0", "parts-0-3": "1", "parts-0-4": "1"}
    assert {each["SUBGROUP_SIZE"] for each in given.values()} == {"2"}
    keys = {
        index: {each["SUBGROUP_KEY"] for each in given.values() if each["SUBGROUP_INDEX"] == index}
        for index in "01"
    }
    assert [len(each) for each in keys.values()] == [1, 1] and keys["0"] != keys["1"]
