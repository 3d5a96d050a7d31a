"""Tests of DisaggregatedSets taken over from upstream: settled sets stay as they are, rollouts continue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from lws.kube.metadata import controller_of
from lws_api.disaggregatedset.v1 import KIND, REVISION_LABEL, SCALER_KIND
from test.unit.stories.disaggregated_world import CHILD, World
from test.unit.stories.fake_manager import Crash
from test.unit.stories.upstream_sets import VERSIONS, UpstreamSet, role, upstream_key

V1 = "980bcb92"
DRIFTED = "0badc0de"
OURS = "disaggregatedset"
"""The kind of the passes that take over sets."""


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    yield World(loop)
    loop.close()


def bring_up(world: World) -> int:
    """Let LeaderWorkerSets get their groups while no manager acts on their set. Return the version at its
    end.
    """
    _run_other_controllers(world)
    return int(world.cluster.version)


def _run_other_controllers(world: World) -> None:
    version = ""
    while version != world.cluster.version:
        version = world.cluster.version
        for kind in world.manager.late:
            world.manager.read(kind)
        keys = [key for key in world.manager.queue.keys if key.kind != OURS]
        for key in keys:
            world.manager.run_pass(key)
        world.nodes.sync_all()
        for move in world.nodes.moves():
            move()
    assert any(key.kind == OURS for key in world.manager.queue.keys)


def own_writes(world: World, since: int) -> list[tuple[str, str]]:
    """Return kind and name of each later write to the set, its scalers, Services, revisions and children,
    except for the status of children.
    """
    writes = []
    for kind in (KIND, SCALER_KIND, CHILD, "Service", "ControllerRevision"):
        before: dict[str, Any] = {}
        for is_deleted, obj in world.cluster.log[kind]:
            name = obj["metadata"]["name"]
            former, before[name] = before.get(name), obj
            is_own = kind == KIND or (controller_of(obj) or {}).get("kind") == KIND
            if not is_own or int(obj["metadata"]["resourceVersion"]) <= since:
                continue
            is_status = former is not None and _but_status(former) == _but_status(obj) and not is_deleted
            if not (kind == CHILD and is_status):
                writes.append((kind, name))
    return writes


def _but_status(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {field: value for field, value in obj["metadata"].items() if field != "resourceVersion"}
    return {**obj, "metadata": metadata, "status": None}


@dataclass
class SettledSet:
    """A settled set of upstream.

    counts: groups of prefill and decode, in each slice. external: whether decode has a scaler.
    """

    version: str
    slices: int = 1
    external: bool = False
    key: str = ""
    counts: tuple[int, int] = (2, 3)
    has_served: bool = True

    def store(self, world: World) -> str:
        """Store the set and its objects. Return the key that runs."""
        prefill, decode = self.counts
        roles = [role("prefill", prefill), role("decode", None if self.external else decode)]
        upstream = UpstreamSet(
            world.cluster, self.version, roles, {} if self.slices == 1 else {"slices": self.slices}
        )
        key = self.key or upstream.key
        counts = {"prefill": prefill, "decode": decode}
        for index in range(self.slices):
            for role_spec in upstream.obj["spec"]["roles"]:
                upstream.child(key, role_spec, counts[role_spec["name"]], index=index)
                if self.has_served:
                    upstream.service(key, role_spec, index)
        if self.external:
            upstream.scaler("decode", decode * self.slices)
        upstream.status({name: count * self.slices for name, count in counts.items()}, True)
        return key


SETTLED_SETS = [
    *(SettledSet(version) for version in VERSIONS),
    *(SettledSet(version, key=DRIFTED) for version in VERSIONS),
    *(SettledSet(version, counts=(0, 0), has_served=False) for version in VERSIONS),
    *(SettledSet(version, counts=(0, 0)) for version in VERSIONS),
    *(SettledSet(version, counts=(2, 0), external=True) for version in VERSIONS),
    *(SettledSet(version, slices=3) for version in VERSIONS[1:]),
    *(SettledSet(version, external=True) for version in VERSIONS[1:]),
    *(SettledSet(version, slices=3, external=True, key=DRIFTED) for version in VERSIONS[1:]),
]


@pytest.mark.parametrize("settled_set", SETTLED_SETS, ids=str)
def test_a_settled_set_is_recorded_and_left_alone(world: World, settled_set: SettledSet) -> None:
    key = settled_set.store(world)
    since = bring_up(world)
    pods = {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")}
    stored = {
        (kind, obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
        for kind in (CHILD, "Service", SCALER_KIND)
        for obj in world.cluster.of_kind(kind)
    }
    world.settle()
    assert sorted(own_writes(world, since)) == [("ControllerRevision", f"demo-{key}-1"), (KIND, "demo")]
    for (kind, name), version in stored.items():
        assert world.get(kind, name)["metadata"]["resourceVersion"] == version
    assert {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")} == pods
    assert world.conditions["Available"] == "True"
    assert world.status["updateRevision"] == f"demo-{key}-1"
    if settled_set.version == "reference":
        (available,) = [
            condition for condition in world.status["conditions"] if condition["type"] == "Available"
        ]
        assert available["lastTransitionTime"] == "2026-02-01T00:00:00Z"
    before = world.cluster.writes
    world.manager.resync()
    world.settle()
    assert world.cluster.writes == before, "none on the next pass"


def test_new_children_carry_the_key_that_upstream_computes(world: World) -> None:
    """Upstream computes the key that children carry."""
    assert SettledSet("reference", slices=3).store(world) == V1
    bring_up(world)
    world.settle()
    assert upstream_key(world.get(KIND)["spec"]["roles"]) == V1
    assert {child["metadata"]["labels"][REVISION_LABEL] for child in world.children} == {V1}


Counts = tuple[int, ...]
Row = tuple[Counts, Counts]
NAMES = ("prefill", "decode", "router")


@dataclass
class Example:
    """A rollout of §8.

    steps: old|new, row by row. before, after: names of roles. budgets: surge, then unavailable.
    """

    name: str
    steps: str
    before: tuple[str, ...] = NAMES[:2]
    after: tuple[str, ...] = NAMES[:2]
    budgets: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> list[Row]:
        return [_row(step) for step in self.steps.split()]

    def roles(self, names: tuple[str, ...], counts: Counts, image: str) -> list[dict[str, Any]]:
        role_specs = []
        for index, (name, count) in enumerate(zip(NAMES, counts, strict=False)):
            fields = ("maxSurge", "maxUnavailable")
            budget = dict(zip(fields, self.budgets[index], strict=True)) if self.budgets else {}
            if name in names:
                role_specs.append(role(name, count, image, **budget))
        return role_specs


def _row(text: str) -> Row:
    old, new = ([int(count) for count in side.split(",")] for side in text.split("|"))
    return tuple(old), tuple(new)


EXAMPLES = [
    Example("A", "4,2|0,0 4,2|1,1 3,2|1,1 3,2|2,1 2,1|2,1 2,1|3,2 1,1|3,2 1,1|4,2 0,0|4,2"),
    Example("B", "3,3|0,0 2,2|0,0 2,2|1,1 1,1|1,1 1,1|2,2 0,0|2,2 0,0|3,3", budgets=((0, 1), (0, 1))),
    Example("C", "7,3|0,0 7,3|3,1 5,2|3,1 5,2|5,2 3,1|5,2 3,1|7,3 0,0|7,3", budgets=((3, 0), (1, 0))),
    Example("D", "2,4|0,0 2,4|1,1 2,3|2,2 2,2|3,3 1,2|3,3 1,1|4,4 1,1|5,4 0,0|5,4"),
    Example(
        "E",
        "6,2|0,0 5,2|0,0 4,2|0,0 3,2|0,0 3,2|1,1 2,1|1,1 2,1|2,1 2,1|2,2 1,1|2,2 1,1|3,2 0,0|3,2",
    ),
    Example(
        "F",
        "4,6,0|0,0,0 4,6,0|1,1,1 4,5,0|1,1,1 3,5,0|1,1,1 3,5,0|2,2,1 3,4,0|2,2,1 3,4,0|2,3,1 2,3,0|2,3,1 "
        "2,3,0|3,4,2 2,2,0|3,4,2 1,2,0|3,4,2 1,2,0|4,5,2 1,1,0|4,5,2 1,1,0|4,6,2 0,0,0|4,6,2",
        after=NAMES,
    ),
    Example(
        "G",
        "4,6,2|0,0,0 4,6,2|1,1,0 4,5,2|1,1,0 3,5,2|1,1,0 3,5,2|2,2,0 3,4,2|2,2,0 3,4,2|2,3,0 2,3,1|2,3,0 "
        "2,3,1|3,4,0 2,2,1|3,4,0 1,2,1|3,4,0 1,2,1|4,5,0 1,1,1|4,5,0 1,1,1|4,6,0 0,0,0|4,6,0",
        before=NAMES,
    ),
]
STEPS = [
    (version, example, at)
    for example in EXAMPLES
    for at in range(len(example.rows) - 1)
    for version in (VERSIONS if example.name == "A" else (VERSIONS[at % 3],))
]


class Watch:
    """Record the desired groups of children after each pass, if they changed.

    keys: the old revisions, then the new one.
    """

    def __init__(self, world: World, width: int, *keys: str) -> None:
        self.rows: list[tuple[Counts, ...]] = []
        self._world, self._width, self._keys = world, width, keys
        world.after_pass = self._look

    def _look(self) -> None:
        counts = self._world.counts()
        names = NAMES[: self._width]
        row = tuple(tuple(counts.get(key, {}).get(name, 0) for name in names) for key in self._keys)
        if not self.rows or self.rows[-1] != row:
            self.rows.append(row)

    def steps(self, expected: Sequence[tuple[Counts, ...]]) -> list[tuple[Counts, ...]]:
        """Return the rows, except for those in which the rest of a step waits for terminating groups."""
        rows: list[tuple[Counts, ...]] = []
        for row in self.rows:
            *old, new = row
            whole_step = expected[len(rows)] if 0 < len(rows) < len(expected) else row
            is_open = (
                old == [*whole_step[:-1]] and all(map(int.__le__, new, whole_step[-1])) and row != whole_step
            )
            if not is_open:
                rows.append(row)
        return rows


def store_in_rollout(world: World, version: str, example: Example, at: int) -> tuple[str, str]:
    """Store the set as upstream has it in one row of a rollout. Return the old key and the new one."""
    (initial, _), (old, new) = example.rows[0], example.rows[at]
    roles = example.roles(example.after, example.rows[-1][1], "nginx:2")
    upstream = UpstreamSet(world.cluster, version, roles)
    before = UpstreamSet.completed(example.roles(example.before, initial, "nginx:1"))
    for role_spec, start, count in zip(before, initial, old, strict=False):
        upstream.child(upstream_key(before), role_spec, count, start)
        upstream.service(upstream_key(before), role_spec)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=False):
        upstream.child(upstream.key, role_spec, count)
        if all(new[: len(example.after)]):
            upstream.service(upstream.key, role_spec)
    sums = {role_spec["name"]: old[i] + new[i] for i, role_spec in enumerate(upstream.obj["spec"]["roles"])}
    upstream.status(sums, False)
    return upstream_key(before), upstream.key


@pytest.mark.parametrize(
    ("version", "example", "at"),
    STEPS,
    ids=[f"{example.name}{at}-{version}" for version, example, at in STEPS],
)
def test_a_rollout_continues_with_the_next_step(
    world: World, version: str, example: Example, at: int
) -> None:
    keys = store_in_rollout(world, version, example, at)
    since = bring_up(world)
    watch = Watch(world, len(example.rows[0][0]), *keys)
    world.settle()
    assert watch.steps(example.rows[at:]) == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since), "nothing but counts is written"
    assert set(world.counts()) == {keys[1]} and world.conditions["Available"] == "True"


def writes_to_children(world: World, since: int) -> int:
    """Return the number of writes to children, deletions excluded."""
    return sum(
        1
        for before, after in _changes(world, since)
        if after is not None and (before is None or _but_status(before) != _but_status(after))
    )


def scale_writes(world: World, since: int) -> int:
    """Return the number of writes that change only the replicas of a child."""
    return sum(
        1
        for before, after in _changes(world, since)
        if before is not None and after is not None and _is_scaled(before, after)
    )


def _is_scaled(before: dict[str, Any], after: dict[str, Any]) -> bool:
    same = [
        {**_but_status(obj), "metadata": {**obj["metadata"], "generation": 0, "resourceVersion": ""}}
        for obj in (before, after)
    ]
    specs = [{**obj["spec"], "replicas": 0} for obj in (before, after)]
    return (
        {**same[0], "spec": None} == {**same[1], "spec": None}
        and specs[0] == specs[1]
        and before["spec"]["replicas"] != after["spec"]["replicas"]
    )


def _changes(world: World, since: int) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Yield each later change of a child: before and after."""
    before: dict[str, dict[str, Any]] = {}
    for is_deleted, obj in world.cluster.log[CHILD]:
        name = obj["metadata"]["name"]
        former = before.pop(name, None)
        if not is_deleted:
            before[name] = obj
        if int(obj["metadata"]["resourceVersion"]) > since:
            yield former, None if is_deleted else obj


