"""Stories of DisaggregatedSets in a cluster in memory: created, scaled, rolled, repaired, deleted."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.routing import PASS
from lws.disaggregatedset.slices.course import slices_recorded
from lws.disaggregatedset.slices.state import recorded_children
from lws.kube.conditions import is_true
from lws.kube.metadata import RESTARTED_AT_ANNOTATION, controller_of, name_of
from lws.runtime.actions import Key
from lws_api.disaggregatedset.v1 import (
    INITIAL_REPLICAS_ANNOTATION,
    KIND,
    ROLE_LABEL,
    SCALER_KIND,
    SLICE_LABEL,
)
from test.unit.builders import make_set
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_world import CHILD, World


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    yield World(loop)
    loop.close()


def add(world: World, **spec: Any) -> None:
    obj = make_disaggregated(**spec)
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()


def image(world: World, name: str) -> None:
    """Give the containers of all roles another image, as a user does."""

    world.edit(lambda spec: _set_image(spec, name))
    world.settle()


def test_a_set_is_created_recorded_and_available(world: World) -> None:
    add(world)
    (counts,) = world.counts().values()
    assert counts == {"prefill": 2, "decode": 1}
    assert world.conditions == {"Available": "True", "Progressing": "False"}
    assert world.status["currentRevision"] == world.status["updateRevision"]
    before = world.cluster.writes
    world.manager.resync()
    world.settle()
    assert world.cluster.writes == before, "a set at rest costs no write"


class Steps:
    """Record the desired groups of the LeaderWorkerSets after each pass, if they changed.

    most: the largest number of groups that a role may have.
    """

    def __init__(self, world: World, most: dict[str, int]) -> None:
        self.rows: list[dict[str, dict[str, int]]] = []
        self._world, self._most = world, most
        world.after_pass = self.look

    def look(self) -> None:
        counts = self._world.counts()
        if not self.rows or self.rows[-1] != counts:
            self.rows.append(counts)
        for role, most in self._most.items():
            assert sum(of_key.get(role, 0) for of_key in counts.values()) <= most, (role, counts)

    def texts(self, *keys: str) -> list[str]:
        """Return the rows in the notation of the specification: by revision, then by role; "-" if there is
        none.
        """
        lines: list[str] = []
        for row in self.rows:
            names = list(dict.fromkeys(role for counts in row.values() for role in counts))
            order = [name for name in ("prefill", "decode", "router") if name in names]
            rows = [[str(row[key].get(role, "-")) for role in order] if key in row else ["-"] for key in keys]
            lines.append("|".join(",".join(row) for row in rows))
        return lines


def roles(prefill: int, decode: int, **more: Any) -> list[dict[str, Any]]:
    return [make_role("prefill", prefill, **more), make_role("decode", decode, **more)]


def only(world: World) -> str:
    """Return the key of the only revision."""
    (key,) = world.counts()
    return key


@pytest.mark.parametrize(
    ("before", "rolling", "most", "expected"),
    [
        pytest.param(
            (4, 2),
            {},
            {"prefill": 5, "decode": 3},
            "4,2|0,0 4,2|1,1 3,2|1,1 3,2|2,1 2,1|2,1 2,1|3,2 1,1|3,2 1,1|4,2 0,0|4,2",
            id="one on top",
        ),
        pytest.param(
            (3, 3),
            {"rolling": {"maxSurge": 0, "maxUnavailable": 1}},
            {"prefill": 3, "decode": 3},
            "3,3|0,0 2,2|0,0 2,2|1,1 1,1|1,1 1,1|2,2 0,0|2,2",
            id="one missing",
        ),
    ],
)
def test_a_rollout_takes_the_steps_of_upstream(
    world: World, before: Any, rolling: Any, most: dict[str, int], expected: str
) -> None:
    add(world, roles=roles(*before, **rolling))
    old, steps = only(world), Steps(world, most)
    statuses = list(world.cluster.log[KIND])
    image(world, "app:2")
    new = only(world)
    assert new != old
    assert [row for row in steps.texts(old, new) if "-" not in row] == expected.split()
    assert world.conditions["Available"] == "True" and "rollouts" not in world.status
    assert world.status["currentRevision"] == world.status["updateRevision"]
    for _, obj in world.cluster.log[KIND][len(statuses) :]:
        generation, status = obj["metadata"]["generation"], obj.get("status", {})
        is_done = any(
            condition["type"] == "Available" and condition["status"] == "True"
            for condition in status["conditions"]
        )
        if is_done and status["observedGeneration"] == generation:
            assert status["currentRevision"] == status["updateRevision"], "done is said when it is done"
    for reason, count in {"RollingUpdateStarted": 1, "RollingUpdateCompleted": 1, "LWSDeleted": 2}.items():
        assert world.reasons.count(reason) == count


def test_old_children_are_deleted_and_reported_once_even_if_their_stream_is_late(world: World) -> None:
    add(world, roles=roles(2, 2))
    key, manager = Key(PASS, "default", "demo"), world.manager

    def look_once_more() -> None:
        manager.queue.add(key)
        manager.run_pass(key)

    world.after_pass = look_once_more
    image(world, "app:2")
    assert world.reasons.count("LWSDeleted") == 2


def test_every_write_of_a_step_follows_the_writes_that_it_depends_on(world: World) -> None:
    """Record, then baseline, then creation: an interruption leaves nothing to guess."""
    add(world, roles=roles(2, 2))
    image(world, "app:2")
    revisions = list(world.cluster.of_kind("ControllerRevision"))
    own = [revision for revision in revisions if revision["metadata"]["ownerReferences"][0]["kind"] == KIND]
    assert sorted(revision["revision"] for revision in own) == [1, 2]
    log = world.cluster.log
    created = min(
        int(obj["metadata"]["resourceVersion"])
        for _, obj in log[CHILD]
        if only(world) in obj["metadata"]["name"]
    )
    baselines = [
        int(obj["metadata"]["resourceVersion"])
        for _, obj in log[CHILD]
        if INITIAL_REPLICAS_ANNOTATION in (obj["metadata"].get("annotations") or {})
    ]
    recorded = max(int(revision["metadata"]["resourceVersion"]) for revision in own)
    assert recorded < min(baselines) < created


def test_the_history_limit_holds_in_a_rollout_that_never_completes(world: World) -> None:
    """Each edit overtakes the previous one, and no revision becomes ready."""

    def own() -> list[str]:
        revisions = world.cluster.of_kind("ControllerRevision")
        return [
            name_of(revision) for revision in revisions if (controller_of(revision) or {}).get("kind") == KIND
        ]

    add(world, revisionHistoryLimit=2)
    (first,) = own()
    world.nodes.hopeless = frozenset(f"bad:{number}" for number in range(12))
    for number in range(12):
        image(world, f"bad:{number}")
        identities = (identity_of("demo", name) for name in recorded_children(world.get(KIND)))
        keys = {identity.key for identity in identities if identity is not None} | world.counts().keys()
        live = [name for name in own() if name.split("-")[1] in keys]
        assert first in live, "it serves on"
        assert len(own()) <= len(live) + 2
        assert world.status["updateRevision"] in own() and world.status["currentRevision"] == first
    assert len(own()) <= 5
    image(world, "app:2")
    assert world.status["currentRevision"] == world.status["updateRevision"] and len(own()) == 3


def test_scaling_takes_effect_at_once(world: World) -> None:
    add(world)

    def change(spec: dict[str, Any]) -> None:
        spec["roles"][0]["spec"]["replicas"], spec["roles"][1]["spec"]["replicas"] = 5, 3

    world.edit(change)
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 5, "decode": 3}]
    assert "ScalingUp" not in world.reasons and world.conditions["Available"] == "True"


def test_an_overtaken_rollout_ends_at_the_newest_revision(world: World) -> None:
    add(world, roles=roles(4, 4))
    seen: list[str] = []

    def overtake() -> None:
        counts = world.counts()
        if not seen and len(counts) == 2 and min(sum(of_key.values()) for of_key in counts.values()) > 2:
            seen.extend(counts)
            template = {"image": "app:3"}
            world.edit(lambda spec: _set_image(spec, template["image"]))

    world.after_pass = overtake
    image(world, "app:2")
    assert seen and only(world) not in seen
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 4}]


def test_reverting_a_change_restores_the_old_revision(world: World) -> None:
    add(world, roles=roles(4, 4))
    first = only(world)
    uids = {child["metadata"]["uid"] for child in world.children}
    taken_back: list[str] = []

    def take_back() -> None:
        counts = world.counts()
        if not taken_back and len(counts) == 2 and counts.get(first, {}).get("prefill", 9) < 3:
            taken_back.append(first)
            world.edit(lambda spec: _set_image(spec, "app:1"))

    world.after_pass = take_back
    image(world, "app:2")
    assert taken_back and only(world) == first
    assert {child["metadata"]["uid"] for child in world.children} == uids
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 4}]


def test_a_lost_child_is_recreated(world: World) -> None:
    add(world)
    before = {child["metadata"]["name"] for child in world.children}
    world.cluster.request_deletion(world.children[0])
    world.settle()
    assert {child["metadata"]["name"] for child in world.children} == before
    assert world.conditions["Available"] == "True"


@pytest.mark.parametrize("role", ["prefill", "decode"])
@pytest.mark.parametrize("remaining", [4, 3, 2])
def test_wart_41_a_lost_child_of_an_old_revision_is_recreated(
    world: World, role: str, remaining: int
) -> None:
    """The child is recreated from its revision, with no more groups than before. The rollout continues."""
    add(world, roles=roles(4, 4))
    old = only(world)
    before: list[int] = []
    uids: dict[str, int] = {}

    def lose() -> None:
        counts = world.counts()
        for child in world.children:
            name, uid = child["metadata"]["name"], child["metadata"]["uid"]
            if old in name and role in name and uid not in uids:
                uids[uid] = child["spec"]["replicas"]
                pods = [pod for pod in world.cluster.of_kind("Pod") if name in pod["metadata"]["name"]]
                assert len(uids) == 1 or not pods
        if not before and len(counts) == 2 and set(counts[old].values()) == {remaining}:
            (lost,) = (child for child in world.children if f"{old}-{role}" in child["metadata"]["name"])
            before.append(lost["spec"]["replicas"])
            world.cluster.request_deletion(lost)

    world.after_pass = lose
    image(world, "app:2")
    assert before == [remaining] and len(uids) == 2, "the child was recreated"
    assert 0 < list(uids.values())[1] <= remaining
    assert old not in world.counts() and world.conditions["Available"] == "True"
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 4}]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_wart_41_a_child_lost_before_the_rollout_is_recreated_with_all_its_groups(
    world: World, role: str
) -> None:
    """The user requests another revision and deletes a child before any pass has seen the request."""
    add(world, roles=roles(4, 4))
    old = only(world)
    (lost,) = (child for child in world.children if f"{old}-{role}" in child["metadata"]["name"])
    name, uid = lost["metadata"]["name"], lost["metadata"]["uid"]
    recreated_with: set[str] = set()

    def look() -> None:
        child = world.cluster.find(CHILD, name)
        if child is not None and child["metadata"]["uid"] != uid:
            recreated_with.add(child["metadata"]["annotations"][INITIAL_REPLICAS_ANNOTATION])

    world.edit(lambda spec: _set_image(spec, "app:2"))
    world.cluster.request_deletion(lost)
    world.after_pass = look
    world.settle()
    assert recreated_with == {"4"}
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 4}]
    assert old not in world.counts() and world.conditions["Available"] == "True"


def test_wart_41_a_lost_child_is_recreated_with_no_more_groups_than_desired(world: World) -> None:
    """The status counts groups that are not desired any more, or that the set never requested."""
    add(world, roles=roles(4, 2))
    old = only(world)
    (lost,) = (child for child in world.children if f"{old}-prefill" in child["metadata"]["name"])
    began: list[tuple[int, int]] = []

    def look() -> None:
        rollout = world.status.get("rollouts", {}).get("0")
        if rollout is not None and not began:
            began.append(
                tuple(rollout["initialReplicas"][f"demo-0-{old}-{role}"] for role in ("prefill", "decode"))
            )

    def edit(spec: dict[str, Any]) -> None:
        _set_image(spec, "app:2")
        spec["roles"][0]["spec"]["replicas"] = 2

    world.edit(edit)
    world.cluster.request_deletion(lost)
    steps = Steps(world, {"prefill": 3, "decode": 3})
    world.after_pass = lambda: (look(), steps.look())
    world.settle()
    # The remains of the child take its place until a pass finds them gone.
    world.manager.ring()
    world.settle()
    assert began == [(2, 2)]
    assert max(row[old].get("prefill", 0) for row in steps.rows if old in row) in (1, 2)
    assert list(world.counts().values()) == [{"prefill": 2, "decode": 2}]


def test_wart_41_a_lost_child_does_not_block_the_new_revision_that_needs_its_place(world: World) -> None:
    """The child is lost before the first step, which would have taken its only group."""
    add(
        world,
        roles=[make_role("prefill", 1, rolling={"maxSurge": 0, "maxUnavailable": 1}), make_role("decode", 2)],
    )
    old = only(world)
    lost: list[str] = []

    def lose() -> None:
        counts = world.counts()
        if not lost and len(counts) == 2:
            assert {count for key, of_key in counts.items() if key != old for count in of_key.values()} == {0}
            (child,) = (child for child in world.children if f"{old}-prefill" in child["metadata"]["name"])
            lost.append(child["metadata"]["name"])
            world.cluster.request_deletion(child)

    world.after_pass = lose
    image(world, "app:2")
    # No event reports that the last pod of the lost child is gone.
    assert world.manager.ring()
    world.settle()
    assert lost and list(world.counts().values()) == [{"prefill": 1, "decode": 2}]
    assert old not in world.counts() and world.conditions["Available"] == "True"


def test_wart_41_a_child_name_used_by_another_owner_does_not_block_the_rollout(world: World) -> None:
    add(world, roles=roles(4, 4))
    old = only(world)
    names: list[str] = []

    def lose() -> None:
        counts = world.counts()
        if not names and len(counts) == 2 and counts[old].get("prefill") == 3:
            (lost,) = (child for child in world.children if f"{old}-prefill" in child["metadata"]["name"])
            names.append(lost["metadata"]["name"])
            world.cluster.end(lost)
            world.cluster.add(make_set(lost["metadata"]["name"], size=1))

    world.after_pass = lose
    image(world, "app:2")
    assert names and list(world.counts().values()) == [{"prefill": 4, "decode": 4}]
    assert world.get(CHILD, names[0])["metadata"].get("ownerReferences", []) == []


def test_wart_41_a_child_lost_in_a_paused_rollout_is_recreated(world: World) -> None:
    add(world, roles=roles(3, 2), rolloutStrategy={"paused": True})
    old = only(world)
    image(world, "app:2")
    world.cluster.request_deletion(world.children[0])
    world.settle()
    assert world.counts() == {old: {"prefill": 3, "decode": 2}}


def test_a_manually_scaled_child_is_restored(world: World) -> None:
    add(world)
    child = world.children[0]
    world.cluster.change(child, spec={**child["spec"], "replicas": 7})
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 2, "decode": 1}]


def test_slices_are_created_and_deleted(world: World) -> None:
    add(world)
    world.edit(lambda spec: spec.update(slices=3))
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 6, "decode": 3}]
    assert len(world.children) == 6 and world.status["slices"] == 3
    world.edit(lambda spec: spec.update(slices=1))
    world.settle()
    assert len(world.children) == 2 and world.conditions["Available"] == "True"
    assert world.reasons.count("LWSDeleted") == 4


def test_an_unreadable_child_is_reported_and_not_recreated(world: World) -> None:
    add(world)
    name = next(child for child in world.children if "prefill" in child["metadata"]["name"])["metadata"][
        "name"
    ]
    world.edit(lambda spec: spec["leaderWorkerTemplate"].update(size="two"), CHILD, name)
    world.settle()
    (failure,) = (
        condition for condition in world.status["conditions"] if condition["type"] == "ReplicaFailure"
    )
    assert (failure["status"], failure["reason"]) == ("True", "UnreadableSpec")
    assert failure["message"].startswith(f"LeaderWorkerSet {name}: spec.leaderWorkerTemplate.size")
    before = world.cluster.writes
    world.manager.resync()
    world.settle()
    assert world.cluster.writes == before, "nothing is created in its place"

    world.edit(lambda spec: spec["leaderWorkerTemplate"].update(size=1), CHILD, name)
    world.settle()
    assert world.conditions == {"Available": "True", "Progressing": "False"}


@pytest.mark.parametrize("is_remembered", [True, False], ids=["as the status says", "status lost"])
def test_slices_added_during_a_pause_match_the_existing_slices(world: World, is_remembered: bool) -> None:
    """A router starts after prefill. The paused revision has another image and no decode role."""
    router = {**make_role("router", 1), "startAfter": ["prefill"]}
    add(world, roles=[make_role("prefill", 2), make_role("decode", 1), router])
    old = only(world)

    def pause(spec: dict[str, Any]) -> None:
        _set_image(spec, "app:2")
        spec["roles"] = [role for role in spec["roles"] if role["name"] != "decode"]
        spec["rolloutStrategy"] = {"paused": True}

    world.edit(pause)
    if not is_remembered:
        world.settle()
        (obj,) = world.cluster.of_kind(KIND)
        world.cluster.change(obj, status={})
    world.edit(lambda spec: spec.update(slices=3))
    world.settle()
    assert world.counts() == {old: {"prefill": 6, "decode": 3, "router": 3}}
    assert world.status["currentRevision"] != world.status["updateRevision"]

    world.edit(lambda spec: spec["rolloutStrategy"].update(paused=False))
    world.settle()
    assert old not in world.counts()
    assert list(world.counts().values()) == [{"prefill": 6, "router": 3}]


def test_the_children_of_a_set_paused_from_the_start_are_created(world: World) -> None:
    add(world, rolloutStrategy={"paused": True})
    world.edit(lambda spec: spec.update(slices=2))
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 2}]


def test_a_slice_lost_during_its_rollout_is_recreated_as_it_was(world: World) -> None:
    add(world, slices=2, rolloutStrategy={"maxUpdatingSlices": 1})
    old = only(world)
    world.edit(lambda spec: _set_image(spec, "app:2"))
    for _ in range(200):
        world.go_on()
        first = [child for child in world.children if child["metadata"]["labels"][SLICE_LABEL] == "0"]
        if first and all(old not in child["metadata"]["name"] for child in first):
            break
    world.edit(lambda spec: spec["rolloutStrategy"].update(paused=True))
    world.settle()
    assert old in world.counts()
    before = world.counts()
    for child in world.children:
        if child["metadata"]["labels"][SLICE_LABEL] == "0":
            world.cluster.request_deletion(child)
    world.settle()
    assert world.counts() == before


def test_no_more_than_max_updating_slices_are_updated_at_once(world: World) -> None:
    add(world, slices=3, rolloutStrategy={"maxUpdatingSlices": 1})
    old = only(world)
    most: list[int] = []
    pending: set[str] = set()

    def look() -> None:
        metadata = [child["metadata"] for child in world.children]
        slices = [(labelled["labels"][SLICE_LABEL], labelled["name"]) for labelled in metadata]
        begun = {index for index, name in slices if old not in name}
        remaining = {index for index, name in slices if old in name}
        most.append(len(begun & remaining))
        pending.update(world.status.get("pending", ()))

    world.after_pass = look
    image(world, "app:2")
    assert max(most) == 1 and only(world) != old
    why = "other slices are in their rollout, and no more may be at a time (maxUpdatingSlices)"
    assert pending == {f"slice{which}: roles prefill, decode: {why}" for which in ("s 1, 2", " 2")}
    assert world.conditions["Available"] == "True"


def test_slices_without_room_in_the_status_are_updated_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit also holds if a rollout overtakes another one, so that each slice has more to record."""
    room = functools.partial(slices_recorded, most=5)
    monkeypatch.setattr("lws.disaggregatedset.slices.course.slices_recorded", room)
    add(world, slices=3)
    most: list[int] = []
    pending: set[str] = set()

    def look() -> None:
        rollouts = world.status.get("rollouts", {})
        most.append(sum(len(rollout["initialReplicas"]) for rollout in rollouts.values()))
        pending.update(world.status.get("pending", ()))

    world.after_pass = look
    world.edit(lambda spec: _set_image(spec, "app:2"))
    for _ in range(6):
        world.go_on()
    image(world, "app:3")
    for _ in range(5):
        world.manager.ring()
        world.settle()
    assert max(most) in range(1, 6) and world.conditions["Available"] == "True"
    assert len(world.counts()) == 1 and any("no room to remember" in message for message in pending)


