"""Stories of commands on a DisaggregatedSet: their output is correct, and their writes take effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import jsonpatch
import pytest

from lws.cli.commands.history import _history
from lws.cli.commands.key import _of_set
from lws.cli.commands.plan import _ahead, _changed_roles, created_roles
from lws.cli.commands.restart import _restart
from lws.cli.commands.status import _list, _show
from lws.cli.commands.undo import _undo
from lws.cli.manifests import as_stored
from lws.cli.session import Refusal, Session
from lws.cli.sets import KINDS, NamedSet
from lws.kube.metadata import labels_of
from lws.kube.patches import with_merged
from lws.runtime.actions import Object, Reference
from lws.runtime.client.user_cluster import UserCluster
from lws_api.disaggregatedset.v1 import KIND
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_world import World
from test.unit.stories.fake_cluster import NAMESPACE, FakeCluster

DEMO = NamedSet("demo", KINDS[1])


class Served(FakeCluster):
    """The API that commands use, over the same objects."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.__dict__ = cluster.__dict__

    async def listed(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        return [obj for obj in self.of_kind(kind) if _matches(obj, selector)]

    async def merge_patch(self, target: Reference, patch: Object, manager: str) -> dict[str, Any]:
        return self._changed(target, with_merged(self.objects[target.kind, target.name], patch))

    async def json_patch(
        self, target: Reference, operations: Any, manager: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        before = self.objects[target.kind, target.name]
        after = jsonpatch.JsonPatch([dict(operation) for operation in operations]).apply(before)
        return cast(dict[str, Any], after) if dry_run else self._changed(target, after)

    def _changed(self, target: Reference, after: Object) -> dict[str, Any]:
        self.change(self.objects[target.kind, target.name], spec=after["spec"])
        return self.objects[target.kind, target.name]


def _matches(obj: Object, selector: str) -> bool:
    if " in (" in selector:
        label, _, values = selector.removesuffix(")").partition(" in (")
        return labels_of(obj).get(label) in values.split(",")
    label, _, value = selector.partition("=")
    return not selector or labels_of(obj).get(label) == value


class Terminal:
    """A user who runs commands on the set of this world."""

    def __init__(self, world: World, loop: asyncio.AbstractEventLoop, capsys: Any) -> None:
        self.world, self._loop, self._capsys = world, loop, capsys
        cluster = cast(UserCluster, Served(world.cluster))
        self.session = Session(cluster, NAMESPACE)

    def __call__(self, command: Any, *arguments: Any) -> tuple[int, str]:
        code = self._loop.run_until_complete(command(self.session, *arguments))
        return code, self._capsys.readouterr().out

    def status(self) -> Any:
        code, out = self(_show, DEMO, "json")
        data = json.loads(out)
        assert code == (0 if data["settled"] else 1)
        return data


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    loop = asyncio.new_event_loop()
    world = World(loop)
    obj = make_disaggregated(roles=[make_role("prefill", 4), make_role("decode", 2)])
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    yield Terminal(world, loop, capsys)
    loop.close()


def test_the_status_follows_a_rollout(terminal: Terminal) -> None:
    data = terminal.status()
    assert (data["settled"], data["waitingFor"], data["revision"], data["slices"]) == (True, "", 1, 1)
    assert data["roles"] == [
        {"name": "prefill", "replicas": 4, "ready": 4, "updatedAndReady": 4},
        {"name": "decode", "replicas": 2, "ready": 2, "updatedAndReady": 2},
    ]
    code, out = terminal(_restart, DEMO, None)
    assert (code, out) == (0, "disaggregatedset.disaggregatedset.x-k8s.io/demo restarted\n")
    updated = []
    while terminal.world.go_on():
        data = terminal.status()
        assert not data["settled"] or len(terminal.world.counts()) == 1
        updated.append(data["roles"][0]["updatedAndReady"])
        assert all(role["ready"] <= role["replicas"] for role in data["roles"])
    assert updated[0] == 0 and sorted(updated) == updated and updated[-1] == 4
    assert (data["settled"], data["revision"]) == (True, 2)
    code, out = terminal(_history, DEMO, None, None)
    assert (code, out.count("annotation kubectl.kubernetes.io/restartedAt added")) == (0, 2)


def test_status_shows_a_rollout_in_progress(terminal: Terminal) -> None:
    terminal(_restart, DEMO, None)
    for _ in range(4):
        terminal.world.go_on()
    while not terminal.status()["waitingFor"].startswith("slice 0: role "):
        assert terminal.world.go_on()
    new = terminal.status()["key"]
    (old,) = terminal.world.counts().keys() - {new}
    code, out = terminal(_show, DEMO, "wide")
    lines = out.splitlines()
    assert code == 1
    assert lines[0] == "DisaggregatedSet default/demo"
    assert lines[1].startswith(f"groups ready on revision 2 ({new}): ")
    assert lines[3].split() == ["SLICE", "ROLE", "REVISION", "READY", "AGE", "LEADERWORKERSET", "WAITING"]
    assert {f"demo-0-{key}-{role}" for key in (old, new) for role in ("prefill", "decode")} == {
        line.split()[5] for line in lines[4:8]
    }
    assert terminal(_of_set, DEMO, False) == (0, f"demo\t{new}\n")


def test_the_list_shows_both_kinds(terminal: Terminal) -> None:
    code, out = terminal(_list, None)
    sets, disaggregated = out.split("\n\n")
    assert code == 0
    assert len(sets.splitlines()) == 3, "LeaderWorkerSets of the roles"
    heading, line = disaggregated.splitlines()
    assert heading.split() == ["NAME", "SLICES", "READY", "UPDATED", "REVISION", "AGE", "WAITING"]
    assert line.split()[:5] == ["disaggregatedset/demo", "1", "6/6", "6", "1"]


def test_plan_shows_the_remaining_steps(terminal: Terminal) -> None:
    planned = terminal._loop.run_until_complete(_ahead(terminal.session, DEMO, True))
    assert (planned.action, planned.data["steps"], planned.data["waitingFor"]) == ("unchanged", [], "")
    terminal(_restart, DEMO, None)
    for _ in range(4):
        terminal.world.go_on()
    planned = terminal._loop.run_until_complete(_ahead(terminal.session, DEMO, True))
    first, *_, last = planned.data["steps"]
    assert sum(planned.data["restarts"].values()) > 0
    terminal.world.settle()
    assert last["groups"] == terminal.world.counts()
    assert first["changes"][0].keys() == {"role", "key", "before", "after"}


def test_plan_shows_the_steps_of_a_change(terminal: Terminal) -> None:
    obj = terminal.world.get(KIND)
    roles = [
        make_role("prefill", 4, image="app:2"),
        make_role("decode", 3, image="app:2"),
        make_role("router", 1, image="app:2"),
    ]
    after = {**obj, "spec": {**obj["spec"], "roles": roles}}
    planned = terminal._loop.run_until_complete(_changed_roles(terminal.session, obj, after, False))
    texts = [cast(Any, block).text for block in planned.blocks]
    image = "worker template container main image: app:1 → app:2"
    assert texts == [
        "6 groups (decode 2, prefill 4) restart, by a rollout of all roles in step",
        "  role decode is to have 3 groups instead of 2",
        "  role router is to have 1 group instead of 0",
        f"  role prefill {image}",
        f"  role decode {image}",
        "  role router added",
    ]
    assert planned.data["replicas"] == {"prefill": 4, "decode": 3, "router": 1}


def counts(step: dict[str, Any]) -> list[str]:
    """Return the desired groups after a step, independent of the keys."""
    return sorted(str(sorted(roles.items())) for roles in step["groups"].values())


def test_plan_shows_the_creation_of_a_new_set(terminal: Terminal) -> None:
    obj = make_disaggregated("new", roles=[make_role("prefill", 4), make_role("decode", 2)])
    planned = created_roles(as_stored(obj), terminal.session.now, True)
    assert [cast(Any, block).text for block in planned.blocks[:2]] == [
        f"new: 6 groups (prefill 4, decode 2), 6 pods in all, under key {planned.data['key']}",
        "a later update of all its groups:",
    ]
    terminal(_restart, DEMO, None)
    happens = terminal._loop.run_until_complete(_ahead(terminal.session, DEMO, True)).data["steps"]
    later = planned.data["steps"]
    assert [counts(stage) for stage in later] == [counts(stage) for stage in happens]


def test_undo_restores_a_revision_and_a_second_undo_does_nothing(terminal: Terminal) -> None:
    (first,) = terminal.world.counts()
    terminal(_restart, DEMO, None)
    terminal.world.settle()
    name = "disaggregatedset.disaggregatedset.x-k8s.io/demo"
    assert terminal(_undo, DEMO, 1, None) == (0, f"{name} rolled back to revision 1\n")
    terminal.world.settle()
    assert [*terminal.world.counts()] == [first]
    skipped = f"{name} skipped rollback (current template already matches revision 3)\n"
    before = terminal.world.cluster.version
    assert terminal(_undo, DEMO, 3, None) == (0, skipped)
    assert terminal.world.cluster.version == before


def test_edits_that_upstream_would_roll_out_are_reported(terminal: Terminal) -> None:
    terminal.world.edit(lambda spec: spec["roles"].reverse())
    terminal.world.settle()
    _, out = terminal(_show, DEMO, None)
    assert "upstream would compute" in out and out.endswith("settled\n")
    spec = {"subdomainPolicy": "UniquePerReplica"}
    terminal.world.edit(lambda set_spec: set_spec["roles"][0]["spec"].update(networkConfig=spec))
    terminal.world.settle()
    _, out = terminal(_show, DEMO, None)
    assert "spec.roles[0].spec.networkConfig waits for the next revision; `restart` brings it" in out


def test_an_unknown_set_name_is_answered_with_a_suggestion(terminal: Terminal) -> None:
    with pytest.raises(Refusal, match="did you mean demo"):
        terminal(_show, NamedSet("dmeo", KINDS[1]), None)