def test_a_rollout_that_lacks_a_child_continues(world: World) -> None:
    """Upstream stopped between two creations."""
    example = EXAMPLES[0]
    upstream = UpstreamSet(world.cluster, "reference", example.roles(NAMES[:2], (4, 2), "nginx:2"))
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    for role_spec, count in zip(before, (4, 2), strict=True):
        upstream.child(upstream_key(before), role_spec, count, count)
    upstream.child(upstream.key, upstream.obj["spec"]["roles"][0], 0)
    bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.steps(example.rows) == example.rows


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_baseline", [False, True])
def test_a_requested_rollout_begins(world: World, version: str, has_baseline: bool) -> None:
    example = EXAMPLES[0]
    upstream = UpstreamSet(world.cluster, version, example.roles(NAMES[:2], (4, 2), "nginx:2"))
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    for role_spec, count in zip(before, (4, 2), strict=True):
        upstream.child(upstream_key(before), role_spec, count, count if has_baseline else None)
    bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.steps(example.rows) == example.rows


def test_each_slice_continues_at_its_own_step(world: World) -> None:
    example = EXAMPLES[0]
    upstream = UpstreamSet(
        world.cluster, "reference", example.roles(NAMES[:2], (4, 2), "nginx:2"), {"slices": 3}
    )
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    for index, at in enumerate((1, 4, 6)):
        old, new = example.rows[at]
        for role_spec, start, count in zip(before, (4, 2), old, strict=True):
            upstream.child(upstream_key(before), role_spec, count, start, index)
        for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=True):
            upstream.child(upstream.key, role_spec, count, index=index)
    since = bring_up(world)
    seen: dict[int, list[Row]] = {0: [], 1: [], 2: []}

    def look() -> None:
        for index, rows in seen.items():
            of_slice = {
                child["metadata"]["name"]: child["spec"]["replicas"]
                for child in world.children
                if child["metadata"]["name"].startswith(f"demo-{index}-")
            }
            old, new = (
                tuple(of_slice.get(f"demo-{index}-{key}-{name}", 0) for name in NAMES[:2])
                for key in (upstream_key(before), upstream.key)
            )
            if not rows or rows[-1] != (old, new):
                rows.append((old, new))

    world.after_pass = look
    world.settle()
    assert seen == {0: example.rows[1:], 1: example.rows[4:], 2: example.rows[6:]}
    assert writes_to_children(world, since) == scale_writes(world, since)


