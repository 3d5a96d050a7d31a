"""The assertions of upstream's end-to-end tests of DisaggregatedSets, with its timeouts and label selectors.

`test/unit/compat/test_published.py` lists all of them. Upstream's tests poll about every 100 ms; this test
checks every state that the API server went through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import API_VERSION, KIND, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SCALER_KIND
from test.harness.following import Following, Frame
from test.harness.groups import labels_of, names_of
from test.harness.manifests import pod_template
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from tools.localcluster import ClusterAccess

READY, DRAINED, ALONE = 240.0, 240.0, 240.0
ROLE_GONE = SETS_GONE = PODS_GONE = 120.0
SERVICES_GONE = 30.0
TEAM = {"team": "a"}
QUEUE = {"kueue.x-k8s.io/queue-name": "q"}

Counts = dict[str, dict[str, int]]
"""For each revision and role, the desired groups of its LeaderWorkerSet."""


@pytest.fixture(scope="module")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("published")) as product:
        yield product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    with a_namespace(cluster, name) as world:
        yield world


def a_role(name: str, replicas: int | None, image: str = "server:1", **budget: Any) -> dict[str, Any]:
    """Return a role. replicas: None if a scaler determines it. budget: maxSurge, maxUnavailable."""
    template = pod_template(image)
    template["metadata"] = {"labels": TEAM}
    spec: dict[str, Any] = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
    if budget:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": budget}
    scaled = {"scaling": {"mode": "External"}} if replicas is None else {}
    return {
        "name": name,
        "metadata": {"labels": QUEUE},
        **scaled,
        "spec": spec if replicas is None else {**spec, "replicas": replicas},
    }


def create(world: World, *roles: dict[str, Any]) -> None:
    metadata = {"name": "pd"}
    world.create(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"roles": list(roles)}}
    )
    wait_until_available(world)


def change(world: World, *roles: dict[str, Any]) -> None:
    world.patch(KIND, "pd", {"spec": {"roles": list(roles)}})


def wait_until_available(world: World) -> None:
    def is_available(obj: dict[str, Any]) -> bool:
        status = obj.get("status") or {}
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
        is_current = status.get("observedGeneration") == obj["metadata"]["generation"]
        return is_current and conditions.get("Available") == "True"

    eventually("the set is available", lambda: world.get(KIND, "pd"), is_available, READY)


def counts_in(sets: Any) -> Counts:
    result: Counts = {}
    for lws in sets:
        labels = labels_of(lws)
        result.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = lws["spec"]["replicas"]
    return result


def counts(world: World) -> Counts:
    return counts_in(world.list(SET, f"{NAME_LABEL}=pd"))


def total(state: Counts, role: str) -> int:
    return sum(roles.get(role, 0) for roles in state.values())


def only_revision(world: World, expected: dict[str, int], old: str) -> str:
    """Return the key of the only revision with groups, once it has all of them. It must not be `old`."""

    def is_only_revision(state: Counts) -> bool:
        serving = {key: roles for key, roles in state.items() if any(roles.values())}
        return old not in serving and list(serving.values()) == [expected]

    state = eventually("only one revision has groups", lambda: counts(world), is_only_revision, ALONE)
    return next(key for key, roles in state.items() if any(roles.values()))


class Watched:
    """Every state of the LeaderWorkerSets from now on."""

    def __init__(self, world: World) -> None:
        self._sets = Following(world.api, world.path(SET), f"{NAME_LABEL}=pd", world.ended)

    def states(self) -> list[Counts]:
        return [counts_in(frame.values()) for frame in self._frames()]

    def _frames(self) -> Iterator[Frame]:
        return (moment.frame for moment in self._sets.moments())


def test_names_labels_services_and_deletion(world: World) -> None:
    create(world, a_role("prefill", 2), a_role("decode", 2))
    sets = world.list(SET, f"{NAME_LABEL}=pd")
    assert len(sets) == 2 and all(labels_of(lws).items() >= QUEUE.items() for lws in sets)
    assert {labels_of(lws)[ROLE_LABEL] for lws in sets} == {"prefill", "decode"}
    pods = world.list("Pod", f"{NAME_LABEL}=pd,{ROLE_LABEL}=decode")
    assert len(pods) == 2 and all(labels_of(pod).items() >= TEAM.items() for pod in pods)
    services = eventually("both Services exist", lambda: of_set(world, "Service"), lambda now: len(now) == 2)
    assert all(
        service["spec"]["clusterIP"] == "None" and not service["spec"].get("ports") for service in services
    )
    for role in ("prefill", "decode"):
        description = f"2 endpoints of {role}"
        eventually(description, lambda role=role: endpoints(world, role), lambda now: now == 2)  # type: ignore[misc]
    world.kubectl("delete", "disaggregatedset", "pd")
    eventually("no LeaderWorkerSet is left", lambda: of_set(world, SET), lambda now: not now, SETS_GONE)
    eventually("no Service is left", lambda: of_set(world, "Service"), lambda now: not now, SERVICES_GONE)
    eventually("no pod is left", lambda: of_set(world, "Pod"), lambda now: not now, PODS_GONE)


def of_set(world: World, kind: str) -> list[dict[str, Any]]:
    return world.list(kind, f"{NAME_LABEL}=pd")


def endpoints(world: World, role: str) -> int:
    """Return the number of ready endpoints in EndpointSlices with the labels of the set."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{world.namespace}/endpointslices"
    endpoint_slices = [
        endpoint_slice
        for endpoint_slice in world.api.get(path)["items"]
        if labels_of(endpoint_slice).get(NAME_LABEL) == "pd"
        and labels_of(endpoint_slice).get(ROLE_LABEL) == role
    ]
    return sum(
        endpoint["conditions"]["ready"]
        for endpoint_slice in endpoint_slices
        for endpoint in endpoint_slice["endpoints"] or ()
    )


