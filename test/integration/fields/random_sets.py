"""Generate LeaderWorkerSets and pods from the committed CRD: valid ones, and ones with wrong values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from lws_api.crds import definitions
from lws_api.leaderworkerset import v1
from test.integration.fields.random_values import WORDS, Schema, a_value, disturbed

Object = dict[str, Any]

SCHEMA: Schema = definitions()[v1.KIND]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
_SPEC: Schema = SCHEMA["properties"]["spec"]
_POD_TEMPLATE: Schema = _SPEC["properties"]["leaderWorkerTemplate"]["properties"]["workerTemplate"]


def _some(**fields: SearchStrategy[Any]) -> SearchStrategy[Object]:
    """Return a strategy for any subset of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _member_of(names: type[StrEnum]) -> SearchStrategy[str]:
    return st.sampled_from([member.value for member in names])


_TOPOLOGIES = st.sampled_from(("kubernetes.io/hostname", "topology.kubernetes.io/zone")) | WORDS
_AMOUNTS = st.sampled_from([0, 1, 2, 5, "0%", "1%", "34%", "50%", "100%", "007%"])
_RETENTION = st.sampled_from(["Retain", "Delete"])
_DIE = st.integers(0, 9)
_GENERAL = _some(
    replicas=st.integers(0, 3),
    startupPolicy=_member_of(v1.StartupPolicy),
    networkConfig=_some(subdomainPolicy=_member_of(v1.SubdomainPolicy)),
    rolloutStrategy=_some(
        type=st.just("RollingUpdate"),
        paused=st.booleans(),
        rollingUpdateConfiguration=_some(
            maxUnavailable=_AMOUNTS, maxSurge=_AMOUNTS, partition=st.integers(0, 3)
        ),
    ),
    revisionHistoryLimit=st.integers(0, 3),
    maxGroupRestarts=st.integers(0, 3),
    groupIdentity=st.just("Ordinal"),
    groupReplacementPolicy=st.just("PostTermination"),
    podDisruptionBudget=_some(maxUnavailableGroups=_AMOUNTS),
)
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_GROUP = _some(
    restartPolicy=_member_of(v1.RestartPolicy),
    persistentVolumeClaimRetentionPolicy=_some(whenDeleted=_RETENTION, whenScaled=_RETENTION),
    volumeClaimTemplates=st.sampled_from(
        [[{"metadata": {"name": name}, "spec": _CLAIM} for name in names] for names in (["data"], ["a", "b"])]
    ),
)
_SUBGROUPS = st.fixed_dictionaries(
    {"subGroupSize": st.integers(1, 4)},
    optional={"subGroupPolicyType": _member_of(v1.SubGroupPolicyType)},
)
_CONTAINERS = st.sampled_from([("main",), ("main",), ("main", "side")])
_LIMITS = st.sampled_from([{}, {}, {"cpu": "10m"}, {"google.com/tpu": 4}, {"google.com/tpu": "1"}])
_VARIABLES = st.sampled_from(["A", "B", "TPU_PROCESS_PORT", "TPU_NAME", v1.LEADER_ADDRESS_ENV])
_CONTENTS = st.just("8476") | WORDS
_FEW = st.sampled_from([0, 0, 0, 1, 2])
_FAULTS = st.sampled_from([0, 1, 1, 2, 3])
_SIZES = st.sampled_from(["1", "2", "4", "5"])

_ANNOTATIONS: dict[str, SearchStrategy[str]] = {
    v1.EXCLUSIVE_TOPOLOGY_ANNOTATION: _TOPOLOGIES,
    v1.SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: _TOPOLOGIES,
    v1.RECREATE_GROUP_AFTER_START_ANNOTATION: st.just("true") | WORDS,
    "scheduling.volcano.sh/queue-name": WORDS,
    "example.com/note": WORDS,
}
_POD_LABELS: dict[str, SearchStrategy[str]] = {
    v1.WORKER_INDEX_LABEL: st.sampled_from(["0", "1", "2"]) | WORDS,
    v1.GROUP_INDEX_LABEL: st.sampled_from(["0", "1"]) | WORDS,
    v1.GROUP_KEY_LABEL: WORDS,
    v1.SUBGROUP_INDEX_LABEL: st.sampled_from(["0", "1"]) | WORDS,
    v1.SUBGROUP_KEY_LABEL: WORDS,
    v1.REVISION_LABEL: WORDS,
}
_POD_ANNOTATIONS: dict[str, SearchStrategy[str]] = {
    v1.LEADER_NAME_ANNOTATION: st.just("x-0") | WORDS,
    v1.SUBGROUP_SIZE_ANNOTATION: st.sampled_from(["1", "2", "4"]) | WORDS,
    v1.SUBGROUP_POLICY_TYPE_ANNOTATION: _member_of(v1.SubGroupPolicyType),
    v1.SUBDOMAIN_POLICY_ANNOTATION: _member_of(v1.SubdomainPolicy),
    v1.LEADER_REQUESTS_TPUS_ANNOTATION: st.sampled_from(["true", "false"]),
    v1.EXCLUSIVE_TOPOLOGY_ANNOTATION: _TOPOLOGIES,
    v1.SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: _TOPOLOGIES,
}
_NAMES_OF = {
    id(strategies): st.sampled_from(sorted(strategies))
    for strategies in (_ANNOTATIONS, _POD_LABELS, _POD_ANNOTATIONS)
}


