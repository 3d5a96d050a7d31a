"""The CRDs of DisaggregatedSets and their scalers equal upstream's, node by node.

`original_nodes.json` records what each node of upstream's CRDs demands: type, default, bounds, keys, rules.
There, `template` stands for every pod template, with `initContainers` and `ephemeralContainers` as
`containers`; `claim` stands for a volume claim template. A different default or list key would change hashes
and reject manifests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lws_api.crds import definitions
from lws_api.disaggregatedset.v1 import KIND, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as SET_KIND

ORIGINAL = Path(__file__).with_name("original_nodes.json")
OWN = ".spec.roles[].spec.leaderWorkerTemplate"
EMBEDDED = {
    f"{OWN}.leaderTemplate": "template",
    f"{OWN}.workerTemplate": "template",
    f"{OWN}.volumeClaimTemplates[]": "claim",
}
SHORT = {
    "x-kubernetes-list-type": "list",
    "x-kubernetes-list-map-keys": "keys",
    "x-kubernetes-map-type": "map",
    "x-kubernetes-validations": "rules",
}
APART = {"description", "properties", "items", "additionalProperties", "anyOf", "x-kubernetes-int-or-string"}

RELAXED = {
    # Not required here, because the default is set first.
    ".spec.roles[].spec.rolloutStrategy": {"required": ["type"]},
}
LATER_UPSTREAM = {".spec.roles": {"minItems": 1}}
ADDED = {
    ".spec.placementPolicy.strength",
    ".spec.progressDeadlineSeconds",
    ".spec.revisionHistoryLimit",
    ".spec.roles[].startAfter",
    ".spec.roles[].subRoles",
    ".spec.rolloutStrategy",
    ".status.collisionCount",
    ".status.currentRevision",
    ".status.lastProgressTime",
    ".status.pending",
    ".status.rollouts",
    ".status.selector",
    ".status.sliceStatuses",
    ".status.slices",
    ".status.updateRevision",
    # Additional fields of LeaderWorkerSets; see test/unit/tools/test_crdgen.py.
    ".spec.roles[].spec.groupIdentity",
    ".spec.roles[].spec.groupReplacementPolicy",
    ".spec.roles[].spec.leaderService",
    ".spec.roles[].spec.managedBy",
    ".spec.roles[].spec.maxGroupRestarts",
    ".spec.roles[].spec.podDisruptionBudget",
    ".spec.roles[].spec.podTerminationPolicy",
    ".spec.roles[].spec.progressDeadlineSeconds",
    ".spec.roles[].spec.revisionHistoryLimit",
    ".spec.roles[].spec.rolloutStrategy.paused",
    ".spec.roles[].spec.rolloutStrategy.prewarm",
    ".spec.roles[].spec.scheduling",
    ".spec.roles[].spec.startStrategy",
    f"{OWN}.maxGroupRestarts",
    f"{OWN}.restartBackoff",
}
"""Fields that upstream does not have, with everything below them."""
LATER = re.compile(
    r"\.(evictionResponders|healthStatus|bindMountOptions|defaultUser)\b|\.(emptyDir|grpc)\.mode$"
    r"|\.httpGet\.protocol$|\.(items\[\]|clusterTrustBundle|podCertificate|serviceAccountToken)\.user$"
)
"""Fields of pod templates since Kubernetes 1.37."""

Nodes = Mapping[str, Mapping[str, Any]]


@cache
def originals() -> Mapping[str, Nodes]:
    nodes: Mapping[str, Nodes] = json.loads(ORIGINAL.read_text(encoding="utf-8"))
    return nodes


def expected(kind: str) -> dict[str, Mapping[str, Any]]:
    """Return every node of upstream's CRD, with embedded templates expanded."""
    nodes = dict(originals()[kind])
    for root, name in EMBEDDED.items():
        if kind == KIND:
            nodes |= {f"{root}{path}": facts for path, facts in _with_containers(originals()[name]).items()}
    return nodes


def _with_containers(template: Nodes) -> dict[str, Mapping[str, Any]]:
    containers, nodes = ".spec.containers[]", dict(template)
    for path in [path for path in template if path.startswith(containers)]:
        for other in (".spec.initContainers[]", ".spec.ephemeralContainers[]"):
            nodes[other + path.removeprefix(containers)] = template[path]
    return nodes


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, facts_of(schema)
    for field, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{field}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def facts_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a node demands; the order of choices and of required fields does not count."""
    facts = {SHORT.get(key, key): value for key, value in node.items() if key not in APART}
    if node.get("x-kubernetes-int-or-string"):
        facts["type"] = "int-or-string"
    return {key: sorted(value) if key in ("required", "enum") else value for key, value in facts.items()}


def ours(kind: str) -> dict[str, dict[str, Any]]:
    version = definitions()[kind]["spec"]["versions"][0]
    return dict(nodes(version["schema"]["openAPIV3Schema"]))


def is_added(path: str) -> bool:
    return LATER.search(path) is not None or any(
        path == field or path.startswith((f"{field}.", f"{field}[", f"{field}{{")) for field in ADDED
    )


@pytest.mark.parametrize("kind", [KIND, SCALER_KIND])
def test_every_node_matches_upstream(kind: str) -> None:
    expected_nodes, actual = expected(kind), ours(kind)
    assert len(expected_nodes) > {KIND: 2000, SCALER_KIND: 15}[kind]
    relaxed = {
        path: {key: value for key, value in facts.items() if key not in RELAXED.get(path, ())}
        | LATER_UPSTREAM.get(path, {})
        for path, facts in expected_nodes.items()
    }
    assert {path: actual.get(path) for path in relaxed if actual.get(path) != relaxed[path]} == {}


@pytest.mark.parametrize("kind", [KIND, SCALER_KIND])
def test_only_listed_nodes_are_added(kind: str) -> None:
    assert {path for path in ours(kind).keys() - expected(kind).keys() if not is_added(path)} == set()


def test_listed_nodes_exist_with_the_defaults_of_upstream() -> None:
    actual = ours(KIND)
    assert actual.keys() >= ADDED
    written = {
        path: actual[path]["default"] for path in actual if is_added(path) and "default" in actual[path]
    }
    assert written == {
        ".spec.roles[].spec.groupIdentity": "Ordinal",
        ".spec.roles[].spec.groupReplacementPolicy": "PostTermination",
    }
    for path, lack in RELAXED.items():
        assert lack.keys() <= expected(KIND)[path].keys()


def test_a_role_has_the_schema_of_a_leaderworkerset() -> None:
    role = {path for path in ours(KIND) if path.startswith(".spec.roles[].spec.")}
    assert {path.removeprefix(".spec.roles[]") for path in role} == {
        path for path in ours(SET_KIND) if path.startswith(".spec.")
    }


def test_printer_columns_and_scale_of_scalers_match_upstream() -> None:
    spec = definitions()[SCALER_KIND]["spec"]
    (version,) = spec["versions"]
    assert spec["names"]["shortNames"] == ["dsrs"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert [
        (column["name"], column["type"], column["jsonPath"]) for column in version["additionalPrinterColumns"]
    ] == [
        ("Desired", "integer", ".spec.replicas"),
        ("Current", "integer", ".status.replicas"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]


def test_wart_29_sets_have_columns_a_short_name_and_a_scale_of_slices() -> None:
    """Upstream's CRD has none of these."""
    spec = definitions()[KIND]["spec"]
    (version,) = spec["versions"]
    assert spec["names"]["shortNames"] == ["dset"]
    assert version["subresources"]["status"] == {}
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.slices"
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Available", "Slices", "Revision", "Age"]
