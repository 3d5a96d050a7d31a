"""Tests of lws.leaderworkerset.admission.validation: errors and warnings, word for word."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from lws.kube.metadata import copied
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    RECREATE_GROUP_AFTER_START_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)

MAX_UNAVAILABLE = "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"
MAX_UNAVAILABLE_GROUPS = "spec.podDisruptionBudget.maxUnavailableGroups"
MAX_SURGE = "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge"
PARTITION = "spec.rolloutStrategy.rollingUpdateConfiguration.partition"
SUBGROUP = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
BOTH_ZERO = "must not be 0 when `maxSurge` is 0"


def make_set(
    name: str = "vllm",
    *,
    replicas: Any = 2,
    size: Any = 4,
    max_unavailable: Any = 1,
    max_surge: Any = 0,
    partition: Any = 0,
    subgroup: Any = None,
    disrupted: Any = None,
    annotations: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    template: dict[str, Any] = {
        "size": size,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "workerTemplate": {"spec": {"containers": [{"name": "w", "image": "a:1"}]}},
    }
    if subgroup is not None:
        template["subGroupPolicy"] = subgroup
    return {
        "metadata": {"name": name, "annotations": annotations or {}, **metadata},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": template,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {
                    "partition": partition,
                    "maxUnavailable": max_unavailable,
                    "maxSurge": max_surge,
                },
            },
            "networkConfig": {"subdomainPolicy": "Shared"},
            "podDisruptionBudget": {"maxUnavailableGroups": disrupted},
        },
    }


def make_subgroup(size: Any, policy: str = "LeaderWorker") -> dict[str, Any]:
    return {"subGroupPolicyType": policy, "subGroupSize": size}


def messages(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in errors_in(new, old)]


# Errors on create and update


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(make_set(), id="usual"),
        pytest.param(make_set(replicas=0, max_unavailable=0, max_surge=0), id="no groups need no budget"),
        pytest.param(make_set(replicas=1_000_000, size=2147), id="most groups"),
        pytest.param(make_set(replicas=1, size=2_147_483_647), id="most pods"),
        pytest.param(make_set(max_unavailable=9, max_surge=9), id="budgets above replicas"),
        pytest.param(make_set(max_unavailable="100%", max_surge="100%"), id="whole percentages"),
        pytest.param(make_set(max_unavailable="007%", max_surge=1), id="leading zeros"),
        pytest.param(make_set(max_unavailable=0, max_surge="1%"), id="surge rounds up"),
        pytest.param(make_set(partition=9), id="partition above replicas"),
        pytest.param(make_set(size=4, subgroup=make_subgroup(2)), id="size divisible"),
        pytest.param(make_set(size=5, subgroup=make_subgroup(2)), id="size - 1 divisible"),
        pytest.param(make_set(size=5, subgroup=make_subgroup(2, "LeaderExcluded")), id="LeaderExcluded"),
        pytest.param(make_set(size=1, subgroup=make_subgroup(1)), id="subgroup of one in a group of one"),
        pytest.param(
            make_set(subgroup=make_subgroup(2), annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}),
            id="subgroup topology",
        ),
        pytest.param(make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}), id="topology"),
        pytest.param(make_set("vllm-x7k2p", generateName="vllm-"), id="generated name"),
        pytest.param({"metadata": {"name": "a"}}, id="older CRD: no field at all"),
        pytest.param(
            {"metadata": {"name": "a"}, "spec": {"rolloutStrategy": {}}}, id="older CRD: no budgets"
        ),
        pytest.param(
            make_set(replicas=None, size=None, max_unavailable=None, max_surge=None, partition=None),
            id="older CRD: nulls",
        ),
    ],
)
def test_accepted(raw: dict[str, Any]) -> None:
    assert messages(raw) == []
    assert messages(raw, {"metadata": {"name": "a"}, "spec": copy.deepcopy(raw.get("spec"))}) == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            make_set("1a"), [f'metadata.name: Invalid value: "1a": {DNS1035}'], id="name: digit first"
        ),
        pytest.param(make_set("a.b"), [f'metadata.name: Invalid value: "a.b": {DNS1035}'], id="name: dot"),
        pytest.param(
            make_set(""), ["metadata.name: Required value: name or generateName is required"], id="no name"
        ),
        pytest.param(
            make_set("Ab-x", generateName="Ab-"),
            [
                f'metadata.generateName: Invalid value: "Ab-": {DNS1035}',
                f'metadata.name: Invalid value: "Ab-x": {DNS1035}',
            ],
            id="generateName before name",
        ),
        pytest.param(
            make_set(replicas=-1),
            ["spec.replicas: Invalid value: -1: replicas must be equal or greater than 0"],
            id="negative replicas",
        ),
        pytest.param(
            make_set(replicas=1_000_001, size=1),
            ["spec.replicas: Invalid value: 1000001: replicas must be equal or less than 1000000"],
            id="too many replicas",
        ),
        pytest.param(
            make_set(disrupted=-1),
            [f"{MAX_UNAVAILABLE_GROUPS}: Invalid value: -1: must be greater than or equal to 0"],
            id="negative disruption budget",
        ),
        pytest.param(
            make_set(disrupted="101%"),
            [f'{MAX_UNAVAILABLE_GROUPS}: Invalid value: "101%": must not be greater than 100%'],
            id="disruption budget above 100%",
        ),
        pytest.param(
            make_set(disrupted=True),
            [f"{MAX_UNAVAILABLE_GROUPS}: Invalid value: true: must be an integer or a percentage"],
            id="disruption budget of another type",
        ),
        pytest.param(
            make_set(size=0),
            ["spec.leaderWorkerTemplate.size: Invalid value: 0: size must be equal or greater than 1"],
            id="size 0",
        ),
        pytest.param(
            make_set(replicas=1_000_000, size=2148),
            [
                "spec.replicas: Invalid value: 1000000: "
                "the product of replicas and worker replicas must not exceed 2147483647"
            ],
            id="too many pods",
        ),
        pytest.param(
            make_set(max_unavailable=-1),
            [f"{MAX_UNAVAILABLE}: Invalid value: -1: must be greater than or equal to 0"],
            id="max_unavailable < 0",
        ),
        pytest.param(
            make_set(max_surge=-1),
            [f"{MAX_SURGE}: Invalid value: -1: must be greater than or equal to 0"],
            id="max_surge < 0",
        ),
        pytest.param(
            make_set(max_unavailable="5"),
            [
                f'{MAX_UNAVAILABLE}: Invalid value: "5": {PERCENT}',
                f'{MAX_UNAVAILABLE}: Invalid value: "5": invalid value',
            ],
            id="max_unavailable is no percentage",
        ),
        pytest.param(
            make_set(max_surge="a%"),
            [
                f'{MAX_SURGE}: Invalid value: "a%": {PERCENT}',
                f'{MAX_SURGE}: Invalid value: "a%": invalid value',
            ],
            id="max_surge is no percentage",
        ),
        pytest.param(
            make_set(max_unavailable="x", max_surge="y", partition=-2),
            [
                f'{MAX_UNAVAILABLE}: Invalid value: "x": {PERCENT}',
                f'{MAX_SURGE}: Invalid value: "y": {PERCENT}',
                f"{PARTITION}: Invalid value: -2: must be greater than or equal to 0",
                f'{MAX_UNAVAILABLE}: Invalid value: "x": invalid value',
                f'{MAX_SURGE}: Invalid value: "y": invalid value',
            ],
            id="order of budget errors",
        ),
        pytest.param(
            make_set(max_unavailable="101%"),
            [f'{MAX_UNAVAILABLE}: Invalid value: "101%": must not be greater than 100%'],
            id="max_unavailable > 100%",
        ),
        pytest.param(
            make_set(max_surge="1000%"),
            [f'{MAX_SURGE}: Invalid value: "1000%": must not be greater than 100%'],
            id="max_surge > 100%",
        ),
        pytest.param(
            make_set(partition=-1),
            [f"{PARTITION}: Invalid value: -1: must be greater than or equal to 0"],
            id="partition < 0",
        ),
        pytest.param(
            make_set(max_unavailable=0),
            [f"{MAX_UNAVAILABLE}: Invalid value: 0: {BOTH_ZERO}"],
            id="both budgets 0",
        ),
        pytest.param(
            make_set(max_unavailable="25%", replicas=2),
            [f'{MAX_UNAVAILABLE}: Invalid value: "25%": {BOTH_ZERO}'],
            id="25% of 2 is 0",
        ),
        pytest.param(
            make_set(subgroup={}),
            [f"{SUBGROUP}: Required value: subGroupSize is required"],
            id="empty subGroupPolicy",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(None)),
            [f"{SUBGROUP}: Required value: subGroupSize is required"],
            id="subGroupPolicy with only a type",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(0)),
            [f"{SUBGROUP}: Invalid value: 0: subGroupSize must be equal or greater than 1"],
            id="subGroupSize 0",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(-3)),
            [f"{SUBGROUP}: Invalid value: -3: subGroupSize must be equal or greater than 1"],
            id="subGroupSize < 0",
        ),
        pytest.param(
            make_set(size=6, subgroup=make_subgroup(4)),
            [f"{SUBGROUP}: Invalid value: 4: size or size - 1 must be divisible by subGroupSize"],
            id="not divisible",
        ),
        pytest.param(
            make_set(size=1, subgroup=make_subgroup(2)),
            [f"{SUBGROUP}: Invalid value: 2: subGroupSize cannot be larger than size"],
            id="subgroup larger than group",
        ),
        pytest.param(
            make_set(size=3, subgroup=make_subgroup(4)),
            [
                f"{SUBGROUP}: Invalid value: 4: size or size - 1 must be divisible by subGroupSize",
                f"{SUBGROUP}: Invalid value: 4: subGroupSize cannot be larger than size",
            ],
            id="not divisible and larger",
        ),
        pytest.param(
            make_set(size=4, subgroup=make_subgroup(2, "LeaderExcluded")),
            [
                f"{SUBGROUP}: Invalid value: 2: "
                "size-1 must be divisible by subGroupSize when using LeaderExcluded"
            ],
            id="LeaderExcluded not divisible",
        ),
        pytest.param(
            make_set(annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}),
            [
                "metadata.annotations.leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: "
                'Invalid value: "rack": '
                "cannot have subgroup-exclusive-topology without subGroupSize set"
            ],
            id="subgroup topology without subgroups",
        ),
        pytest.param(
            make_set(
                "A",
                replicas=-1,
                size=0,
                max_unavailable=-1,
                max_surge="101%",
                partition=-1,
                subgroup=make_subgroup(0),
            ),
            [
                f'metadata.name: Invalid value: "A": {DNS1035}',
                "spec.replicas: Invalid value: -1: replicas must be equal or greater than 0",
                "spec.leaderWorkerTemplate.size: Invalid value: 0: size must be equal or greater than 1",
                f"{MAX_UNAVAILABLE}: Invalid value: -1: must be greater than or equal to 0",
                f'{MAX_SURGE}: Invalid value: "101%": must not be greater than 100%',
                f"{PARTITION}: Invalid value: -1: must be greater than or equal to 0",
                f"{SUBGROUP}: Invalid value: 0: subGroupSize must be equal or greater than 1",
            ],
            id="order of rules",
        ),
        pytest.param(
            make_set(replicas="3"), ['spec.replicas: Invalid value: "3": must be an integer'], id="wrong type"
        ),
    ],
)
def test_refused_on_create(raw: dict[str, Any], expected: list[str]) -> None:
    assert messages(raw) == expected


# Names too long for the names derived from them


def too_long(name: str, room: int, extent: str, derived: str, length: int) -> str:
    return (
        f'metadata.name: Invalid value: "{name}": has {len(name)} characters, at most {room} are possible '
        f"with {extent}: the controller-revision-hash label of {derived}, would have {length} of at most 63 "
        "characters; choose a shorter name"
    )


@pytest.mark.parametrize(
    ("length", "fields", "expected"),
    [
        pytest.param(50, {"replicas": 10}, None, id="50: ten groups with workers"),
        pytest.param(
            51,
            {"replicas": 10},
            (50, "replicas 10, maxSurge 0 and size 4", "worker pods, <name>-9-<hash>", 64),
            id="51: ten groups with workers",
        ),
        pytest.param(49, {"replicas": 11}, None, id="49: eleven groups"),
        pytest.param(
            50,
            {"replicas": 11},
            (49, "replicas 11, maxSurge 0 and size 4", "worker pods, <name>-10-<hash>", 64),
            id="50: eleven groups",
        ),
        pytest.param(
            50,
            {"replicas": 10, "max_surge": 1},
            (49, "replicas 10, maxSurge 1 and size 4", "worker pods, <name>-10-<hash>", 64),
            id="50: surge counts",
        ),
        pytest.param(
            50,
            {"replicas": 10, "max_surge": "5%"},
            (49, "replicas 10, maxSurge 1 and size 4", "worker pods, <name>-10-<hash>", 64),
            id="50: surge in percent counts",
        ),
        pytest.param(50, {"replicas": 5, "max_surge": 100}, None, id="50: surge counts up to the replicas"),
        pytest.param(52, {"size": 1, "replicas": 1000}, None, id="52: groups of one"),
        pytest.param(
            53,
            {"size": 1},
            (52, "replicas 2, maxSurge 0 and size 1", "leader pods, <name>-<hash>", 64),
            id="53: groups of one",
        ),
        pytest.param(50, {"replicas": 0}, None, id="50: no group yet"),
        pytest.param(
            51,
            {"replicas": 0},
            (50, "replicas 0, maxSurge 0 and size 4", "worker pods, <name>-0-<hash>", 64),
            id="51: no group yet, but any would fail",
        ),
    ],
)
def test_name_length_on_create(
    length: int, fields: dict[str, Any], expected: tuple[int, str, str, int] | None
) -> None:
    name = "a" * length
    assert messages(make_set(name, **fields)) == ([too_long(name, *expected)] if expected else [])


def test_an_error_about_a_long_name_contains_both_limits() -> None:
    name = "a" * 64
    derived = too_long(name, 50, "replicas 2, maxSurge 0 and size 4", "worker pods, <name>-1-<hash>", 77)
    assert messages(make_set(name)) == [
        f'metadata.name: Invalid value: "{name}": must be no more than 63 bytes',
        derived,
    ]


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param({}, {"partition": 1}, False, id="unchanged"),
        pytest.param({"replicas": 3}, {"replicas": 2}, False, id="fewer replicas"),
        pytest.param({"size": 4}, {"size": 3}, False, id="smaller groups"),
        pytest.param({"max_surge": 1}, {"max_surge": 0}, False, id="less surge"),
        pytest.param({"max_surge": 2}, {"max_surge": 7}, False, id="surge above the replicas"),
        pytest.param({"replicas": 2}, {"replicas": 3}, True, id="more replicas"),
        pytest.param({"size": 4}, {"size": 5}, True, id="larger groups"),
        pytest.param({"max_surge": 0}, {"max_surge": 1}, True, id="more surge"),
        pytest.param(
            {"replicas": 3, "max_surge": 0},
            {"replicas": 2, "max_surge": 1},
            True,
            id="fewer replicas, more surge",
        ),
    ],
)
def test_name_length_on_update(old: dict[str, Any], new: dict[str, Any], refused: bool) -> None:
    name = "a" * 60
    errors = messages(make_set(name, **new), make_set(name, **old))
    assert [("characters, at most 50 are possible" in error) for error in errors] == [True] * refused


# Update


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            make_set(subgroup=make_subgroup(2)),
            make_set(subgroup=make_subgroup(4)),
            [f"{SUBGROUP}: Invalid value: 4: field is immutable"],
            id="subgroup size changed",
        ),
        pytest.param(
            make_set(),
            make_set(subgroup=make_subgroup(2)),
            [f"{SUBGROUP}: Invalid value: 2: cannot enable subGroupSize after the lws is already created"],
            id="subgroups added",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(2)),
            make_set(),
            [f"{SUBGROUP}: Invalid value: 2: cannot remove subGroupSize after enabled"],
            id="subgroups removed",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(2)),
            make_set(subgroup=make_subgroup(None)),
            [f"{SUBGROUP}: Required value: subGroupSize is required"],
            id="subgroup size removed",
        ),
        pytest.param(
            make_set(size=5, subgroup=make_subgroup(2)),
            make_set(size=5, subgroup=make_subgroup(2, "LeaderExcluded")),
            [],
            id="subgroup type changed",
        ),
        pytest.param(
            make_set(subgroup=make_subgroup(2)),
            make_set(size=6, subgroup=make_subgroup(2)),
            [],
            id="size changed",
        ),
        pytest.param(
            make_set(size=4, subgroup=make_subgroup(2)),
            make_set(size=0, subgroup=make_subgroup(1)),
            [
                "spec.leaderWorkerTemplate.size: Invalid value: 0: size must be equal or greater than 1",
                f"{SUBGROUP}: Invalid value: 1: subGroupSize cannot be larger than size",
                f"{SUBGROUP}: Invalid value: 1: field is immutable",
            ],
            id="rules of updates come last",
        ),
    ],
)
def test_update(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    assert messages(new, old) == expected


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        pytest.param(
            {"subdomainPolicy": None},
            ["spec.networkConfig.subdomainPolicy: Invalid value: null: cannot set subdomainPolicy as null"],
            id="null policy",
        ),
        pytest.param({}, [], id="older CRD: no policy"),
        pytest.param(None, [], id="no network"),
        pytest.param({"subdomainPolicy": "UniquePerReplica"}, [], id="other policy"),
    ],
)
def test_network_on_update(network: Any, expected: list[str]) -> None:
    new = make_set(replicas=3)
    new["spec"]["networkConfig"] = network
    assert messages(new, make_set()) == expected


# An object that breaks most rules. The cases below decide whether the rules apply.
BROKEN = make_set("x" * 63, replicas=-1, max_unavailable=0, subgroup={})


def changed(raw: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**copy.deepcopy(raw), "metadata": {**raw["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("new", "is_checked"),
    [
        pytest.param(changed(BROKEN), False, id="nothing changed"),
        pytest.param(changed(BROKEN, labels={"a": "b"}), False, id="label added"),
        pytest.param(changed(BROKEN, finalizers=[]), False, id="finalizer removed"),
        pytest.param(changed(BROKEN, annotations={"a": "b"}), False, id="unknown annotation"),
        pytest.param(changed(BROKEN, annotations=None), False, id="null annotations"),
        pytest.param(changed(BROKEN, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "r"}), True, id="topology"),
        pytest.param(
            changed(BROKEN, annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "r"}),
            True,
            id="subgroup topology",
        ),
        pytest.param(
            changed(BROKEN, annotations={RECREATE_GROUP_AFTER_START_ANNOTATION: ""}),
            True,
            id="recreate after start",
        ),
        pytest.param(
            make_set("x" * 63, replicas=-2, max_unavailable=0, subgroup={}), True, id="spec changed"
        ),
        pytest.param(
            make_set(
                "x" * 63,
                replicas=-2,
                max_unavailable=0,
                subgroup={},
                deletionTimestamp="2026-01-01T00:00:00Z",
            ),
            False,
            id="being deleted",
        ),
    ],
)
def test_only_changes_are_validated(new: dict[str, Any], is_checked: bool) -> None:
    assert bool(errors_in(new, BROKEN)) is is_checked


def test_defaults_that_an_older_release_did_not_store_are_no_change() -> None:
    old = copy.deepcopy(BROKEN)
    del old["spec"]["networkConfig"]
    stored = copy.deepcopy(old)
    new = changed(old, labels={"a": "b"})
    default(new)
    assert new["spec"] != old["spec"]
    assert errors_in(new, old) == []
    assert old == stored


@pytest.mark.parametrize("old", [None, {}], ids=["none", "empty"])
def test_the_whole_object_is_validated_without_an_old_object(old: dict[str, Any] | None) -> None:
    assert errors_in(BROKEN, old)


# Budgets of 0 and 0 on update: rejected, or a warning


WARNING = (
    f"{MAX_UNAVAILABLE}: 25% with maxSurge 0 allows none of 2 groups to be replaced; updates go on as with "
    "maxUnavailable 1. Raise one of them."
)


@pytest.mark.parametrize(
    ("old", "new", "errors", "warnings"),
    [
        pytest.param(
            {"replicas": 4, "max_unavailable": "25%"},
            {"replicas": 2, "max_unavailable": "25%"},
            [],
            [WARNING],
            id="scaled down to it",
        ),
        pytest.param(
            {"replicas": 0, "max_unavailable": "25%"},
            {"replicas": 2, "max_unavailable": "25%"},
            [],
            [WARNING],
            id="scaled up from none",
        ),
        pytest.param(
            {"replicas": 2, "max_unavailable": 1},
            {"replicas": 2, "max_unavailable": "25%"},
            [f'{MAX_UNAVAILABLE}: Invalid value: "25%": {BOTH_ZERO}'],
            [],
            id="budget changed",
        ),
        pytest.param(
            {"replicas": 4, "max_unavailable": "25%", "max_surge": 1},
            {"replicas": 2, "max_unavailable": "25%"},
            [f'{MAX_UNAVAILABLE}: Invalid value: "25%": {BOTH_ZERO}'],
            [],
            id="replicas and a budget changed",
        ),
        pytest.param(
            {"replicas": 2, "max_unavailable": "25%", "partition": 1},
            {"replicas": 2, "max_unavailable": "25%"},
            [],
            [],
            id="neither changed",
        ),
        pytest.param(
            {"replicas": 2, "max_unavailable": "25%"},
            {"replicas": 4, "max_unavailable": "25%"},
            [],
            [],
            id="scaled out of it",
        ),
        pytest.param(
            {"replicas": 4, "max_unavailable": "25%"},
            {"replicas": 0, "max_unavailable": "25%"},
            [],
            [],
            id="scaled to none",
        ),
    ],
)
def test_zero_budgets_on_update(
    old: dict[str, Any], new: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    before, after = make_set(**old), make_set(**new)
    assert (messages(after, before), warnings_in(after, before)) == (errors, warnings)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(make_set(replicas=2, max_unavailable="25%"), None, id="on create it is an error"),
        pytest.param(
            make_set(replicas=2, max_unavailable="25%", deletionTimestamp="2026-01-01T00:00:00Z"),
            make_set(replicas=4, max_unavailable="25%"),
            id="being deleted",
        ),
        pytest.param(
            make_set(replicas="2", max_unavailable="25%"),
            make_set(replicas=4, max_unavailable="25%"),
            id="wrong type",
        ),
    ],
)
def test_no_warning(new: dict[str, Any], old: dict[str, Any] | None) -> None:
    assert warnings_in(new, old) == []


# Invalid values in every field

JUNK = [None, True, -1, 0, 1.5, 10**30, "", "x", "9" * 5000 + "%", "\ud800", [], [None], {}, {"a": None}]
FULL = make_set(
    subgroup=make_subgroup(2),
    annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
    generateName="vl-",
)


def paths_in(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return [path]
    below = [nested for key in value for nested in paths_in(value[key], (*path, key))]
    return [path, *below] if path else below


def with_junk(raw: dict[str, Any], path: tuple[str, ...], junk: Any) -> dict[str, Any]:
    broken: dict[str, Any] = copied(raw)
    parent = broken
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = copy.deepcopy(junk)
    return broken


@pytest.mark.parametrize("path", paths_in(FULL), ids=".".join)
def test_sets_of_any_shape_cause_no_exception(path: tuple[str, ...]) -> None:
    for junk in JUNK:
        new = with_junk(FULL, path, junk)
        default(new)
        once = copied(new)
        default(new)
        assert new == once
        for after, before in ((new, None), (new, FULL), (FULL, new)):
            assert all(str(error) for error in errors_in(after, before))
            assert all(warnings_in(after, before))
        assert new == once


def rich_set() -> dict[str, Any]:
    """Return a set with everything that a rule reads."""
    lws = copy.deepcopy(FULL)
    term = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}
    container = {
        "name": "w",
        "env": [{"name": "TPU_PROCESS_PORT", "value": "1"}],
        "resources": {"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": "4"}},
    }
    pod = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {
            "affinity": {"podAffinity": term, "podAntiAffinity": term},
            "initContainers": [{**container, "name": "i", "restartPolicy": "Always"}],
            "containers": [container],
            "restartPolicy": "Always",
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    lws["metadata"]["annotations"][EXCLUSIVE_TOPOLOGY_ANNOTATION] = "zone"
    lws["spec"]["leaderWorkerTemplate"] |= {
        "leaderTemplate": pod,
        "workerTemplate": copy.deepcopy(pod),
        "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
    }
    return lws


def all_paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    below = [nested for key in keys for nested in all_paths_in(value[key], (*path, key))]
    return [path, *below] if path else below


def test_templates_and_claims_of_any_shape_cause_no_exception() -> None:
    valid, gangs = rich_set(), itertools.cycle(PROVIDERS.values())
    for path in all_paths_in(valid):
        for junk in JUNK[::4]:
            new = with_junk(valid, path, junk)
            for after, before in ((new, None), (new, valid), (valid, new)):
                assert all(str(error) for error in errors_in(after, before, [new, valid]))
                assert all(warnings_in(after, before, next(gangs)))


BEYOND = "json: cannot unmarshal number 4294967296 into Go value of type int32"


def with_numbers(port: int) -> dict[str, Any]:
    lws = make_set(max_unavailable=port, max_surge=port)
    lws["spec"] |= {"revisionHistoryLimit": port, "leaderService": {"ports": [{"port": port}]}}
    pod = {"containers": [{"name": "w", "image": "a:1", "ports": [{"containerPort": port}]}]}
    claim = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1e1.5"}}}}
    lws["spec"]["leaderWorkerTemplate"] |= {
        "workerTemplate": {"spec": pod},
        "volumeClaimTemplates": [claim] if port > 2**31 else [],
    }
    return lws


def test_numbers_that_upstream_cannot_parse_are_rejected() -> None:
    """The set could never be created, and typed clients could list no set at all."""
    details = {error.path: error.detail for error in errors_in(with_numbers(2**32))}
    template, rolling = "spec.leaderWorkerTemplate", "spec.rolloutStrategy.rollingUpdateConfiguration"
    claim = f"{template}.volumeClaimTemplates[0].spec.resources.requests[storage]"
    assert details.pop(claim).startswith("quantities must match")
    assert details == dict.fromkeys(
        (
            "spec.revisionHistoryLimit",
            "spec.leaderService.ports[0].port",
            f"{template}.workerTemplate.spec.containers[0].ports[0].containerPort",
            f"{rolling}.maxUnavailable",
            f"{rolling}.maxSurge",
        ),
        BEYOND,
    )
    assert errors_in(with_numbers(80)) == []
    stored = with_numbers(2**32)
    assert errors_in({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}, stored) == []


MULTIKUEUE, OURS = "kueue.x-k8s.io/multikueue", "leaderworkerset.sigs.k8s.io/lws-controller"
NO_PATH = 'must be a domain-prefixed path (such as "acme.io/foo")'


def managed_by(name: str | None) -> dict[str, Any]:
    lws = make_set()
    lws["spec"]["managedBy"] = name
    return lws


@pytest.mark.parametrize(
    ("name", "details"),
    [
        (None, []),
        (MULTIKUEUE, []),
        (OURS, []),
        ("acme.io/a/b~c", []),
        ("a.io/" + "b" * 58, []),
        ("a.io/" + "b" * 59, ["must be no more than 63 bytes"]),
        ("", [NO_PATH]),
        ("multikueue", [NO_PATH]),
        ("/multikueue", [NO_PATH]),
        ("acme.io/", [NO_PATH]),
        ("Acme.io/foo", ["domain part a lowercase RFC 1123 subdomain must consist of"]),
        ("acme.io/f o", ["path part must consist of characters of an HTTP path"]),
    ],
)
def test_managed_by_must_be_a_domain_prefixed_path(name: str | None, details: list[str]) -> None:
    """The rules are those of Job."""
    errors = errors_in(managed_by(name))
    assert [error.detail[: len(text)] for error, text in zip(errors, details, strict=True)] == details
    assert {error.path for error in errors} <= {"spec.managedBy"}


@pytest.mark.parametrize("name", [5, True, [], {}])
def test_invalid_controller_names_are_left_to_the_crd(name: Any) -> None:
    """`lws plan` checks manifests that no API server has validated."""
    assert errors_in(managed_by(name)) == []


@pytest.mark.parametrize(
    ("before", "after"), [(None, MULTIKUEUE), (MULTIKUEUE, None), (None, OURS), (MULTIKUEUE, "a.io/b")]
)
def test_the_controller_of_a_set_is_immutable(before: str | None, after: str | None) -> None:
    (error,) = errors_in(managed_by(after), managed_by(before))
    assert (error.path, error.detail) == ("spec.managedBy", "field is immutable")


def test_a_set_of_another_controller_is_validated_and_can_be_edited() -> None:
    stored, scaled = managed_by(MULTIKUEUE), managed_by(MULTIKUEUE)
    scaled["spec"]["replicas"] = 3
    assert errors_in(scaled, stored) == []
    scaled["spec"]["replicas"] = -1
    assert [error.path for error in errors_in(scaled, stored)] == ["spec.replicas"]
    stored["spec"]["managedBy"] = scaled["spec"]["managedBy"] = "stored without a webhook"
    scaled["spec"]["replicas"] = 3
    assert errors_in(scaled, stored) == []