def external() -> list[dict[str, Any]]:
    return [make_role("prefill", None), make_role("decode", 2)]


def test_an_externally_scaled_role_follows_its_scaler(world: World) -> None:
    add(world, roles=external())
    scaler = world.get(SCALER_KIND, "demo-prefill")
    assert scaler["spec"] == {"replicas": 1} and scaler["status"]["replicas"] == 1
    assert list(world.counts().values()) == [{"prefill": 1, "decode": 2}]
    world.edit(lambda spec: spec.update(replicas=4), SCALER_KIND, "demo-prefill")
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 2}]
    assert world.get(SCALER_KIND, "demo-prefill")["status"]["replicas"] == 4
    image(world, "app:2")
    assert list(world.counts().values()) == [{"prefill": 4, "decode": 2}]
    assert world.conditions["Available"] == "True"


def test_a_role_scaled_to_zero_does_not_prevent_the_services_of_other_roles(world: World) -> None:
    """Upstream creates no Service for the whole set as long as one role is at 0."""
    add(world, roles=external())
    world.edit(lambda spec: spec.update(replicas=0), SCALER_KIND, "demo-prefill")
    world.settle()
    image(world, "app:2")
    (decode,) = (child for child in world.children if child["metadata"]["labels"][ROLE_LABEL] == "decode")
    services = {service["metadata"]["name"] for service in world.cluster.of_kind("Service")}
    assert f"{decode['metadata']['name']}-prv" in services
    assert world.conditions["Available"] == "True"
    assert list(world.counts().values()) == [{"prefill": 0, "decode": 2}]


