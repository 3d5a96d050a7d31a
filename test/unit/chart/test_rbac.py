"""The chart's roles grant exactly the verbs that the code declares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

import pytest
import yaml

from lws.leaderworkerset.group.gangs import GANG_VERBS, WORKLOAD_VERBS
from lws.runtime.client.resources import DISAGGREGATED_VERBS, NAMESPACED_VERBS, VERBS
from test.unit.chart.templates import TEMPLATES, stripped

RBAC = ("manager.yaml", "leader-election.yaml", "certificates.yaml", "metrics.yaml", "gang.yaml")
OBJECTS = [obj for name in RBAC for obj in stripped(TEMPLATES / "rbac" / name)]
# Leases of shards are listed individually; X stands for the number of the shard.
LEASES = ["b8b2488c.x-k8s.io", "b8b2488c.x-k8s.io-X"]
# A create is authorised before the name is known, so it cannot be restricted by name.
BY_NAME = {
    ("", "secrets", "get"): ["lws-webhook-server-cert"],
    ("", "secrets", "update"): ["lws-webhook-server-cert"],
    ("coordination.k8s.io", "leases", "get"): LEASES,
    ("coordination.k8s.io", "leases", "update"): LEASES,
    ("coordination.k8s.io", "leases", "patch"): LEASES,
    **{
        ("admissionregistration.k8s.io", f"{kind}webhookconfigurations", verb): [
            f"lws-{kind}-webhook-configuration"
        ]
        for kind in ("mutating", "validating")
        for verb in ("get", "patch")
    },
}


def rules(kind: str) -> list[dict[str, Any]]:
    """Return the rules for resources in all roles of this kind."""
    return [rule for role in OBJECTS if role["kind"] == kind for rule in role["rules"] if "resources" in rule]


def granted(rules: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], frozenset[str]]:
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs[group, resource].update(rule["verbs"])
    return {resource: frozenset(allowed) for resource, allowed in verbs.items()}


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("ClusterRole", reduce(or_, (VERBS, WORKLOAD_VERBS, *GANG_VERBS.values()))),
        ("Role", NAMESPACED_VERBS),
    ],
    ids=["cluster-wide", "in its own namespace"],
)
def test_roles_grant_what_the_code_declares(
    kind: str, needed: Mapping[tuple[str, str], frozenset[str]]
) -> None:
    assert granted(rules(kind)) == dict(needed)


def test_permissions_for_disaggregatedsets_are_granted_when_they_are_enabled() -> None:
    path = TEMPLATES / "rbac" / "disaggregatedset.yaml"
    role, binding = stripped(path)
    assert granted(role["rules"]) == dict(DISAGGREGATED_VERBS)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "X", "namespace": "X"}]
    text = path.read_text()
    assert text.startswith("{{- if .Values.enableDisaggregatedSet }}") and text.endswith("{{- end }}\n")


def test_each_gang_scheduler_adds_only_its_own_permissions() -> None:
    text = (TEMPLATES / "rbac" / "gang.yaml").read_text()
    blocks = re.findall(r"\{\{- (?:else )?if eq \. \"(.+)\" }}\n((?:  .*\n)+)", text)
    per_provider = {name: granted(yaml.safe_load(rules)) for name, rules in blocks}
    assert per_provider == {name: dict(needed) for name, needed in GANG_VERBS.items()}
    assert text.startswith("{{- with (default dict .Values.gangSchedulingManagement).schedulerProvider }}")


def test_permissions_are_restricted_by_name_where_possible() -> None:
    named = {
        (group, resource, verb): rule["resourceNames"]
        for kind in ("ClusterRole", "Role")
        for rule in rules(kind)
        if "resourceNames" in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert named == BY_NAME
    unnamed = granted(
        rule for kind in ("ClusterRole", "Role") for rule in rules(kind) if "resourceNames" not in rule
    )
    assert not {(*resource, verb) for resource, verbs in unnamed.items() for verb in verbs} & BY_NAME.keys()


def test_every_role_is_bound_to_the_manager() -> None:
    roles = {
        (obj["kind"], obj["metadata"]["name"]) for obj in OBJECTS if obj["kind"] in ("Role", "ClusterRole")
    }
    bindings = [obj for obj in OBJECTS if obj["kind"].endswith("Binding")]
    bound = {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings}
    # Names begin with the release's full name, "X" here. The role for /metrics is for other clients.
    assert roles - bound == {("ClusterRole", "X-metrics-reader")}
    assert bound <= roles
    for binding in bindings:
        manager = {"kind": "ServiceAccount", "name": "X", "namespace": "X"}
        assert binding["subjects"] == [manager]
        assert binding["kind"] == f"{binding['roleRef']['kind']}Binding"


def test_user_roles_allow_editing_and_viewing_sets_only() -> None:
    groups = {
        group
        for role in stripped(TEMPLATES / "rbac" / "users.yaml")
        for rule in role["rules"]
        for group in rule["apiGroups"]
    }
    assert groups == {"leaderworkerset.x-k8s.io", "disaggregatedset.x-k8s.io"}