@st.composite
def good_sets(draw: DrawFn) -> Object:
    """Small sets as a user with knowledge of the API writes them; the webhook rejects some combinations."""
    template = {"size": draw(st.integers(1, 5)), "workerTemplate": _a_pod_template(draw), **draw(_GROUP)}
    if draw(_DIE) > 5:
        template["leaderTemplate"] = _a_pod_template(draw)
    if draw(_DIE) > 5:
        template["subGroupPolicy"] = draw(_SUBGROUPS)
    return {
        "apiVersion": v1.API_VERSION,
        "kind": v1.KIND,
        "metadata": {"name": "x", "annotations": _marks(draw, _ANNOTATIONS)},
        "spec": {**draw(_GENERAL), "leaderWorkerTemplate": template},
    }


@st.composite
def sets(draw: DrawFn) -> Object:
    """Good sets, good sets with a few wrong values, and some that only the schema allows."""
    lws = draw(_GOOD)
    for _ in range(draw(_FAULTS)):
        lws["spec"] = disturbed(draw, lws["spec"], _SPEC)
    if draw(_DIE) == 9:
        lws["spec"] = a_value(draw, _SPEC)
    if draw(_DIE) == 9:
        lws["metadata"] |= {"name": draw(WORDS), "generateName": draw(WORDS)}
    return lws


@st.composite
def pods(draw: DrawFn) -> Object:
    """Pods with labels of a set, as StatefulSets create them, and with combinations that never occur."""
    template = _a_pod_template(draw)
    for _ in range(draw(_FEW)):
        template = disturbed(draw, template, _POD_TEMPLATE)
    leads = draw(_DIE) > 4
    index_label = {v1.WORKER_INDEX_LABEL: "0"} if leads else {v1.GROUP_INDEX_LABEL: "0"}
    metadata = {
        **_mapping(template.get("metadata")),
        "name": draw(WORDS) if draw(_DIE) == 9 else "x-0" if leads else "x-0-1",
        "labels": {v1.NAME_LABEL: "x", **index_label, **_marks(draw, _POD_LABELS)},
        "annotations": {
            v1.SIZE_ANNOTATION: draw(WORDS if draw(_DIE) == 9 else _SIZES),
            **_marks(draw, _POD_ANNOTATIONS),
        },
    }
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}


_GOOD = good_sets()


def _a_pod_template(draw: DrawFn) -> Object:
    """Return a small template from which pods can be created."""
    spec: Object = {"terminationGracePeriodSeconds": 1, "containers": _containers(draw, draw(_CONTAINERS))}
    if draw(_DIE) > 7:
        spec["initContainers"] = _containers(draw, ("before",))
    return {"metadata": {}, "spec": spec}


def _containers(draw: DrawFn, names: Iterable[str]) -> list[Object]:
    containers = []
    for name in names:
        container: Object = {"name": name, "image": "registry.k8s.io/pause:3.10"}
        if limits := draw(_LIMITS):
            container["resources"] = {"limits": limits}
        if env := [{"name": draw(_VARIABLES), "value": draw(_CONTENTS)} for _ in range(draw(_FEW))]:
            container["env"] = env
        containers.append(container)
    return containers


def _marks(draw: DrawFn, strategies: Mapping[str, SearchStrategy[str]]) -> dict[str, str]:
    """Return a few labels or annotations."""
    names = [draw(_NAMES_OF[id(strategies)]) for _ in range(draw(_FEW))]
    return {name: draw(strategies[name]) for name in names}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