def test_a_scaler_counts_the_groups_of_all_slices(world: World) -> None:
    add(world, roles=external(), slices=3)
    world.edit(lambda spec: spec.update(replicas=4), SCALER_KIND, "demo-prefill")
    world.settle()
    of_slices = [
        child["spec"]["replicas"]
        for child in world.children
        if child["metadata"]["labels"][ROLE_LABEL] == "prefill"
    ]
    assert of_slices == [2, 1, 1] and world.conditions["Available"] == "True"


def test_no_slice_is_created_without_groups_of_an_externally_scaled_role(world: World) -> None:
    add(world, roles=external(), slices=3)
    assert world.get(SCALER_KIND, "demo-prefill")["spec"] == {"replicas": 3}
    assert {child["metadata"]["name"][-7:]: child["spec"]["replicas"] for child in world.children} == {
        "prefill": 1,
        "-decode": 2,
    }
    assert "pending" not in world.status


@pytest.mark.parametrize(
    ("total", "where"), [(3, ""), (2, "slice 2"), (1, "slices 1 to 2"), (0, "slices 0 to 2")]
)
def test_slices_for_which_a_scaler_leaves_no_group_are_reported(world: World, total: int, where: str) -> None:
    add(world, roles=external(), slices=3)
    world.edit(lambda spec: spec.update(replicas=total), SCALER_KIND, "demo-prefill")
    world.settle()
    message = f"{where}: role prefill: no group: its scaler demo-prefill asks for {total} in 3 slices"
    assert world.status.get("pending", []) == ([message] if where else [])


