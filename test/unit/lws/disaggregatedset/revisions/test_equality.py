"""Tests of lws.disaggregatedset.revisions.record: which edits of a role are changes."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from lws.disaggregatedset.revisions.record import RolesRecord, describe, record, role_form
from test.unit.lws.disaggregatedset.revisions.histories import make_dset, make_role
from test.unit.seeds import for_each_seed

GPU = {"resources": {"limits": {"cpu": "1", "memory": "1024Mi"}}, "ports": [{"containerPort": 8080}]}


def make_serving() -> list[dict[str, Any]]:
    roles = [
        make_role(name, image=f"{name}:1", labels={"a": "b"}) for name in ("prefill", "decode", "router")
    ]
    for role in roles:
        role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0] |= copy.deepcopy(GPU)
    return roles


def respelled(value: Any, chance: random.Random) -> Any:
    """Return an equivalent value: keys in another order, defaults, nulls and empty fields written out."""
    if isinstance(value, list):
        return [respelled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: respelled(item, chance) for key, item in value.items()}
    extras: dict[str, Any] = {}
    if "containers" in result:
        extras = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "nodeSelector": {}, "volumes": []}
    elif "image" in result:
        extras = {"terminationMessagePath": "/dev/termination-log", "env": [], "command": None}
    elif "cpu" in result:
        result["cpu"] = chance.choice(("1", 1, "1000m", "1.0"))
        result["memory"] = chance.choice(("1Gi", "1024Mi", "1048576Ki"))
    elif "containerPort" in result:
        extras = {"protocol": "TCP"}
    result |= {key: item for key, item in extras.items() if chance.random() < 0.5}
    items = list(result.items())
    chance.shuffle(items)
    return dict(items)


@for_each_seed(200)
def test_other_spellings_and_orders_are_equal(seed: int) -> None:
    """Wart 13."""
    chance = random.Random(seed)
    roles = make_serving()
    spelled = [respelled(role, chance) for role in roles]
    chance.shuffle(spelled)
    assert record(make_dset(*spelled)).forms == record(make_dset(*roles)).forms
    changed = chance.choice(spelled)["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][
        0
    ]
    changed["image"] = "other"
    assert record(make_dset(*spelled)).forms != record(make_dset(*roles)).forms


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 7},
        {"startupPolicy": "LeaderReady"},
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
        {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": 3}}},
        {"maxGroupRestarts": 3},
    ],
)
def test_changes_without_a_rollout_are_no_new_revision(change: dict[str, Any]) -> None:
    role = make_role("prefill")
    assert role_form({**role["spec"], **change}) == role_form(role["spec"])


@pytest.mark.parametrize(
    ("change", "is_equal"),
    [
        ({"restartPolicy": "None"}, True),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}, True),
        ({"size": 3}, False),
        ({"subGroupPolicy": {"subGroupSize": 2}}, False),
        ({"leaderTemplate": {"spec": {"containers": [{"name": "main", "image": "lead"}]}}}, False),
        ({"fieldOfTomorrow": {"a": 1}}, False),
    ],
)
def test_fields_of_the_template(change: dict[str, Any], is_equal: bool) -> None:
    spec = make_role("prefill")["spec"]
    changed = {**spec, "leaderWorkerTemplate": {**spec["leaderWorkerTemplate"], **change}}
    assert (role_form(changed) == role_form(spec)) is is_equal


def test_the_names_of_roles_are_compared() -> None:
    spec = make_role("prefill")["spec"]
    first, second = ({"name": name, "spec": spec} for name in "ab")
    assert RolesRecord((first,)).forms != RolesRecord((second,)).forms
    assert RolesRecord((first,)).forms != RolesRecord((first, second)).forms


def identified(identity: str | None, **spec: Any) -> dict[str, Any]:
    return make_dset(make_role("prefill", groupIdentity=identity, **spec), make_role("decode"))


@pytest.mark.parametrize("identity", [None, "", "Ordinal"])
def test_the_ordinal_identity_is_recorded_as_before_other_identities_existed(identity: str | None) -> None:
    """The ordinal identity is the only one that older revisions know. The replacement policy is never
    recorded. Both are defaults of the definition.
    """
    plain, with_identity = make_dset(make_role("prefill"), make_role("decode")), identified(identity)
    with_identity["spec"]["roles"][0]["spec"]["groupReplacementPolicy"] = "Immediate"
    assert record(with_identity).text == record(plain).text
    assert record(with_identity).key_at(0) == record(plain).key_at(0)


def test_another_group_identity_is_another_revision() -> None:
    ordinal, hashed = record(identified("Ordinal")), record(identified("Hash"))
    assert hashed.forms != ordinal.forms
    assert hashed.key_at(0) != ordinal.key_at(0)
    assert hashed.roles["prefill"]["groupIdentity"] == "Hash"
    assert describe(ordinal, hashed) == ["role prefill groupIdentity Ordinal → Hash"]
    assert describe(hashed, ordinal) == ["role prefill groupIdentity Hash → Ordinal"]
