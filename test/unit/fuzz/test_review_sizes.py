"""A review costs little, and has a proper answer, however large a stranger makes the object."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import random
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import kopf
import pytest

from lws.config import load
from lws.disaggregatedset import registration as of_disaggregated_sets
from lws.leaderworkerset import registration as of_sets
from lws.leaderworkerset.admission.pod import MOST_CONTAINERS
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.store import Store
from lws.runtime.webhooks.handlers import register
from lws.runtime.webhooks.server import MAX_BODY_BYTES, MOST_VALUES, BadReview, Dispatcher, reviewed
from lws_api.config.v1alpha1 import GangSchedulingManagement
from test.unit.fuzz import sizes
from test.unit.fuzz.sizes import ROOM, VALUES, Grow
from test.unit.fuzz.sizes import Path as Where

MOST_SECONDS, MOST_MIB = 1.0, 200
"""The most that a review may cost, on a machine of the reference speed."""

_REFERENCE_SECONDS = 0.045
"""CPU time of `_work` on the reference machine."""

SIZES = {1: 3, 1_000: 20, 1_000_000: 10}
"""Number of items or characters → number of drawn places in each object that are tried with it."""

ENDPOINTS = {**of_sets.ENDPOINTS, **of_disaggregated_sets.ENDPOINTS}
OBJECTS: Mapping[str, tuple[Callable[[], dict[str, Any]], ...]] = {
    of_sets.MUTATE_SET: (sizes.a_set, sizes.a_hash_set),
    of_sets.VALIDATE_SET: (sizes.a_set, sizes.a_hash_set),
    of_sets.MUTATE_POD: (sizes.a_leader, sizes.a_worker),
    of_sets.VALIDATE_POD: (sizes.a_worker,),
    of_disaggregated_sets.VALIDATE_SET: (sizes.a_disaggregated_set,),
}
CASES = [
    pytest.param(webhook, make, id=f"{webhook}-{make.__name__}")
    for webhook in OBJECTS
    for make in OBJECTS[webhook]
]


class Cost(NamedTuple):
    """What a review took, and the code of its answer (400 for an HTTP error) with its message."""

    seconds: float
    mebibytes: float
    code: int
    message: str


def _work() -> None:
    for _ in range(3):
        json.loads(json.dumps([{"name": f"n{index}", "env": []} for index in range(10_000)]))


@pytest.fixture(scope="module")
def slowness() -> float:
    """How many times slower than the reference machine this one is at the moment, at least 1."""
    times = []
    for _ in range(3):
        started = time.process_time()
        _work()
        times.append(time.process_time() - started)
    return max(1.0, min(times) / _REFERENCE_SECONDS)


@pytest.fixture(scope="module")
def answering() -> Dispatcher:
    settings = load(None, {"feature-gates": "WorkloadAwareScheduling=true"}, {}, namespace_file=Path("none"))
    gang = {"gang_scheduling_management": GangSchedulingManagement(schedulerProvider="kubernetes")}
    settings = replace(settings, configuration=settings.configuration.model_copy(update=gang))
    store, cluster = Store(lambda before, after: None, TABLES), cast(Cluster, None)
    registry = kopf.OperatorRegistry()
    register(registry, of_sets.ENDPOINTS, of_sets.handlers(settings, store, cluster))
    register(
        registry, of_disaggregated_sets.ENDPOINTS, of_disaggregated_sets.handlers(settings, store, cluster)
    )
    return Dispatcher(registry)


def cost(answering: Dispatcher, webhook: str, body: bytes) -> Cost:
    """Answer a review in a child process, whose memory nobody has used before."""
    receiving, sending = os.pipe()
    if (child := os.fork()) == 0:
        logging.disable()
        os.write(sending, pickle.dumps(_measured(answering, webhook, body)))
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return cast(Cost, pickle.loads(result))


def _measured(answering: Dispatcher, webhook: str, body: bytes) -> Cost:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        answer = asyncio.run(reviewed(answering, webhook, ENDPOINTS[webhook], body))
        code, message = answer.code, answer.body[:400].decode(errors="replace")
    except BadReview as error:
        code, message = 400, str(error)
    seconds = time.process_time() - started
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Cost(seconds, used / 1024, code, message[:400])


def places(obj: dict[str, Any]) -> list[tuple[Where, str, Grow]]:
    """Return each place of the object with each way to make it large; of equal elements only the first."""
    found: dict[tuple[object, ...], tuple[Where, str, Grow]] = {}
    for path, value in sizes.locations(obj):
        general = tuple("*" if isinstance(part, int) else part for part in path)
        for name, grow in sizes.variants(value).items() if path else ():
            found.setdefault((*general, name), (path, name, grow))
    return list(found.values())


def review_of(webhook: str, make: Callable[[], Any], path: Where, grow: Grow, size: int, kind: str) -> bytes:
    """Return a review of the large object: created, grown from a small one, or edited once it is large."""
    resource, small = ENDPOINTS[webhook], make()
    if kind == "created":
        return sizes.body(resource, sizes.largest(small, path, grow, size, ROOM, VALUES))
    large = sizes.largest(small, path, grow, size, ROOM // 2, VALUES // 2)
    if kind == "grown":
        return sizes.body(resource, large, small)
    spec = large.get("spec")
    edited = {**large, "spec": {**spec, "replicas": 1, "slices": 1}} if isinstance(spec, dict) else large
    return sizes.body(resource, edited, large)


def assert_cheap(answering: Dispatcher, webhook: str, body: bytes, slowness: float, what: str) -> Cost:
    assert len(body) <= MAX_BODY_BYTES
    taken = cost(answering, webhook, body)
    if taken.seconds > MOST_SECONDS * slowness:
        # The machine may have been busy.
        taken = min(taken, cost(answering, webhook, body))
    assert taken.code in (200, 400, 403), (what, taken)
    assert taken.seconds <= MOST_SECONDS * slowness, (what, taken)
    assert taken.mebibytes <= MOST_MIB, (what, taken)
    return taken


def test_every_webhook_is_tried() -> None:
    assert OBJECTS.keys() == ENDPOINTS.keys()


@pytest.mark.parametrize(("webhook", "make"), CASES)
def test_the_objects_are_admitted_at_their_own_size(
    answering: Dispatcher, webhook: str, make: Callable[[], Any]
) -> None:
    """Otherwise the rules after the first error would see nothing large."""
    taken = cost(answering, webhook, sizes.body(ENDPOINTS[webhook], make()))
    assert taken.code == 200, taken


@pytest.mark.parametrize(("webhook", "make"), CASES)
def test_reviews_of_any_size_are_cheap(
    answering: Dispatcher, slowness: float, webhook: str, make: Callable[[], Any]
) -> None:
    draw = random.Random(webhook + make.__name__)
    found = places(make())
    for size, count in SIZES.items():
        for path, name, grow in draw.sample(found, count):
            kind = draw.choice(("created", "grown", "edited"))
            what = f"{size} {name} in {'/'.join(map(str, path))}, {kind}"
            assert_cheap(answering, webhook, review_of(webhook, make, path, grow, size, kind), slowness, what)


POD, DISAGGREGATED = of_sets.MUTATE_POD, of_disaggregated_sets.VALIDATE_SET
CONTAINERS, ROLES = ("spec", "containers"), ("spec", "roles")


def _chain(count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"r{index}", "startAfter": [f"r{index + 1}"], "spec": {"leaderWorkerTemplate": {}}}
        for index in range(count)
    ]


@pytest.mark.parametrize(
    ("webhook", "make", "path", "value", "code", "message"),
    [
        pytest.param(
            POD,
            sizes.a_worker,
            CONTAINERS,
            [{}] * 1_900_000,
            400,
            f"more than {MOST_VALUES} values",
            id="containers",
        ),
        pytest.param(
            POD,
            sizes.a_worker,
            CONTAINERS,
            [{}] * MOST_CONTAINERS,
            403,
            f"at most {MOST_CONTAINERS} containers",
            id="one-container-too-many",
        ),
        pytest.param(
            POD,
            sizes.a_worker,
            CONTAINERS,
            [{}] * (MOST_CONTAINERS - 1),
            200,
            '"allowed":true',
            id="most-containers",
        ),
        pytest.param(
            POD,
            sizes.a_worker,
            ("spec", "subdomain"),
            "s" * 1_000_000,
            403,
            "too large to store",
            id="long-names",
        ),
        pytest.param(
            POD,
            sizes.a_worker,
            ("spec", "subdomain"),
            "s" * 10_000,
            403,
            "are too long",
            id="long-addresses-of-TPUs",
        ),
        pytest.param(
            DISAGGREGATED,
            sizes.a_disaggregated_set,
            ROLES,
            _chain(2_000),
            403,
            "spec.roles: Too many: 2000: must have at most 10 items",
            id="roles",
        ),
        pytest.param(
            DISAGGREGATED,
            sizes.a_disaggregated_set,
            ROLES,
            _chain(8_000),
            403,
            "Too many: 8000",
            id="more-roles",
        ),
        pytest.param(
            of_sets.MUTATE_SET,
            sizes.a_set,
            ("metadata", "labels"),
            sizes.nested(900),
            403,
            "too many levels",
            id="levels",
        ),
    ],
)
def test_what_is_too_much_is_refused_with_a_reason(
    answering: Dispatcher,
    slowness: float,
    webhook: str,
    make: Callable[[], Any],
    path: Where,
    value: Any,
    code: int,
    message: str,
) -> None:
    body = sizes.body(ENDPOINTS[webhook], sizes.replaced(make(), path, lambda _: value))
    taken = assert_cheap(answering, webhook, body, slowness, message)
    assert taken.code == code
    assert message in taken.message