@pytest.mark.parametrize("drifted", ["old", "new", "both"])
@pytest.mark.parametrize("at", [1, 4, 7])
def test_a_rollout_with_different_keys_continues(world: World, drifted: str, at: int) -> None:
    """A library computed other hashes, or the set's labels overwrote labels of users."""
    example = EXAMPLES[0]
    old, new = example.rows[at]
    upstream = UpstreamSet(world.cluster, "v0.10.0", example.roles(NAMES[:2], (4, 2), "nginx:2"))
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    keys = [
        "0ddba11a" if drifted in ("old", "both") else upstream_key(before),
        DRIFTED if drifted in ("new", "both") else upstream.key,
    ]
    for role_spec, start, count in zip(before, (4, 2), old, strict=True):
        upstream.child(keys[0], role_spec, count, start)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=True):
        upstream.child(keys[1], role_spec, count)
    since = bring_up(world)
    watch = Watch(world, 2, *keys)
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)


@pytest.mark.parametrize("at", [1, 2, 4, 6])
def test_the_rollout_of_an_externally_scaled_role_continues(world: World, at: int) -> None:
    example = EXAMPLES[0]
    old, new = example.rows[at]
    counts = (4, None)
    upstream = UpstreamSet(
        world.cluster, "reference", [role(*item, "nginx:2") for item in zip(NAMES, counts, strict=False)]
    )
    before = UpstreamSet.completed([role(*item, "nginx:1") for item in zip(NAMES, counts, strict=False)])
    for role_spec, start, count in zip(before, (4, 2), old, strict=True):
        upstream.child(upstream_key(before), role_spec, count, start)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=True):
        upstream.child(upstream.key, role_spec, count)
    upstream.scaler("decode", 2)
    since = bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)
    assert world.get(SCALER_KIND, "demo-decode")["spec"] == {"replicas": 2}