@pytest.mark.parametrize(
    ("before", "after", "budget"),
    [
        pytest.param((10, 2), (6, 8), {"maxSurge": 2, "maxUnavailable": 2}, id="10-2-to-6-8"),
        pytest.param((4, 4), (4, 4), {"maxSurge": 0, "maxUnavailable": 2}, id="4-4-without-surge"),
    ],
)
def test_a_rollout(world: World, before: Any, after: Any, budget: dict[str, Any]) -> None:
    names = ("prefill", "decode")
    create(world, *(a_role(name, count, **budget) for name, count in zip(names, before, strict=True)))
    (old,) = counts(world)
    watched = Watched(world)
    change(
        world, *(a_role(name, count, "server:2", **budget) for name, count in zip(names, after, strict=True))
    )
    only_revision(world, dict(zip(names, after, strict=True)), old)
    states = watched.states()
    assert states[0] == {old: dict(zip(names, before, strict=True))}
    for state in states:
        for name, first, last in zip(names, before, after, strict=True):
            assert total(state, name) <= max(first, last) + budget["maxSurge"], state
    assert any(len([roles for roles in state.values() if any(roles.values())]) == 2 for state in states)
    at_rest = [roles for roles in counts(world).values() if any(roles.values())]
    assert all(all(roles.values()) for roles in at_rest), "no revision has one role at 0 and another above 0"


def test_a_second_change_during_a_rollout(world: World) -> None:
    """With revisions A→B→C, the one that has run longest is removed last."""
    create(world, a_role("prefill", 4), a_role("decode", 4))
    (first,) = counts(world)
    watched = Watched(world)
    change(world, a_role("prefill", 4, "server:2"), a_role("decode", 4, "server:2"))
    eventually("the second revision has groups", lambda: second_of(counts(world), first), bool)
    change(world, a_role("prefill", 4, "server:3"), a_role("decode", 4, "server:3"))
    last = only_revision(world, {"prefill": 4, "decode": 4}, first)
    states = watched.states()
    (second,) = {key for state in states for key in state} - {first, last}
    begun = next(at for at, state in enumerate(states) if has(state, second))
    serving = [(has(state, first), has(state, second)) for state in states[begun:]]
    assert (True, False) in serving, "the second revision is drained while the first serves"
    assert (False, True) not in serving


def has(state: Counts, key: str) -> bool:
    return any(state.get(key, {}).values())


def second_of(state: Counts, first: str) -> bool:
    return any(has(state, key) for key in state if key != first)


@pytest.mark.parametrize(
    ("names", "removed"),
    [
        pytest.param(("prefill", "decode", "encode"), "", id="added"),
        pytest.param(("decode", "encode"), "prefill", id="renamed"),
        pytest.param(("reader", "writer"), "prefill", id="all-renamed"),
    ],
)
def test_roles_are_added_and_removed_in_steps(world: World, names: tuple[str, ...], removed: str) -> None:
    create(world, a_role("prefill", 2), a_role("decode", 2))
    (old,) = counts(world)
    watched = Watched(world)
    change(world, *(a_role(name, 2) for name in names))
    eventually(
        "the old revision is drained",
        lambda: counts(world).get(old),
        lambda now: not has({old: now or {}}, old),
        DRAINED,
    )
    eventually(
        "the removed role has no groups",
        lambda: total(counts(world), removed),
        lambda now: now == 0,
        ROLE_GONE,
    )
    only_revision(world, dict.fromkeys(names, 2), old)
    of_old = [sum(state.get(old, {}).values()) for state in watched.states()]
    assert all(later <= earlier for earlier, later in pairwise(of_old))
    assert len(set(of_old)) > 2, "the old revision is drained step by step"


def test_a_scaler_has_a_scale_before_its_first_update(world: World) -> None:
    create(world, a_role("prefill", 1), a_role("decode", None))
    scale = world.api.get(f"{world.path(SCALER_KIND, 'pd-decode')}/scale")
    assert scale["spec"] == {"replicas": 1}
    world.kubectl("scale", "disaggregatedsetrolescaler/pd-decode", "--replicas=3")
    (key,) = counts(world)
    expected = {key: {"prefill": 1, "decode": 3}}
    eventually("the role is scaled", lambda: counts(world), lambda now: now == expected, READY)
    world.delete(KIND, "pd")
    eventually(
        "the scaler is deleted with the set",
        lambda: names_of(world.list(SCALER_KIND)),
        lambda now: not now,
        SERVICES_GONE,
    )


def test_the_manager_has_the_names_that_upstreams_tests_use(world: World) -> None:
    deployments = world.cluster.kubectl("-n", "lws-system", "get", "deployment", "-o", "name").split()
    assert deployments == ["deployment.apps/lws-controller-manager"]
    path = "jsonpath={.spec.template.metadata.labels.control-plane} {.spec.template.spec.containers[*].name}"
    output = world.cluster.kubectl(
        "-n", "lws-system", "get", "deployment", "lws-controller-manager", "-o", path
    )
    assert output.split() == ["controller-manager", "manager"]