def test_a_lost_scaler_is_recreated_with_the_replicas_of_its_role(world: World) -> None:
    add(world, roles=external())
    world.edit(lambda spec: spec.update(replicas=3), SCALER_KIND, "demo-prefill")
    world.settle()
    world.cluster.request_deletion(world.get(SCALER_KIND, "demo-prefill"))
    world.settle()
    assert world.get(SCALER_KIND, "demo-prefill")["spec"] == {"replicas": 3}
    assert list(world.counts().values()) == [{"prefill": 3, "decode": 2}]


def test_each_child_has_a_service_as_soon_as_its_revision_serves(world: World) -> None:
    add(world)
    names = {f"{child['metadata']['name']}-prv" for child in world.children}
    assert names <= {service["metadata"]["name"] for service in world.cluster.of_kind("Service")}
    world.cluster.request_deletion(world.get("Service", min(names)))
    world.settle()
    assert world.cluster.find("Service", min(names)) is not None
    image(world, "app:2")
    services = {service["metadata"]["name"] for service in world.cluster.of_kind("Service")}
    assert not names & services
    assert {f"{child['metadata']['name']}-prv" for child in world.children} <= services


def test_each_object_of_a_new_set_is_written_once(world: World) -> None:
    """Per slice a child and a Service for each role, one revision, and two statuses: progressing, and
    available.
    """
    add(world, slices=2)
    for _ in range(10):
        world.manager.ring()
        world.cluster.pass_time(60.0)
        world.settle()
    statuses = [obj["status"] for _, obj in world.cluster.log[KIND] if obj.get("status")]
    assert len(statuses) <= 2 and is_true(statuses[-1]["conditions"], "Available"), statuses
    own = [
        (kind, obj["metadata"]["name"], obj["metadata"]["resourceVersion"])
        for kind in (CHILD, "Service", "ControllerRevision")
        for _, obj in world.cluster.log[kind]
        if (controller_of(obj) or {}).get("kind") == KIND and not obj.get("status")
    ]
    assert len(own) == 4 + 4 + 1, own


