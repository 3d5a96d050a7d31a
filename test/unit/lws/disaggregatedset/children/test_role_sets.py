"""Tests that LeaderWorkerSets of roles equal those that upstream has stored."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lws.disaggregatedset.children.role_sets import build_child, strategy_of
from lws.disaggregatedset.spec import parse
from lws.kube.typed import Structs
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.revisions.encoding import TYPES
from lws_api.crds import defaulted
from test.unit.lws.disaggregatedset.sets import KEY, OWNER, make_disaggregated, make_role

STRUCTS = Structs(TYPES)

PLAIN = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: llm-0-980bcb92-prefill
  namespace: default
  labels: &labels
    app: llm-0-prefill
    disaggregatedset.x-k8s.io/name: llm
    disaggregatedset.x-k8s.io/revision: 980bcb92
    disaggregatedset.x-k8s.io/role: prefill
    disaggregatedset.x-k8s.io/slice: "0"
  ownerReferences:
  - apiVersion: disaggregatedset.x-k8s.io/v1
    controller: true
    kind: DisaggregatedSet
    name: llm
    uid: uid-llm
spec:
  replicas: 4
  startupPolicy: LeaderCreated
  rolloutStrategy:
    type: RollingUpdate
    rollingUpdateConfiguration: {partition: 0, maxUnavailable: 1, maxSurge: 0}
  networkConfig: {subdomainPolicy: Shared}
  leaderWorkerTemplate:
    size: 1
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      metadata: {labels: *labels}
      spec:
        containers:
        - {name: worker, image: "nginx:1.29.3", resources: {}}
"""

FULL = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: llm-2-980bcb92-decode
  namespace: default
  annotations: {note: kept}
  labels:
    app: llm-2-decode
    kueue.x-k8s.io/queue-name: fast
    disaggregatedset.x-k8s.io/name: llm
    disaggregatedset.x-k8s.io/revision: 980bcb92
    disaggregatedset.x-k8s.io/role: decode
    disaggregatedset.x-k8s.io/slice: "2"
  ownerReferences:
  - apiVersion: disaggregatedset.x-k8s.io/v1
    controller: true
    kind: DisaggregatedSet
    name: llm
    uid: uid-llm
spec:
  replicas: 0
  startupPolicy: LeaderReady
  rolloutStrategy:
    type: RollingUpdate
    rollingUpdateConfiguration: {partition: 0, maxUnavailable: 0, maxSurge: 50%}
  networkConfig: {subdomainPolicy: UniquePerReplica}
  leaderWorkerTemplate:
    size: 4
    restartPolicy: None
    leaderTemplate:
      metadata: &metadata
        annotations: {pod: kept}
        labels:
          app: llm-2-decode
          mine: kept
          disaggregatedset.x-k8s.io/name: llm
          disaggregatedset.x-k8s.io/revision: 980bcb92
          disaggregatedset.x-k8s.io/role: decode
          disaggregatedset.x-k8s.io/slice: "2"
      spec: &pod
        containers:
        - {name: main, image: "app:1", resources: {limits: {cpu: "1"}}}
        affinity:
          nodeAffinity: {}
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: rack}
            - topologyKey: zone
              labelSelector:
                matchExpressions:
                - {key: disaggregatedset.x-k8s.io/name, operator: In, values: [llm]}
                - {key: disaggregatedset.x-k8s.io/slice, operator: In, values: ["2"]}
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: zone
              labelSelector:
                matchExpressions:
                - {key: disaggregatedset.x-k8s.io/name, operator: In, values: [llm]}
                - {key: disaggregatedset.x-k8s.io/slice, operator: NotIn, values: ["2"]}
    workerTemplate:
      metadata: *metadata
      spec: *pod
