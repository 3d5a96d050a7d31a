from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET, ROLE_SCALER
from lws_api.leaderworkerset.v1 import API_GROUP
from test.unit.tools.demo.fakes import SilentShow
from test.unit.tools.demo.objects import make_lease, make_view
from tools.demo.facts import View
from tools.demo.mirror import NotInTime
from tools.demo.scene import PLAIN, set_up
from tools.localcluster import ComponentError

KIND = f"leaderworkersets.{API_GROUP}"
KINDS = "\n".join([KIND, *(f"{name.plural}.{name.group}" for name in (DISAGGREGATED_SET, ROLE_SCALER))])
DEFINITION = {
    "spec": {"group": API_GROUP, "versions": [{"name": "v1", "served": True}]},
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}
WEBHOOK = {"name": "hook", "clientConfig": {"url": "https://127.0.0.1:9443/mutate", "caBundle": "Q0E="}}


class World:
    """All parts of a scene, with a record of their calls."""

    def __init__(self, tmp_path: Path) -> None:
        self.deeds: list[str] = []
        self.workspace = tmp_path
        self.kinds = [KINDS]
        self.view = make_view()
        self.webhook_port = 9443

    # the cluster
    def __enter__(self) -> World:
        self.deeds.append("cluster up")
        return self

    def __exit__(self, *_: object) -> None:
        self.deeds.append("cluster down")

    @property
    def api(self) -> World:
        return self

    def get(self, path: str) -> dict[str, Any]:
        return {"gitVersion": "v1.2.3"}

    def kubectl(self, *arguments: str) -> str:
        if arguments[0] == "api-resources":
            return self.kinds.pop(0) if self.kinds else ""
        if arguments[:2] == ("get", "crd"):
            return json.dumps(DEFINITION)
        if arguments[0] == "get":
            return json.dumps({"items": [{"webhooks": [WEBHOOK]}]})
        self.deeds.append(" ".join(arguments[:2]))
        return ""

    def stop_component(self, name: str) -> None:
        self.deeds.append(f"stop {name}")

    def start_component(self, name: str) -> None:
        self.deeds.append(f"start {name}")

    def kill_component(self, name: str) -> None:
        self.deeds.append(f"kill {name}")

    # the deployment
    def install(self, *arguments: str) -> None:
        self.deeds.append("helm install")

    def start_manager(self) -> World:
        self.deeds.append("manager up")
        return self

    def stop(self) -> None:
        self.deeds.append("manager down" if "mirror down" in self.deeds else "mirror down")

    # the mirror
    def start(self) -> World:
        self.deeds.append("mirror up")
        return self

    def fresh(self) -> View:
        return self.view

    def until(self, is_true: Callable[[View], bool], seconds: float, wanted: str) -> View:
        if not is_true(self.view):
            raise NotInTime(wanted, seconds, self.view)
        return self.view


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    for name in ("LocalCluster", "Deployment", "Mirror"):
        monkeypatch.setattr(f"tools.demo.scene.{name}", lambda *_, **__: world)
    monkeypatch.setattr("tools.demo.scene.find_programs", lambda *_: world.deeds.append("build"))
    return world


UP = [
    "build",
    "cluster up",
    "apply --server-side",
    "stop kube-controller-manager",
    "start kube-controller-manager",
    "helm install",
    "manager up",
    "mirror up",
]
DOWN = ["mirror down", "manager down", "kill kube-apiserver", "cluster down"]


def test_components_start_in_order_and_stop_in_reverse(world: World) -> None:
    show = SilentShow()
    with set_up(show, PLAIN):  # type: ignore[arg-type]
        assert world.deeds == UP
        assert len(show.checks) == 3 and all(check.held for check in show.checks)
        assert show.source is not None and len(show.steps) == 1
        assert show.waits[-1] == ""
    assert world.deeds == UP + DOWN
    assert show.waits[-1] == "all processes to end"
    assert any("v1.2.3" in line for line in show.messages)


def test_everything_is_stopped_after_an_error(world: World) -> None:
    with pytest.raises(RuntimeError, match="tour"), set_up(SilentShow(), PLAIN):  # type: ignore[arg-type]
        raise RuntimeError("tour")
    assert world.deeds == UP + DOWN


def test_a_manager_that_does_not_become_leader(world: World) -> None:
    world.view = make_view(leases=[make_lease("")])
    with pytest.raises(NotInTime, match="Lease"), set_up(SilentShow(), PLAIN):  # type: ignore[arg-type]
        raise AssertionError("the tour must not begin")
    assert world.deeds == UP + DOWN


def test_the_new_kind_is_waited_for(world: World) -> None:
    world.kinds = ["pods", KIND, KINDS]
    with set_up(SilentShow(), PLAIN):  # type: ignore[arg-type]
        assert world.kinds == []
        assert world.deeds == UP


def test_a_kind_that_is_not_served(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.demo.scene._KNOWN_SECONDS", -1.0)
    world.kinds = []
    with pytest.raises(ComponentError, match=KIND), set_up(SilentShow(), PLAIN):  # type: ignore[arg-type]
        raise AssertionError("the tour must not begin")
    assert world.deeds[-2:] == ["kill kube-apiserver", "cluster down"]