def test_edits_that_restart_no_pod_take_effect_in_place(world: World) -> None:
    """Wart 14."""
    add(world)
    uids = {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")}

    def change(spec: dict[str, Any]) -> None:
        spec["roles"][0]["spec"]["progressDeadlineSeconds"] = 60
        spec["roles"][0]["metadata"] = {"labels": {"team": "a"}}
        spec["roles"][1]["spec"]["networkConfig"] = {"subdomainPolicy": "UniquePerReplica"}

    world.edit(change)
    world.settle()
    (prefill,) = [child for child in world.children if child["metadata"]["labels"][ROLE_LABEL] == "prefill"]
    assert prefill["spec"]["progressDeadlineSeconds"] == 60
    assert prefill["metadata"]["labels"]["team"] == "a"
    assert {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")} == uids
    assert world.status["pending"] == ["spec.roles[1].spec.networkConfig"]


def test_a_restart_of_one_child_is_kept_until_the_next_revision(world: World) -> None:
    """`lws restart` and `lws undo` of such a LeaderWorkerSet warn of this."""
    add(world)
    before = {child["metadata"]["name"]: child for child in world.children}
    name = next(child_name for child_name in before if child_name.endswith("-prefill"))

    def restart(spec: dict[str, Any]) -> None:
        template = spec["leaderWorkerTemplate"]["workerTemplate"]
        template["metadata"] = {"annotations": {RESTARTED_AT_ANNOTATION: "now"}}

    def is_restarted(pod: Any) -> bool:
        return RESTARTED_AT_ANNOTATION in (pod["metadata"].get("annotations") or {})

    world.edit(restart, CHILD, name)
    world.settle()
    assert {child["metadata"]["name"] for child in world.children} == before.keys()
    pods = list(world.cluster.of_kind("Pod"))
    assert {is_restarted(pod) for pod in pods if pod["metadata"]["name"].startswith(name)} == {True}
    assert {is_restarted(pod) for pod in pods if not pod["metadata"]["name"].startswith(name)} == {False}
    image(world, "app:2")
    assert not any(map(is_restarted, world.cluster.of_kind("Pod")))


def child_of(world: World, role: str) -> dict[str, Any]:
    (child,) = [child for child in world.children if child["metadata"]["labels"][ROLE_LABEL] == role]
    return child


def image_of(child: dict[str, Any]) -> str:
    pod = child["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    return str(pod["containers"][0]["image"])


def fix(world: World, role: str, name: str) -> None:
    """Give the pods of one role another image, by an edit of its LeaderWorkerSet."""

    def edit(spec: dict[str, Any]) -> None:
        spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = name

    world.is_edited = True
    world.edit(edit, CHILD, child_of(world, role)["metadata"]["name"])
    world.settle()


def test_an_edited_template_of_a_child_is_reported_and_replaced_with_the_next_revision(world: World) -> None:
    """A user fixes one role while its DisaggregatedSet would roll all of them."""
    add(world)
    before = {pod["metadata"]["uid"] for pod in world.cluster.of_kind("Pod")}
    fix(world, "decode", "app:hotfix")
    name = child_of(world, "decode")["metadata"]["name"]
    assert image_of(child_of(world, "decode")) == "app:hotfix"
    assert world.conditions == {"Available": "True", "Progressing": "False", "RolesEdited": "True"}
    (edited,) = [entry for entry in world.status["conditions"] if entry["type"] == "RolesEdited"]
    assert edited["message"].startswith(f"{name}: the template is not that of its revision")
    assert world.reasons.count("LeaderWorkerSetEdited") == 1
    after = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in world.cluster.of_kind("Pod")}
    assert {pod.split("-")[3] for uid, pod in after.items() if uid not in before} == {"decode"}

    world.restart()
    world.settle()
    assert image_of(child_of(world, "decode")) == "app:hotfix"
    assert world.reasons == [], "nothing is said twice"

    world.edit(lambda spec: _annotate(spec, RESTARTED_AT_ANNOTATION))
    world.settle()
    assert {image_of(child) for child in world.children} == {"app:1"}
    assert world.conditions["RolesEdited"] == "False"


def test_an_edit_of_a_child_that_is_taken_back_is_no_longer_reported(world: World) -> None:
    add(world)
    fix(world, "decode", "app:hotfix")
    fix(world, "prefill", "app:hotfix")
    fix(world, "decode", "app:1")
    assert world.conditions["RolesEdited"] == "True"
    fix(world, "prefill", "app:1")
    assert world.conditions["RolesEdited"] == "False"
    assert world.reasons.count("LeaderWorkerSetEdited") == 1


def test_the_template_of_a_child_that_is_recreated_is_that_of_its_revision(world: World) -> None:
    add(world)
    fix(world, "decode", "app:hotfix")
    world.cluster.request_deletion(child_of(world, "decode"))
    world.settle()
    assert image_of(child_of(world, "decode")) == "app:1"
    assert world.conditions["RolesEdited"] == "False"


def test_a_paused_rollout_does_not_begin(world: World) -> None:
    add(world, rolloutStrategy={"paused": True})
    old = only(world)
    image(world, "app:2")
    assert only(world) == old and world.conditions["Available"] == "False"
    assert world.status["pending"] == ["slice 0: roles prefill, decode: the rollout is paused"]
    world.edit(lambda spec: spec.update(rolloutStrategy={}))
    world.settle()
    assert only(world) != old and world.conditions["Available"] == "True"
    assert "pending" not in world.status


def test_roles_are_added_and_removed(world: World) -> None:
    add(world, roles=roles(2, 2))
    world.edit(lambda spec: spec["roles"].append(make_role("router", 1)))
    world.settle()
    assert list(world.counts().values()) == [{"prefill": 2, "decode": 2, "router": 1}]
    world.edit(lambda spec: spec["roles"].pop(0))
    world.settle()
    assert list(world.counts().values()) == [{"decode": 2, "router": 1}]
    assert world.conditions["Available"] == "True"


def test_all_roles_are_renamed(world: World) -> None:
    """Upstream leaves the former roles behind."""
    add(world, roles=roles(2, 2))
    world.edit(lambda spec: spec.update(roles=[make_role("a", 2), make_role("b", 2)]))
    world.settle()
    assert list(world.counts().values()) == [{"a": 2, "b": 2}]


def test_a_role_waits_for_the_roles_that_start_before_it(world: World) -> None:
    order: list[str] = []

    def look() -> None:
        order.extend(
            child["metadata"]["labels"][ROLE_LABEL]
            for child in world.children
            if child["metadata"]["labels"][ROLE_LABEL] not in order
        )

    world.after_pass = look
    add(world, roles=[make_role("decode", 1, startAfter=["prefill"]), make_role("prefill", 1)])
    assert order == ["prefill", "decode"] and world.conditions["Available"] == "True"


@pytest.mark.parametrize("foreground", [False, True])
def test_deleting_a_set_deletes_all_its_objects(world: World, foreground: bool) -> None:
    """Wart 17."""
    add(world)
    world.cluster.request_deletion(world.get(KIND), foreground)
    world.settle()
    for _ in range(5):
        world.cluster.pass_time(60.0)
        world.settle()
    kinds = {kind for kind, _ in world.cluster.objects}
    assert not kinds & {KIND, CHILD, "StatefulSet", "Service"}


def test_orphans_are_adopted_before_anything_is_created(world: World) -> None:
    """Wart 16."""
    add(world)
    uids = {child["metadata"]["uid"] for child in world.children}
    for child in world.children:
        world.cluster.change(child, {"ownerReferences": []})
    world.settle()
    assert {child["metadata"]["uid"] for child in world.children} == uids


def test_a_foreign_object_with_the_name_of_a_child_is_left_alone_and_reported(world: World) -> None:
    add(world)
    name, key = world.children[0]["metadata"]["name"], only(world)
    world.cluster.request_deletion(world.get(KIND))
    world.settle()
    stranger = world.cluster.add(make_set(name, size=1))
    assert key in name
    add(world)
    assert world.get(CHILD, name)["metadata"]["uid"] == stranger["metadata"]["uid"]
    (problem,) = [
        condition for condition in world.status["conditions"] if condition["type"] == "ReplicaFailure"
    ]
    assert problem["reason"] == "NameClash" and name in problem["message"]
    assert [child["metadata"]["labels"][ROLE_LABEL] for child in world.children] == ["prefill"]


def test_the_failure_message_of_a_child_is_reported_unchanged(world: World) -> None:
    add(world)
    child = world.children[0]
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "QuotaExceeded", "message": "no room"}
    status = {**child["status"], "conditions": [*child["status"]["conditions"], condition]}
    world.cluster.change(child, status=status)
    world.manager.read(CHILD)
    while world.manager.queue.keys:
        key = min(world.manager.queue.keys)
        if key.kind == "set":
            del world.manager.queue.keys[key]
        else:
            world.manager.run_pass(key)
    (problem,) = [
        condition for condition in world.status["conditions"] if condition["type"] == "ReplicaFailure"
    ]
    assert problem["reason"] == "QuotaExceeded"
    assert problem["message"] == f"role decode of slice 0 ({child['metadata']['name']}): no room"


def _annotate(spec: dict[str, Any], annotation: str) -> None:
    for role in spec["roles"]:
        role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
            "annotations": {annotation: "now"}
        }


def _set_image(spec: dict[str, Any], name: str) -> None:
    for role in spec["roles"]:
        role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = name