OVERTAKEN = [
    ((2, 2), (2, 2), (0, 0)),
    ((2, 2), (2, 2), (1, 1)),
    ((2, 2), (1, 1), (1, 1)),
    ((2, 2), (1, 1), (2, 2)),
    ((2, 2), (0, 0), (2, 2)),
    ((2, 2), (0, 0), (3, 3)),
    ((1, 1), (0, 0), (3, 3)),
    ((1, 1), (0, 0), (4, 4)),
    ((0, 0), (0, 0), (4, 4)),
]
"""Counts of A, B and C by §7 and §9, for (4,4) with a surge of one group."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("at", range(8))
def test_an_overtaken_rollout_continues(world: World, version: str, at: int) -> None:
    """A→B→C: B is replaced before A. Baselines are the counts at the start of C."""
    expected = OVERTAKEN
    images = {"nginx:1": (2, 2), "nginx:2": (2, 2)}
    upstream = UpstreamSet(world.cluster, version, [role(name, 4, "nginx:3") for name in NAMES[:2]])
    keys = []
    for (image, starts), counts in zip(images.items(), expected[at], strict=False):
        before = UpstreamSet.completed([role(name, 4, image) for name in NAMES[:2]])
        keys.append(upstream_key(before))
        for role_spec, start, count in zip(before, starts, counts, strict=True):
            if any(counts):
                upstream.child(keys[-1], role_spec, count, start)
        world.cluster.pass_time(60)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], expected[at][2], strict=True):
        upstream.child(upstream.key, role_spec, count)
    since = bring_up(world)
    watch = Watch(world, 2, *keys, upstream.key)
    world.settle()
    assert watch.steps(expected[at:]) == expected[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)


def test_a_legacy_set_with_a_scaler_is_left_alone(world: World) -> None:
    """The set was created with v0.9.0 and has had a scaler since v0.10.0."""
    upstream = UpstreamSet(world.cluster, "v0.9.0", [role("prefill", 2), role("decode", None)])
    for role_spec, count in zip(upstream.obj["spec"]["roles"], (2, 3), strict=True):
        upstream.child(upstream.key, role_spec, count)
        upstream.service(upstream.key, role_spec)
    upstream.scaler("decode", 3)
    since = bring_up(world)
    world.settle()
    assert sorted(own_writes(world, since)) == [
        ("ControllerRevision", f"demo-{upstream.key}-1"),
        (KIND, "demo"),
    ]


def _with_leader(role_spec: dict[str, Any]) -> None:
    template = role_spec["spec"]["leaderWorkerTemplate"]
    template["leaderTemplate"] = {
        "metadata": {"labels": {"tier": "front"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "leader", "image": "nginx:1", "resources": {}}]},
    }


def _with_own_app(role_spec: dict[str, Any]) -> None:
    template = role_spec["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["metadata"] = {"labels": {"app": "mine", "tier": "back"}}


def _with_metadata(role_spec: dict[str, Any]) -> None:
    role_spec["metadata"] = {"labels": {"team": "a", "app": "mine"}, "annotations": {"note": "x"}}


def _with_percentages(role_spec: dict[str, Any]) -> None:
    rolling = {"maxSurge": 0, "maxUnavailable": "20%"}
    role_spec["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling}


def _with_policies(role_spec: dict[str, Any]) -> None:
    role_spec["spec"] |= {
        "startupPolicy": "LeaderReady",
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
    }
    role_spec["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"


def _with_claims(role_spec: dict[str, Any]) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    role_spec["spec"]["leaderWorkerTemplate"]["volumeClaimTemplates"] = [claim]


def _with_odd_spellings(role_spec: dict[str, Any]) -> None:
    (container,) = role_spec["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": "1000m", "memory": "1024Mi"}}
    container["env"] = [{"name": "A", "value": "<&>"}, {"name": "B", "value": ""}]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "change",
    [
        _with_leader,
        _with_own_app,
        _with_metadata,
        _with_percentages,
        _with_policies,
        _with_odd_spellings,
        _with_claims,
    ],
)
@pytest.mark.parametrize("key", ["", DRIFTED])
def test_settled_roles_are_left_alone_whatever_their_spec(
    world: World, version: str, change: Any, key: str
) -> None:
    roles = [role("prefill", 2), role("decode", 1)]
    for role_spec in roles:
        change(role_spec)
    upstream = UpstreamSet(world.cluster, version, roles)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], (2, 1), strict=True):
        upstream.child(key or upstream.key, role_spec, count, initial=7)
        upstream.service(key or upstream.key, role_spec)
    upstream.status({"prefill": 2, "decode": 1}, True)
    since = bring_up(world)
    world.settle()
    name = f"demo-{key or upstream.key}-1"
    assert sorted(own_writes(world, since)) == [("ControllerRevision", name), (KIND, "demo")]


@pytest.mark.parametrize("before", ["0,1|4,2", "1,0|4,2", "4,2|1,0", "4,2|0,1", "2,1|3,1", "2,1|2,2"])
def test_an_interrupted_step_is_completed(world: World, before: str) -> None:
    """Upstream stopped between two writes of a step of §8 A."""
    old, new = _row(before)
    upstream = UpstreamSet(
        world.cluster, "reference", [role("prefill", 4, "nginx:2"), role("decode", 2, "nginx:2")]
    )
    roles = UpstreamSet.completed([role("prefill", 4, "nginx:1"), role("decode", 2, "nginx:1")])
    for role_spec, start, count in zip(roles, (4, 2), old, strict=True):
        upstream.child(upstream_key(roles), role_spec, count, start)
    for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=True):
        upstream.child(upstream.key, role_spec, count)
    bring_up(world)
    watch = Watch(world, 2, upstream_key(roles), upstream.key)
    world.settle()
    following = {
        "0,1|4,2": "0,0|4,2",
        "1,0|4,2": "0,0|4,2",
        "4,2|1,0": "4,2|1,1",
        "4,2|0,1": "4,2|1,1",
        "2,1|3,1": "2,1|3,2",
        "2,1|2,2": "2,1|3,2",
    }
    assert watch.rows[:2] == [_row(before), _row(following[before])]
    assert watch.rows[-1] == _row("0,0|4,2")


def test_only_the_legacy_slice_of_a_set_is_recreated(world: World) -> None:
    """Upstream recreates it, too: its pods lack the label that tells slices apart."""
    roles = [role("prefill", 2), role("decode", 1)]
    upstream = UpstreamSet(world.cluster, "v0.9.0", roles, {"slices": 3})
    for role_spec, count in zip(upstream.obj["spec"]["roles"], (2, 1), strict=True):
        upstream.child(upstream.key, role_spec, count)
        upstream.service(upstream.key, role_spec)
    upstream.version = "v0.10.0"
    for index in (1, 2):
        for role_spec, count in zip(upstream.obj["spec"]["roles"], (2, 1), strict=True):
            upstream.child(upstream.key, role_spec, count, index=index)
            upstream.service(upstream.key, role_spec, index)
    since = bring_up(world)
    world.settle()
    touched_names = {name for kind, name in own_writes(world, since) if kind in (CHILD, "Service")}
    assert not any(name.startswith(("demo-1-", "demo-2-")) for name in touched_names), touched_names
    assert {child["metadata"]["name"] for child in world.children} == {
        f"demo-{index}-{upstream.key}-{name}" for index in range(3) for name in NAMES[:2]
    }
    assert world.conditions["Available"] == "True"


@pytest.mark.parametrize("at", [1, 3, 5, 7])
def test_a_rollout_from_legacy_names_to_names_with_slices_continues(world: World, at: int) -> None:
    example = EXAMPLES[0]
    old, new = example.rows[at]
    upstream = UpstreamSet(world.cluster, "v0.9.0", example.roles(NAMES[:2], (4, 2), "nginx:2"))
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    for role_spec, start, count in zip(before, (4, 2), old, strict=True):
        upstream.child(upstream_key(before), role_spec, count, start)
        upstream.service(upstream_key(before), role_spec)
    upstream.version = "v0.10.0"
    for role_spec, count in zip(upstream.obj["spec"]["roles"], new, strict=True):
        upstream.child(upstream.key, role_spec, count)
    since = bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)


def test_the_rollback_of_a_change_continues(world: World) -> None:
    """A→B→A: upstream writes no baselines if the target has children."""
    upstream = UpstreamSet(world.cluster, "reference", [role(name, 4, "nginx:1") for name in NAMES[:2]])
    second = UpstreamSet.completed([role(name, 4, "nginx:2") for name in NAMES[:2]])
    for role_spec in upstream.obj["spec"]["roles"]:
        upstream.child(upstream.key, role_spec, 2, 4)
    for role_spec in second:
        upstream.child(upstream_key(second), role_spec, 2)
    bring_up(world)
    watch = Watch(world, 2, upstream_key(second), upstream.key)
    world.settle()
    expected = "2,2|2,2 2,2|3,3 1,1|3,3 1,1|4,4 0,0|4,4"
    assert watch.rows == [_row(row) for row in expected.split()]
    assert world.conditions["Available"] == "True"


@pytest.mark.parametrize("kind", ["ExclusiveSlice", "ExclusiveTopology"])
@pytest.mark.parametrize("key", ["", DRIFTED])
def test_placed_slices_are_left_alone(world: World, kind: str, key: str) -> None:
    spec = {"slices": 3, "placementPolicy": {"type": kind, "topology": "rack"}}
    upstream = UpstreamSet(world.cluster, "reference", [role("prefill", 2), role("decode", 1)], spec)
    for index in range(3):
        for role_spec, count in zip(upstream.obj["spec"]["roles"], (2, 1), strict=True):
            upstream.child(key or upstream.key, role_spec, count, index=index)
            upstream.service(key or upstream.key, role_spec, index)
    upstream.status({"prefill": 6, "decode": 3}, True)
    since = bring_up(world)
    world.settle()
    name = f"demo-{key or upstream.key}-1"
    assert sorted(own_writes(world, since)) == [("ControllerRevision", name), (KIND, "demo")]


def _reordered(roles: list[dict[str, Any]]) -> None:
    roles.reverse()


def _restarting_otherwise(roles: list[dict[str, Any]]) -> None:
    for role_spec in roles:
        role_spec["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"


def _spelled_otherwise(roles: list[dict[str, Any]]) -> None:
    for role_spec in roles:
        role_spec["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["dnsPolicy"] = "ClusterFirst"


@pytest.mark.parametrize("change", [_reordered, _restarting_otherwise, _spelled_otherwise])
@pytest.mark.parametrize("at", [0, 1, 4, 7])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_rollout_that_we_would_not_have_begun_continues(
    world: World, version: str, at: int, change: Any
) -> None:
    """Upstream computes another hash for an equivalent spec. We complete the rollout that it has begun."""
    example = EXAMPLES[0]
    old, new = example.rows[at]
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    roles = example.roles(NAMES[:2], (4, 2), "nginx:1")
    change(roles)
    upstream = UpstreamSet(world.cluster, version, roles)
    assert upstream.key != upstream_key(before)
    counts = dict(zip(NAMES, new, strict=False))
    for role_spec in upstream.obj["spec"]["roles"]:
        upstream.child(upstream.key, role_spec, counts[role_spec["name"]])
    # Old children may have been recreated by hand: their age proves nothing.
    world.cluster.pass_time(60)
    for role_spec, start, count in zip(before, (4, 2), old, strict=True):
        upstream.child(upstream_key(before), role_spec, count, start)
    since = bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)


def test_a_rollout_that_renames_all_roles_continues(world: World) -> None:
    """Upstream leaves the former roles behind and never drains them (wart)."""
    upstream = UpstreamSet(world.cluster, "reference", [role("a", 2), role("b", 2)])
    before = UpstreamSet.completed([role("prefill", 2), role("decode", 2)])
    for role_spec in before:
        upstream.child(upstream_key(before), role_spec, 2)
    for role_spec in upstream.obj["spec"]["roles"]:
        upstream.child(upstream.key, role_spec, 2)
    bring_up(world)
    world.settle()
    assert world.counts() == {upstream.key: {"a": 2, "b": 2}}
    assert world.conditions["Available"] == "True"


@pytest.mark.parametrize("at", [1, 4, 7, 8])
def test_edits_that_upstream_ignored_wait_for_the_next_revision(world: World, at: int) -> None:
    """Budgets, labels, network and placement are read only when a child is created."""
    example = EXAMPLES[0]
    old, new = example.rows[at]
    plain = example.roles(NAMES[:2], (4, 2), "nginx:2")
    edited = example.roles(NAMES[:2], (4, 2), "nginx:2")
    for role_spec in edited:
        _with_metadata(role_spec)
        role_spec["spec"]["startupPolicy"] = "LeaderReady"
        role_spec["spec"]["networkConfig"] = {"subdomainPolicy": "UniquePerReplica"}
        role_spec["spec"]["rolloutStrategy"] = {
            "rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 0}
        }
    upstream = UpstreamSet(world.cluster, "reference", edited)
    before = UpstreamSet.completed(example.roles(NAMES[:2], (4, 2), "nginx:1"))
    for role_spec, start, count in zip(before, (4, 2), old, strict=True):
        if any(old):
            upstream.child(upstream_key(before), role_spec, count, start)
    for role_spec, count in zip(UpstreamSet.completed(plain), new, strict=True):
        upstream.child(upstream.key, role_spec, count)
    since = bring_up(world)
    watch = Watch(world, 2, upstream_key(before), upstream.key)
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)
    pods = {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")}
    world.edit(lambda spec: spec["roles"][0]["spec"].update(replicas=5))
    world.settle()
    assert pods < {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")}
    assert world.counts() == {upstream.key: {"prefill": 5, "decode": 2}}


@pytest.mark.parametrize("example", [EXAMPLES[0], EXAMPLES[1]], ids=["A", "B"])
@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_set_that_is_reconciled_before_its_children_waits_for_them(
    world: World, version: str, at: int, example: Example
) -> None:
    """The LeaderWorkerSet statuses of upstream contain less than ours."""
    keys = store_in_rollout(world, version, example, at)
    bring_up(world)
    for child in world.children:
        counts = {field: child["status"].get(field, 0) for field in ("replicas", "readyReplicas")}
        world.cluster.change(child, status=counts)
    world.restart()
    since = int(world.cluster.version)
    watch = Watch(world, 2, *keys)
    for _ in range(3):
        for kind in world.manager.late:
            world.manager.read(kind)
        for key in [key for key in world.manager.queue.keys if key.kind == OURS]:
            world.manager.run_pass(key)
            world.after_pass()
    world.settle()
    assert watch.rows == example.rows[at:]
    assert writes_to_children(world, since) == scale_writes(world, since)


@pytest.mark.parametrize("write", range(1, 7))
@pytest.mark.parametrize("at", [0, 1, 4, 7])
def test_an_interrupted_takeover_is_resumed(world: World, at: int, write: int) -> None:
    example = EXAMPLES[0]
    keys = store_in_rollout(world, VERSIONS[at % 3], example, at)
    since = bring_up(world)
    watch = Watch(world, 2, *keys)
    writes = iter(range(write - 1, -1, -1))

    def crash() -> None:
        if next(writes, 1) == 0:
            raise Crash

    world.cluster.before_write = crash
    with pytest.raises(Crash):
        world.settle()
    world.restart()
    world.settle()
    expected = example.rows[at:]
    assert [row for row in watch.rows if row in expected] == expected
    assert writes_to_children(world, since) == scale_writes(world, since)
