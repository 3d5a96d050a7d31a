from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import LEADER_ADDRESS_ENV, WORKER_INDEX_ENV
from test.unit.tools.demo.objects import (
    NAME,
    SET_UID,
    make_children,
    make_group,
    make_pod,
    make_revision,
    make_service,
    make_set,
    make_view,
)
from tools.demo.check import Check
from tools.demo.facts import SetFacts, View, set_of
from tools.demo.structure import verify_environment, verify_objects, verify_pods, verify_status

WANTED = set_of(make_set())
GROUPS = [pod for index in range(4) for pod in make_group(index)]


def environment(view: View, facts: SetFacts) -> list[Check]:
    return verify_environment(view, facts, "default")


def status(view: View, facts: SetFacts) -> list[Check]:
    return verify_status(facts)


@pytest.mark.parametrize("verify", [verify_pods, environment, verify_objects, status])
def test_a_correct_set_passes_all_checks(verify: Callable[[View, SetFacts], list[Check]]) -> None:
    checks = verify(make_view(), WANTED)
    assert checks and all(check.held for check in checks), checks


def test_claims_contain_numbers() -> None:
    claims = [
        check.claim
        for verify in (verify_pods, environment, verify_objects, status)
        for check in verify(make_view(), WANTED)
    ]
    assert claims[:3] == [
        "16 pods are ready: 4 leaders and 12 workers",
        f"12 worker pods carry LWS_LEADER_ADDRESS of their own leader, {NAME}-0-1: {NAME}-0.{NAME}.default",
        "16 pods carry LWS_GROUP_SIZE=4 and LWS_WORKER_INDEX as in their name",
    ]
    assert f"all 16 pods carry one revision key, which ControllerRevision {NAME}-old-1 records" in claims


def replaced(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [pod if member["metadata"]["name"] == pod["metadata"]["name"] else member for member in GROUPS]


@pytest.mark.parametrize(
    ("verify", "view", "actual"),
    [
        pytest.param(verify_pods, make_view(GROUPS[1:]), f"15, without {NAME}-0", id="a pod is missing"),
        pytest.param(
            verify_pods,
            make_view(replaced(make_pod(1, 2, ready=False))),
            f"15, without {NAME}-1-2",
            id="a pod is not ready",
        ),
        pytest.param(verify_pods, make_view([*GROUPS, make_pod(4, 0)]), f"17, with {NAME}-4", id="too many"),
        pytest.param(
            environment,
            make_view(replaced(make_pod(1, 2, environment={LEADER_ADDRESS_ENV: "nowhere"}))),
            f"not so: {NAME}-1-2 has nowhere",
            id="a worker with another address",
        ),
        pytest.param(
            environment,
            make_view(replaced(make_pod(1, 2, environment={WORKER_INDEX_ENV: "3"}))),
            f"not so: {NAME}-1-2 has 4 and 3",
            id="a worker with another index",
        ),
        pytest.param(
            verify_objects,
            make_view(GROUPS, statefulsets=make_children(GROUPS)[1:]),
            f"4, without {NAME} owned by {SET_UID}",
            id="no StatefulSet of leaders",
        ),
        pytest.param(
            verify_objects, make_view(services=[]), f"0, without {NAME}: publishNotReady", id="no Service"
        ),
        pytest.param(
            verify_objects,
            make_view(services=[{**make_service(), "spec": {"clusterIP": "None"}}]),
            f"1, without {NAME}: publishNotReadyAddresses True, with {NAME}: publishNotReadyAddresses False",
            id="a Service without addresses of unready pods",
        ),
        pytest.param(
            verify_objects,
            make_view(revisions=[make_revision("old", owner="a StatefulSet")]),
            "['old']",
            id="only a StatefulSet has recorded the revision",
        ),
        pytest.param(
            verify_objects,
            make_view(replaced(make_pod(3, 0, uid=f"{NAME}-3-0-uid", revision="new"))),
            "['new', 'old']",
            id="two revisions",
        ),
    ],
)
def test_each_error_fails_a_check(
    verify: Callable[[View, SetFacts], list[Check]], view: View, actual: str
) -> None:
    failed = [check for check in verify(view, WANTED) if not check.held]
    assert len(failed) == 1
    assert failed[0].actual.startswith(actual)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"readyReplicas": 3}, id="fewer ready"),
        pytest.param({"updatedReplicas": 3}, id="fewer up to date"),
        pytest.param({"true": ["Progressing"]}, id="not Available"),
        pytest.param({"observedGeneration": 0}, id="about an older spec"),
    ],
)
def test_a_different_status_fails_the_check(status: dict[str, Any]) -> None:
    (check,) = verify_status(set_of(make_set(**status)))
    assert not check.held
