"""Tests of lws.leaderworkerset.admission.validation: invalid Services of leaders."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, leader_service_errors
from test.unit.lws.leaderworkerset.admission.test_validation import make_set

PORTS = "spec.leaderService.ports"
NAMED = {"name": "http", "port": 80}


def a_set(service: Any, *declared: int) -> dict[str, Any]:
    raw = make_set()
    raw["spec"]["leaderService"] = service
    ports = [{"containerPort": number} for number in declared]
    raw["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["ports"] = ports
    return raw


def with_ports(*ports: Any) -> dict[str, Any]:
    return a_set({"ports": list(ports)})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(a_set(None), [], id="no leaderService"),
        pytest.param(a_set({}, 80), [], id="declared ports"),
        pytest.param(with_ports({"port": 80}), [], id="one port needs no name"),
        pytest.param(with_ports(NAMED, {"name": "grpc", "port": 81, "targetPort": "grpc"}), [], id="two"),
        pytest.param(
            with_ports(NAMED, {**NAMED, "name": "udp", "protocol": "UDP"}), [], id="one number, two protocols"
        ),
        pytest.param(
            a_set({}),
            [
                f"{PORTS}: Required value: no container of the leader template declares a port: set "
                f"the ports of the Service"
            ],
            id="no declared ports",
        ),
        pytest.param(
            with_ports(NAMED, {"port": 81}),
            [f"{PORTS}[1].name: Required value: required for several ports"],
            id="two ports, one without a name",
        ),
        pytest.param(
            with_ports(NAMED, {**NAMED, "port": 81}),
            [f'{PORTS}[1].name: Invalid value: "http": is the name of another port: choose one for each'],
            id="duplicate name",
        ),
        pytest.param(
            with_ports(NAMED, {"name": "again", "port": 80, "protocol": "TCP"}),
            [f"{PORTS}[1].port: Invalid value: 80: duplicate port"],
            id="duplicate number",
        ),
        pytest.param(
            with_ports({"name": "H", "port": 80}),
            [f'{PORTS}[0].name: Invalid value: "H": a lowercase RFC 1123 label'],
            id="invalid name",
        ),
        pytest.param(
            with_ports(
                {"port": 80, "targetPort": "not a port"},
            ),
            [f'{PORTS}[0].targetPort: Invalid value: "not a port": must be a number from 1 to 65535'],
            id="invalid targetPort",
        ),
        pytest.param(
            with_ports({"port": 80, "targetPort": 0}),
            [f"{PORTS}[0].targetPort: Invalid value: 0: must be a number"],
            id="target 0",
        ),
        pytest.param(
            a_set("x"), ['spec.leaderService: Invalid value: "x": must be an object'], id="not an object"
        ),
    ],
)
def test_ports(raw: dict[str, Any], expected: list[str]) -> None:
    errors = [str(error) for error in errors_in(raw)]
    assert len(errors) == len(expected)
    assert all(message.startswith(part) for message, part in zip(errors, expected, strict=True))


@pytest.mark.parametrize("containers", [True, 7, {"a": 1}, [None]])
def test_invalid_containers_declare_no_port(containers: Any) -> None:
    """A set that an older definition accepted is validated before it is changed."""
    raw = a_set({})
    raw["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"] = containers
    assert [error.path for error in leader_service_errors(raw)] == [PORTS]


def test_stored_ports_of_the_wrong_type_cause_no_error() -> None:
    raw = with_ports({"name": ["a"], "port": {}, "protocol": []}, {"name": ["a"], "port": {}, "protocol": []})
    assert [error.path for error in leader_service_errors(raw)]
