"""Every request is answered in time, and the controller can run every object that is accepted.

2,000 random sets and pods and 1,000 DisaggregatedSets, drawn from the schemas of the committed CRDs, go
through API server and webhooks. They are the same in every run; with HYPOTHESIS_PROFILE=nightly there are ten
times as many, and different ones each time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lws.kube.pods import wait_for_node
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.disaggregatedset.v1 import KIND as DISAGGREGATED
from test.harness.groups import condition, name_of, pods_of, unsettled
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.fields.gate import Gate, sendable
from test.integration.fields.random_disaggregated import disaggregated_sets
from test.integration.fields.random_sets import good_sets, pods, sets
from tools.localcluster import ApiError

Object = dict[str, Any]

_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
_FACTOR = 10 if _NIGHTLY else 1
MOST_PODS, RUN, BATCH = 6, 60 * (3 if _NIGHTLY else 1), 20
STALLS_AFTER_SECONDS = 10
LONG_WAIT = timedelta(seconds=STALLS_AFTER_SECONDS)
STORED: dict[str, Object] = {
    "plain": a_set("plain", 0),
    "divided": a_set("divided", 0, 4, group={"subGroupPolicy": {"subGroupSize": 2}}),
}


def examples(count: int) -> Callable[[Any], Any]:
    """Return settings for the number of objects that a test sends."""
    return settings(
        max_examples=count * _FACTOR,
        derandomize=not _NIGHTLY,
        database=None,
        deadline=None,
        # The explain phase compares executed lines, but the code under test runs in another process.
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def answers() -> Counter[str]:
    """Counts of answers in all tests of this file."""
    return Counter()


@pytest.fixture
def gate(world: World, answers: Counter[str]) -> Gate:
    """A namespace in which only two empty sets are stored."""
    for manifest in STORED.values():
        world.create(manifest)
    return Gate(world, answers)


@pytest.fixture(autouse=True)
def _nothing_crashes(product: Product) -> Iterator[None]:
    """Check that neither the process, nor a review, nor a pass crashes."""
    pid, before = product.manager.pid, len(product.log())
    yield
    assert (product.manager.is_running, product.manager.pid) == (True, pid)
    lines = product.log()[before:].splitlines()
    assert [line for line in lines if "this is a bug" in line or "review at" in line] == []


@examples(1_200)
@given(manifest=sets())
def test_sets_are_rejected_or_can_be_planned(gate: Gate, manifest: Object) -> None:
    stored = gate.create(manifest, SET)
    if stored is None:
        return
    again = gate.create(sendable(stored), SET)
    assert again is not None, "the stored object is rejected"
    assert sendable(again) == sendable(stored)
    plan(SetSnapshot(lws=stored, now=datetime.now(UTC)))


@examples(400)
@given(name=st.sampled_from(sorted(STORED)), manifest=sets())
def test_updates_are_refused_or_stable(gate: Gate, name: str, manifest: Object) -> None:
    before = gate.world.get(SET, name)
    metadata = {**before["metadata"], "annotations": manifest["metadata"].get("annotations", {})}
    stored = gate.replace({**before, "spec": manifest["spec"], "metadata": metadata}, SET)
    if stored is not None:
        again = gate.replace({**stored, "metadata": metadata}, SET)
        assert again is not None, "the stored object is rejected"
        assert again["spec"] == stored["spec"]


@examples(400)
@given(manifest=pods())
def test_pods_are_rejected_or_get_their_identity(gate: Gate, manifest: Object) -> None:
    stored = gate.create(manifest, "Pod")
    if stored is not None:
        again = gate.create(sendable(stored), "Pod")
        assert again is not None, "the stored object is rejected"
        assert sendable(again) == sendable(stored)


@examples(1_000)
@given(manifest=disaggregated_sets())
def test_disaggregated_sets_are_refused_or_stable(gate: Gate, manifest: Object) -> None:
    stored = gate.create(manifest, DISAGGREGATED)
    if stored is not None:
        again = gate.create(sendable(stored), DISAGGREGATED)
        assert again is not None, "the stored object is rejected"
        assert sendable(again) == sendable(stored)


def test_both_verdicts_occurred(answers: Counter[str]) -> None:
    """Otherwise the properties above would have shown little."""
    if not answers:
        pytest.skip("needs the answers to the objects above")
    assert min(answers["accepted"], answers["refused"]) > 0.1 * answers.total(), answers


def test_accepted_sets_become_ready_or_report_a_reason(world: World) -> None:
    drawn, complaints = _candidates(), dict[str, str]()
    for first in range(0, RUN, BATCH):
        names: list[str] = []
        while len(names) < BATCH:
            name = f"run-{first + len(names)}"
            if _is_created(world, drawn.pop(), name):
                names.append(name)
        _wait_for_words(world, names)
        complaints |= {name: _complaint(world, name) for name in names}
        world.kubectl("delete", "lws", "--all", "--wait=false")
        eventually("all pods are gone", lambda: _mortal_pods(world), lambda pods: not pods, seconds=300)
    wrong = {name: why for name, why in complaints.items() if why}
    print(*(f"{name}: {why}" for name, why in wrong.items()), sep="\n")
    # On a busy machine, some correct sets have been stalled temporarily.
    assert 0 < len(wrong) < RUN, "either all sets or none report a problem"


def _mortal_pods(world: World) -> list[str]:
    """Return the pods without finalizers from their template, which would never be removed."""
    return [name_of(pod) for pod in world.list("Pod") if not pod["metadata"].get("finalizers")]


def _candidates() -> list[Object]:
    """Return small sets, half of them with a fault."""
    manifests: dict[str, Object] = {}

    # Not every one is small, and not every small one is accepted.
    @settings(examples(RUN * 5 // _FACTOR), phases=(Phase.generate,))
    @given(manifest=good_sets() | sets())
    def draw(manifest: Object) -> None:
        if _is_small(manifest["spec"]):
            manifests[json.dumps(manifest, sort_keys=True)] = manifest

    draw()
    return list(manifests.values())


def _is_small(spec: Any) -> bool:
    template = spec.get("leaderWorkerTemplate") if isinstance(spec, dict) else None
    counts = (spec.get("replicas", 1), template.get("size", 1)) if isinstance(template, dict) else ()
    return (
        len(counts) == 2
        and all(type(count) is int and 0 < count <= MOST_PODS for count in counts)
        and (counts[0] * counts[1] <= MOST_PODS)
    )


def _is_created(world: World, manifest: Object, name: str) -> bool:
    annotations = manifest["metadata"].get("annotations") or {}
    spec = {**manifest["spec"], "progressDeadlineSeconds": STALLS_AFTER_SECONDS}
    # A paused rollout waits for its user, and never counts as stalled.
    strategy = spec.get("rolloutStrategy")
    if isinstance(strategy, dict):
        spec["rolloutStrategy"] = {key: value for key, value in strategy.items() if key != "paused"}
    try:
        world.create({**manifest, "metadata": {"name": name, "annotations": annotations}, "spec": spec})
    except ApiError:
        return False
    return True


def _wait_for_words(world: World, names: list[str]) -> None:
    def silent() -> dict[str, str]:
        reasons = {name: unsettled(world, name) for name in names if not _complaint(world, name)}
        return {name: why for name, why in reasons.items() if why}

    eventually("each set is settled or reports a reason", silent, lambda reasons: not reasons, seconds=600)


def _complaint(world: World, name: str) -> str:
    """Return the problems that conditions report; for unschedulable pods, the scheduler's message."""
    conditions = (condition(world.get(SET, name), kind) for kind in ("ReplicaFailure", "Stalled"))
    messages = [str(entry["message"]) for entry in conditions if entry.get("status") == "True"]
    for pod in pods_of(world, name):
        wait = wait_for_node(pod)
        is_left = wait is not None and wait.until is None and datetime.now(UTC) - wait.since > LONG_WAIT
        messages += [str(condition(pod, "PodScheduled").get("message"))] if is_left else []
    return "; ".join(messages)