"""


def full_role() -> dict[str, Any]:
    pod = {
        "containers": [{"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "1000m"}}}],
        "affinity": {
            "nodeAffinity": {},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]},
        },
    }
    labels = {"app": "lost", "mine": "kept", "disaggregatedset.x-k8s.io/role": "lost"}
    template = {"metadata": {"labels": labels, "annotations": {"pod": "kept"}}, "spec": pod}
    return make_role(
        "decode",
        template={
            "leaderTemplate": template,
            "workerTemplate": template,
            "size": 4,
            "restartPolicy": "Default",
        },
        replicas=7,
        startupPolicy="LeaderReady",
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
        rolloutStrategy={"rollingUpdateConfiguration": {"maxUnavailable": 0, "maxSurge": "50%"}},
        role={
            "metadata": {
                "labels": {"kueue.x-k8s.io/queue-name": "fast", "app": "lost", "kro.run/owned": "true"},
                "annotations": {"note": "kept", "argocd.argoproj.io/tracking-id": "x"},
            }
        },
    )


def as_stored(child: dict[str, Any]) -> dict[str, Any]:
    """Return the child after admission and the defaults of the definition.

    The template is written as upstream's encoder writes it.
    """
    default(child)
    stored = defaulted(child)
    template = stored["spec"]["leaderWorkerTemplate"]
    stored["spec"]["leaderWorkerTemplate"] = STRUCTS.write("LeaderWorkerTemplate", template)
    return stored


def original(text: str) -> Any:
    """Return upstream's child from its YAML, with the defaults of release 0.11."""
    child = yaml.safe_load(text)
    child["spec"] |= {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}
    return child


def test_a_minimal_child_matches_upstream() -> None:
    obj = make_disaggregated()
    child = build_child(obj, parse(obj).roles[0], None, (0, KEY), 4)
    assert as_stored(child) == original(PLAIN)
    assert child["metadata"]["ownerReferences"] == [OWNER]


def test_a_child_with_all_fields_matches_upstream() -> None:
    policy = {"type": "ExclusiveSlice", "topology": "zone"}
    obj = make_disaggregated(make_role(), full_role(), placementPolicy=policy)
    spec = parse(obj)
    assert as_stored(build_child(obj, spec.roles[1], spec.placement, (2, KEY), 0)) == original(FULL)


def test_building_a_child_does_not_change_the_role() -> None:
    obj = make_disaggregated(make_role(), full_role())
    before = yaml.safe_dump(obj)
    child = build_child(obj, parse(obj).roles[1], None, (0, KEY), 3)
    child["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"].clear()
    assert yaml.safe_dump(obj) == before


def test_fields_of_later_releases_are_kept() -> None:
    role = make_role(leaderService={"ports": [{"port": 80}]}, template={"maxGroupRestarts": 3})
    obj = make_disaggregated(role)
    spec = build_child(obj, parse(obj).roles[0], None, (0, KEY), 1)["spec"]
    assert spec["leaderService"]["ports"][0]["port"] == 80
    assert spec["leaderWorkerTemplate"]["maxGroupRestarts"] == 3


@pytest.mark.parametrize(
    ("unavailable", "surge", "expected"),
    [
        pytest.param(1, 0, (1, 0), id="the default"),
        pytest.param(3, "0%", (3, "0%"), id="a number"),
        pytest.param(0, 2, (0, 2), id="surge"),
        pytest.param(0, "1%", (0, "1%"), id="a percentage as surge, rounded up"),
        pytest.param("100%", 0, ("100%", 0), id="all"),
        pytest.param("20%", 0, (1, 0), id="wart 34: a percentage that is 0 of few"),
        pytest.param("20%", "0%", (1, "0%"), id="wart 34: with surge 0%"),
        pytest.param(0, 0, (1, 0), id="nothing"),
        pytest.param(0, -1, (1, -1), id="less than nothing"),
    ],
)
def test_the_budget_of_a_child_never_blocks_it(
    unavailable: int | str, surge: int | str, expected: tuple[int | str, int | str]
) -> None:
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge}
    obj = make_disaggregated(make_role(rolloutStrategy={"rollingUpdateConfiguration": rolling}))
    strategy = strategy_of(parse(obj).roles[0])
    configured = strategy["rollingUpdateConfiguration"]
    assert (configured["maxUnavailable"], configured["maxSurge"]) == expected
    assert (strategy["type"], configured["partition"]) == ("RollingUpdate", 0)


def test_pause_is_not_passed_on_to_a_child() -> None:
    obj = make_disaggregated(make_role(rolloutStrategy={"paused": True}))
    assert "paused" not in strategy_of(parse(obj).roles[0])
