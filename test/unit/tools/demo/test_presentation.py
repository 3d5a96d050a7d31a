from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest

from test.unit.tools.demo.fakes import FakeScene, SilentShow
from test.unit.tools.demo.objects import make_view
from tools.demo.exhibit import find_example
from tools.demo.presentation import LiveShow, choose_show, invitation, present
from tools.demo.scene import PLAIN, WITH_WORKLOADS
from tools.demo.scene import Stage as BuiltOn
from tools.demo.show import Result, Show
from tools.localcluster import BuildError


class Stage:
    """`present` with a fake scene, display and tour."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.show = SilentShow()
        self.result = Result(3)
        self.trouble: BaseException | None = None
        self.is_down = False
        self.scene = FakeScene([make_view()], workspace=tmp_path)
        monkeypatch.setattr("tools.demo.presentation.choose_show", lambda: self.show)
        monkeypatch.setattr("tools.demo.presentation.set_up", self.set_up)
        monkeypatch.setattr("tools.demo.presentation.run_tour", lambda *_: self.result)
        monkeypatch.setattr("tools.demo.presentation.run_example", lambda *_: Result(1))

    @contextmanager
    def set_up(self, show: SilentShow, built_on: BuiltOn) -> Iterator[FakeScene]:
        self.built_on = built_on
        if self.trouble is not None:
            raise self.trouble
        try:
            yield self.scene
        finally:
            self.is_down = True


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    return Stage(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("result", "code", "lines"),
    [
        pytest.param(Result(3), 0, ["All 3 checks held."], id="good"),
        pytest.param(Result(3, ("a",)), 1, ["1 of 3 checks did not hold:", "a"], id="bad"),
        pytest.param(Result(0), 1, ["0 of 0 checks did not hold:"], id="nothing was checked"),
    ],
)
def test_with_once_the_demo_exits_after_the_checks(
    result: Result, code: int, lines: list[str], stage: Stage
) -> None:
    stage.result = result
    assert present(once=True) == code
    assert stage.show.summary == ["", *lines] and lines == result.verdict
    assert stage.is_down and stage.show.closed == 1


@pytest.mark.parametrize("result", [Result(3), Result(3, ("a",))])
def test_the_cluster_is_kept_until_ctrl_c(
    result: Result, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        assert not stage.is_down
        raise KeyboardInterrupt

    monkeypatch.setattr("threading.Event.wait", interrupted)
    stage.result = result
    assert present(once=False) == (0 if result.is_good else 1)
    assert f"export KUBECONFIG={stage.scene.cluster.kubeconfig}" in stage.show.summary
    assert "export PATH=/programs:$PATH" in stage.show.summary
    assert stage.is_down


@pytest.mark.parametrize("trouble", [BuildError("no compiler"), OSError("disk full")])
def test_an_error_is_one_message(trouble: Exception, stage: Stage) -> None:
    stage.trouble = trouble
    assert present(once=True) == 1
    assert stage.show.failures == [f"error: {trouble}"]
    assert stage.show.closed == 1


def test_ctrl_c_is_raised_to_the_caller(stage: Stage) -> None:
    stage.trouble = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        present(once=True)
    assert stage.show.closed == 1


def test_a_closed_pipe(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage.trouble = BrokenPipeError()
    with (tmp_path / "out").open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert present(once=True) == 1
        stdout.write("nobody reads this")
    assert (tmp_path / "out").read_text() == ""
    assert stage.show.failures == []


def test_three_commands_are_suggested() -> None:
    lines = invitation(Path("/state/admin.yaml"), Path("/programs"))
    assert len([line for line in lines if line.startswith("kubectl ")]) == 3
    assert len([line for line in lines if line.startswith("export ")]) == 2


def test_an_example_suggests_its_own_commands() -> None:
    example = find_example("claims")
    lines = invitation(Path("/state/admin.yaml"), Path("/programs"), example)
    assert len([line for line in lines if line.startswith("export ")]) == 2
    assert lines[-1 - len(example.comment) : -1] == list(example.comment)


def test_an_example_is_shown_instead_of_the_tour(stage: Stage) -> None:
    stage.result = Result(3, ("the tour was played",))
    assert present(once=True, example=find_example("claims")) == 0
    assert stage.show.summary == ["", "All 1 checks held."]
    assert stage.built_on == PLAIN


def test_an_example_that_needs_feature_gates_has_them(stage: Stage) -> None:
    assert present(once=True, example=find_example("scheduling")) == 0
    assert stage.built_on == WITH_WORKLOADS


def test_unencodable_characters_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        choose_show().tell(["2 × 3"])
    assert (tmp_path / "out").read_text() == "2 ? 3\n"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "kind"),
    [
        pytest.param(Terminal(), "xterm", LiveShow, id="a terminal"),
        pytest.param(Terminal(), "dumb", Show, id="a terminal without control codes"),
        pytest.param(Terminal(), None, Show, id="a terminal of which nothing is known"),
        pytest.param(StringIO(), "xterm", Show, id="a pipe"),
    ],
)
def test_control_codes_are_only_for_terminals(
    stream: StringIO, term: str | None, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("FORCE_COLOR", "1")
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    show = choose_show()
    show.close()
    assert type(show) is kind
    assert ("\x1b" in stream.getvalue()) == (kind is LiveShow)
