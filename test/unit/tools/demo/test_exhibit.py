"""tools.demo.exhibit: the complete output of one example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.unit.tools.demo.fakes import FakeScene, SilentShow
from test.unit.tools.demo.objects import NAME, make_children, make_group, make_service, make_set, make_view
from tools.demo.exhibit import Example, run_example
from tools.demo.facts import Kind, View
from tools.demo.tour import Result
from tools.localcluster import CommandError

FILE = Path("examples/quickstart.yaml")


def a_view(**status: Any) -> View:
    pods = [pod for index in range(4) for pod in make_group(index)]
    for pod in pods:
        pod["metadata"]["namespace"], pod["spec"]["subdomain"] = "default", NAME
    children = make_children(pods)
    for child in children:
        child["metadata"]["labels"] = {NAME_LABEL: NAME}
    return make_view(pods, lws=make_set(**status), statefulsets=children)


def run(*views: View, **changes: Any) -> tuple[Result, SilentShow, FakeScene]:
    show, scene = SilentShow(), FakeScene(list(views))
    comment = ("What to look at: everything.",)
    example = Example(
        "quickstart", FILE, comment, {NAME: {}}, changes.get("least", {}), left_alone=changes.get("alone", ())
    )
    return run_example(scene, show, example), show, scene  # type: ignore[arg-type]


def test_an_example_becomes_ready() -> None:
    result, show, scene = run(a_view())
    assert result.is_good and result.checks == 6, [check for check in show.checks if not check.held]
    assert show.steps == ["Example quickstart"]
    assert "What to look at: everything." in show.summary
    assert scene.cluster.commands == [("--namespace", "default", "apply", "-f", str(FILE))]


@pytest.mark.parametrize(
    ("status", "least"),
    [
        pytest.param({"readyReplicas": 3}, {}, id="a group is not ready"),
        pytest.param({}, {NAME: 5}, id="an autoscaler is not done"),
    ],
)
def test_missing_objects_are_reported(status: dict[str, Any], least: dict[str, int]) -> None:
    result, show, _ = run(a_view(**status), least=least)
    assert result.failed == (f"LeaderWorkerSet {NAME} to be at rest",)
    assert show.failures


def test_a_set_of_another_controller_has_no_children() -> None:
    result, _, _ = run(a_view(), alone=("elsewhere",))
    assert result.is_good and result.checks == 7
    view = a_view()
    for kind, obj in (
        (Kind.SET, {"metadata": {"name": "elsewhere"}, "status": {"replicas": 2}}),
        (Kind.SERVICE, {"metadata": {"name": "elsewhere", "labels": {NAME_LABEL: "elsewhere"}}, "spec": {}}),
    ):
        objects = {**view.objects, kind: (*view.objects[kind], obj)}
        result, _, _ = run(View(objects, view.leaders), alone=("elsewhere",))
        assert result.failed == ("elsewhere, which another controller runs, has no children and no status",)


def test_a_refusal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise CommandError("denied")

    monkeypatch.setattr("test.unit.tools.demo.fakes.FakeCluster.kubectl", refuse)
    result, show, _ = run(a_view())
    assert result.failed == ("the example can be applied",)
    assert show.checks[0].actual == "denied"


def test_an_unusable_service_is_detected() -> None:
    service = make_service()
    service["spec"]["clusterIP"] = "10.0.0.1"
    view = a_view()
    result, _, _ = run(View({**view.objects, "Service": (service,)}, view.leaders))  # type: ignore[dict-item]
    assert len(result.failed) == 1 and "headless" in result.failed[0]
