"""Tests that thousands of sets come and go and nothing that a manager remembers grows with them.

The test finds what it counts instead of naming it: every container that can be reached from the manager. A
container that is added later is counted, too.
"""

from __future__ import annotations

import asyncio
import itertools
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from lws.kube.metadata import is_terminating
from lws.runtime import apply, store
from lws.runtime.endpoints import workloads
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.errors import Forbidden
from lws.runtime.loop import Loop
from test.unit.builders import make_set
from test.unit.disaggregated import make_disaggregated
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.fake_manager import FakeManager, FakeRecorder
from test.unit.stories.fake_nodes import FakeNodes

# Records of deleted objects, kept because late news may mention them: a fixed number in each.
_TOMBSTONES = ((store, "_DELETED"), (apply, "_DELETED"), (workloads, "_MOST_DELETED"))
_AS_MANY = 20
_WARM_UP, _LIFECYCLES = 60, 2000
_ROUNDS = 200


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    for module, name in _TOMBSTONES:
        monkeypatch.setattr(module, name, _AS_MANY)
    event_loop = asyncio.new_event_loop()
    yield event_loop
    event_loop.close()


class World:
    """A cluster, and a manager with all parts that passes use."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = FakeCluster(has_feature=False)
        self.nodes = FakeNodes(self.cluster)
        self.manager = FakeManager(self.cluster, loop, lambda *_: None)
        self._loop = loop
        self._passes = Loop(lambda namespace: self.manager.term.passes, Metrics(), lambda: self.cluster.now)
        self.limit = _ROUNDS

    def settle(self) -> None:
        for _ in range(self.limit):
            version = self.cluster.version
            while self.manager.late or self.manager.queue.keys:
                for kind in self.manager.late:
                    self.manager.read(kind)
                for key in list(self.manager.queue.keys):
                    del self.manager.queue.keys[key]
                    self._loop.run_until_complete(self._passes.work(key))
            self.nodes.sync_all()
            self.cluster.collect()
            for move in self.nodes.moves():
                move()
            self.cluster.pass_time(1.0)
            if self.cluster.version == version and not self.manager.late:
                return

    def delete(self, kind: str, name: str) -> None:
        """Delete an object with all its dependents."""
        self.cluster.request_deletion(self.cluster.objects[kind, name])
        for _ in range(_ROUNDS):
            self.settle()
            for pod in [pod for pod in self.cluster.of_kind("Pod") if is_terminating(pod)]:
                self.cluster.stopped(pod)
            if not self.cluster.objects:
                self.settle()
                return
        raise AssertionError(f"{list(self.cluster.objects)} stay")

    def container_sizes(self) -> Counter[str]:
        return entries({"manager": self.manager, "passes": self._passes})


def lifecycle_of_a_set(world: World, number: int) -> None:
    """Create and delete a set.

    Most sets are deleted while they are being created; one in twenty is ready by then, and writes of one in
    five are rejected.
    """
    name = f"web-{number}"
    run_lifecycle(world, make_set(name, replicas=1, size=2), number)


def lifecycle_of_a_disaggregatedset(world: World, number: int) -> None:
    obj = make_disaggregated(f"llm-{number}")
    del obj["metadata"]["uid"]
    run_lifecycle(world, obj, number)


def run_lifecycle(world: World, obj: dict[str, Any], number: int) -> None:
    world.limit = 1 if number % 20 else _ROUNDS
    if number % 5 == 1:
        world.cluster.before_write = refusing_the_second()
    world.cluster.add(obj)
    world.settle()
    world.cluster.before_write = lambda: None
    world.delete(obj["kind"], obj["metadata"]["name"])


def refusing_the_second() -> Callable[[], None]:
    """Return a hook that rejects the second of the next writes."""
    writes = itertools.count(1)

    def before_write() -> None:
        if next(writes) == 2:
            raise Forbidden(403, "Forbidden", "exceeded quota: few")

    return before_write


@pytest.mark.parametrize(
    ("lifecycle", "runs"),
    [
        pytest.param(lifecycle_of_a_set, _LIFECYCLES, id="sets"),
        pytest.param(lifecycle_of_a_disaggregatedset, 120, id="disaggregated"),
    ],
)
def test_no_container_of_the_manager_grows(
    loop: asyncio.AbstractEventLoop, lifecycle: Callable[[World, int], None], runs: int
) -> None:
    world = World(loop)
    for number in range(_WARM_UP):
        lifecycle(world, number)
    before = world.container_sizes()
    for number in range(_WARM_UP, runs):
        lifecycle(world, number)
    after = world.container_sizes()
    assert {path: (before[path], count) for path, count in after.items() if count > before[path]} == {}


def test_the_records_of_a_set_are_counted(loop: asyncio.AbstractEventLoop) -> None:
    """A set exists when the entries are counted: without the manager's records among them the test proves
    nothing.
    """
    world = World(loop)
    nothing = world.container_sizes()
    world.cluster.add(make_set("web", replicas=1, size=2))
    world.settle()
    grown = {path for path, count in world.container_sizes().items() if count > nothing[path]}
    memories = "_groups", "_cached", "_written", "_parsed", "_checked", "applied", "_records", "_objects"
    for memory in memories:
        assert any(f".{memory}" in path for path in grown), memory


def entries(root: object) -> Counter[str]:
    """Count the entries of all containers that can be reached from the root, by their path."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in seen or isinstance(value, _LEFT_OUT):
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            # The fields of a Kubernetes object are not counted.
            if "metadata" not in value:
                counts[path] += len(value)
                waiting += [(f"{path}[]", item) for item in value.values()]
        elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "deque":
            counts[path] += len(value)
            waiting += [(f"{path}[]", item) for item in value]
        else:
            waiting += [(f"{path}.{name}", part) for name, part in _parts_of(value)]
    return counts


_LEFT_OUT = (
    str,
    bytes,
    int,
    float,
    type,
    types.ModuleType,
    asyncio.AbstractEventLoop,
    FakeCluster,
    FakeNodes,
    FakeRecorder,
)


def _parts_of(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, types.FunctionType):
        code, cells = value.__code__, value.__closure__ or ()
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:
                continue
    elif isinstance(value, partial):
        yield "func", value.func
        yield "args", value.args
    elif type(value).__module__.split(".")[0] in ("lws", "test", "prometheus_client"):
        names = [slot for cls in type(value).__mro__ for slot in getattr(cls, "__slots__", ())]
        for name in (*getattr(value, "__dict__", ()), *names):
            if hasattr(value, name):
                yield name, getattr(value, name)
