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


def test_variables_precede_references_and_arguments_are_expanded(groups: Groups) -> None:
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
            assert [variable["name"] for variable in container["env"]][:4] == [*FIRST, "ENDPOINT"]
        for port in (8080, 8081):
            identity = given_to(pod, port)
            assert [identity.variables[key] for key in FIRST] == [address, "3", index]
            assert identity.variables["ENDPOINT"] == f"tcp://{address}:3"
            assert identity.variables["GROUP"] == leader.split("-")[1]
            assert (
                identity.variables["KEY"] == hashlib.sha1(f"{groups.namespace}/{leader}".encode()).hexdigest()
            )
            assert identity.variables["SIZE"] == "3"
            assert identity.arguments == (address, f"{index}/3")
            assert identity.hostname == name


def test_pods_resolve_each_other_and_their_leader_before_it_is_ready(groups: Groups) -> None:
    slow = member(readinessProbe={"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5})
    groups.apply(manifest("names", {"replicas": 2}, {"containers": [slow]}, size=3))
    pods = groups.ready("names", 6)
    for name, pod in pods.items():
        leader = pods["-".join(name.split("-")[:2])]
        identity = given_to(pod)
        if name.count("-") == 2:
            # The process resolved the name once, when it started.
            assert identity.resolved == {identity.variables["LWS_LEADER_ADDRESS"]: (address_of(leader),)}
        addresses = {host: addresses_of(pod, f"{host}.names") for host in pods}
        assert addresses == {host: [address_of(target)] for host, target in pods.items()}


def test_a_group_with_its_own_subdomain_resolves_only_its_pods(groups: Groups) -> None:
    network = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
    groups.apply(manifest("unique", {"replicas": 2, **network}, {"containers": [member()]}))
    pods = groups.ready("unique", 4)
    for name, pod in pods.items():
        leader = "-".join(name.split("-")[:2])
        assert given_to(pod).variables["LWS_LEADER_ADDRESS"] == f"{leader}.{leader}.{groups.namespace}"
        own = {host: address_of(it) for host, it in pods.items() if host.startswith(leader)}
        assert {host: addresses_of(pod, f"{host}.{leader}") for host in own} == {
            k: [v] for k, v in own.items()
        }
        (other_leader,) = {"unique-0", "unique-1"} - {leader}
        assert addresses_of(pod, f"{other_leader}-1.{leader}") == []


def test_a_process_receives_its_subgroup(groups: Groups) -> None:
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
    variables = {name: given_to(pod).variables for name, pod in groups.ready("parts", 5).items()}
    # The leader and the first worker are in one subgroup; with a leader, one subgroup has an extra pod.
    indices = {name: values["SUBGROUP_INDEX"] for name, values in variables.items()}
    assert indices == {"parts-0": "0", "parts-0-1": "0", "parts-0-2": "0", "parts-0-3": "1", "parts-0-4": "1"}
    assert {values["SUBGROUP_SIZE"] for values in variables.values()} == {"2"}
    keys = {
        index: {values["SUBGROUP_KEY"] for values in variables.values() if values["SUBGROUP_INDEX"] == index}
        for index in "01"
    }
    assert [len(group_keys) for group_keys in keys.values()] == [1, 1] and keys["0"] != keys["1"]
