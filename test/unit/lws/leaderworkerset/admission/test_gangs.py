"""Tests of lws.leaderworkerset.admission.validation: valid sets whose groups cannot be placed as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws_api.leaderworkerset.placement import SHARED_TOPOLOGY_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_set

TIMEOUT = "scheduling.x-k8s.io/schedule-timeout-seconds"


def templates(leader: dict[str, Any] | None, worker: dict[str, Any]) -> dict[str, Any]:
    """Return a set whose pod specs have these fields."""
    main = [{"name": "main", "image": "app:1"}]
    template: dict[str, Any] = {"workerTemplate": {"spec": {"containers": main, **worker}}}
    if leader is not None:
        template["leaderTemplate"] = {"spec": {"containers": main, **leader}}
    return make_set(template=template)


READY = make_set(startupPolicy="LeaderReady")
EXCLUSIVE = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
GROUP = {"schedulingGroup": {"podGroupName": "mine"}}
ALL = tuple(PROVIDERS)


@pytest.mark.parametrize(
    ("raw", "providers", "expected"),
    [
        pytest.param(make_set(), ALL, [], id="all pods are created together"),
        pytest.param(READY, ALL, ["spec.startupPolicy: LeaderReady: workers do not exist"], id="LeaderReady"),
        pytest.param(
            EXCLUSIVE,
            ALL,
            ['exclusive-topology: "rack": workers do not exist before their leader has a node'],
            id="exclusive placement",
        ),
        pytest.param(
            make_set(annotations={SHARED_TOPOLOGY_ANNOTATION: "zone"}),
            ALL,
            ['shared-topology: "zone": workers do not exist before their leader has a node'],
            id="exclusive and shared topology",
        ),
        pytest.param(
            make_set(annotations={TIMEOUT: "two minutes"}),
            ("scheduler-plugins",),
            [f'{TIMEOUT}: "two minutes" is ignored: set a number of seconds'],
            id="invalid timeout",
        ),
        pytest.param(make_set(annotations={TIMEOUT: "120"}), ALL, [], id="valid timeout"),
        pytest.param(
            templates(GROUP, GROUP),
            ("kubernetes",),
            [
                "leaderTemplate.spec.schedulingGroup: these pods",
                "workerTemplate.spec.schedulingGroup: these pods",
            ],
            id="PodGroups of users",
        ),
        pytest.param(
            templates({}, {"schedulerName": "volcano"}),
            ALL,
            ['leaderTemplate "default-scheduler" and spec.leaderWorkerTemplate.workerTemplate "volcano": no'],
            id="two schedulers",
        ),
        pytest.param(
            templates({"schedulerName": "default-scheduler"}, {}), ALL, [], id="default scheduler by name"
        ),
        pytest.param(templates(None, {"schedulerName": "volcano"}), ALL, [], id="one template"),
    ],
)
def test_warnings(raw: dict[str, Any], providers: tuple[str, ...], expected: list[str]) -> None:
    assert errors_in(raw) == []
    without = warnings_in(raw)
    for name, provider in PROVIDERS.items():
        warnings = [warning for warning in warnings_in(raw, gang=provider) if warning not in without]
        expected_warnings = expected if name in providers else []
        assert len(warnings) == len(expected_warnings), warnings
        assert all(part in message for message, part in zip(warnings, expected_warnings, strict=True))
        scaled = {**raw, "spec": {**raw["spec"], "replicas": 9}}
        assert warnings_in(scaled, raw, provider) == [], "no warning is repeated"


def test_with_the_feature_gate_only_sets_with_the_field_are_gangs() -> None:
    gang = replace(PROVIDERS["kubernetes"], needs_field=True)
    assert warnings_in(READY, gang=gang) == []
    assert len(warnings_in(make_set(startupPolicy="LeaderReady", scheduling={}), gang=gang)) == 1
