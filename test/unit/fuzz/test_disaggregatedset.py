"""Every review of a random DisaggregatedSet is answered, for valid sets and for sets with a few mistakes.

400 of each are drawn, the same ones in every run; HYPOTHESIS_PROFILE=nightly draws 10,000 others.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import os
from contextlib import closing
from typing import Any

from hypothesis import HealthCheck, given, settings

from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.spec import fault_of, parse
from lws.kube.field_errors import aggregate
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws_api.crds import defaulted, definitions
from lws_api.leaderworkerset import v1
from test.integration.fields.random_disaggregated import FIELDS, disaggregated_sets
from test.integration.fields.random_values import Schema
from test.unit.fuzz.validity import is_valid
from test.unit.stories.disaggregated_world import World

CHILD: Schema = definitions()[v1.KIND]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = settings(
    max_examples=10_000 if NIGHTLY else 400,
    derandomize=not NIGHTLY,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
MOST_PODS, MOST_ROUNDS = 40, 60


@EXAMPLES
@given(disaggregated_sets(), disaggregated_sets())
def test_every_review_is_answered(new: dict[str, Any], old: dict[str, Any]) -> None:
    before = copy.deepcopy((new, old))
    for previous, gang in itertools.product((None, old), (None, *PROVIDERS.values())):
        errors, warnings = errors_in(new, previous, [old]), warnings_in(new, previous, gang)
        assert all(json.dumps(warning) for warning in warnings)
        assert not errors or aggregate(errors)
    assert (new, old) == before
    assert errors_in(new, copy.deepcopy(new)) == []


@EXAMPLES
@given(disaggregated_sets())
def test_stored_sets_are_readable(raw: dict[str, Any]) -> None:
    stored = defaulted(raw)
    if is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) and not errors_in(stored):
        assert fault_of(stored) == ""
        parse(stored)


@EXAMPLES
@given(disaggregated_sets())
def test_every_child_of_a_stored_set_is_accepted(raw: dict[str, Any]) -> None:
    """So the admission of children never blocks a rollout."""
    stored = defaulted(raw)
    if not is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) or errors_in(stored):
        return
    stored["metadata"] |= {"namespace": "default", "uid": "u"}
    spec = parse(stored)
    for role in spec.roles:
        for replicas in {0, 1, role.replicas}:
            built = build_child(stored, role, spec.placement, (spec.slices - 1, "0" * 8), replicas)
            child = defaulted(built)
            default(child)
            assert is_valid(child["spec"], CHILD["properties"]["spec"])
            assert leaderworkerset.errors_in(child) == []


def accepted(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Return the set as stored under the name of the scenarios, or None if the API server rejects it."""
    stored = defaulted({**raw, "metadata": {"name": "demo", "namespace": "default"}})
    is_stored = is_valid(stored.get("spec"), FIELDS["properties"]["spec"]) and not errors_in(stored)
    return stored if is_stored else None


def pods_of(stored: dict[str, Any]) -> int:
    """Return the minimum number of pods of a set."""
    spec = stored["spec"]
    sizes = (
        role["spec"].get("replicas", 1) * role["spec"]["leaderWorkerTemplate"].get("size", 1)
        for role in spec["roles"]
    )
    return int(spec.get("slices", 1) * sum(sizes))


def outcome_of(world: World) -> str:
    """Return the reason why a set is not in its desired state, or "Available"."""
    holding = {kind for kind, status in world.conditions.items() if status == "True"}
    named = holding & {"Available", "ReplicaFailure", "Stalled"}
    return ", ".join(sorted(named)) or "; ".join(world.status.get("pending", ()))


@EXAMPLES
@given(disaggregated_sets())
def test_every_stored_set_settles_or_reports_why_not(raw: dict[str, Any]) -> None:
    stored = accepted(raw)
    if stored is None or pods_of(stored) > MOST_PODS:
        return
    if any(role["spec"].get("groupIdentity") == "Hash" for role in stored["spec"]["roles"]):
        # No Deployment controller acts in this world, so these groups never become ready.
        stored["spec"]["progressDeadlineSeconds"] = 60
    with closing(asyncio.new_event_loop()) as loop:
        world = World(loop)
        world.cluster.add({key: stored[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        for _ in range(MOST_ROUNDS):
            if not world.go_on() and not world.manager.ring():
                break
        assert outcome_of(world), (stored["spec"], world.status)
