from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from tools.demo.__main__ import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs `main`.

    Its first argument stands in for the presentation and is called with `once`.
    """

    def run_it(present: Callable[[bool], int], *arguments: str) -> int:
        monkeypatch.setattr("tools.demo.presentation.present", lambda once, example: present(once))
        monkeypatch.setattr(sys, "argv", ["demo", *arguments])
        return main()

    return run_it


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(("arguments", "once"), [([], False), (["--once"], True)])
def test_the_presentation_determines_the_exit_code(
    run: Callable[..., int], arguments: list[str], once: bool, code: int
) -> None:
    calls: list[bool] = []

    def present(once: bool) -> int:
        calls.append(once)
        return code

    assert run(present, *arguments) == code
    assert calls == [once]


def killed_by(number: signal.Signals, deeds: list[str]) -> Callable[[bool], int]:
    """Return a presentation that receives a signal, and a second one while it cleans up."""

    def present(_: bool) -> int:
        try:
            os.kill(os.getpid(), number)
            deeds.append("went on")
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            deeds.append("cleaned up")
        return 0

    return present


def test_ctrl_c_exits_130_and_a_second_one_is_ignored(run: Callable[..., int]) -> None:
    deeds: list[str] = []
    assert run(killed_by(signal.SIGINT, deeds)) == 130
    assert deeds == ["cleaned up"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_clean_up_too(run: Callable[..., int], number: signal.Signals, code: int) -> None:
    deeds: list[str] = []
    with pytest.raises(SystemExit) as ended:
        run(killed_by(number, deeds))
    assert ended.value.code == code
    assert deeds == ["cleaned up"]


def test_signal_handlers_are_restored(run: Callable[..., int]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    run(killed_by(signal.SIGINT, []))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_an_example_is_found_by_its_name(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lambda _: 0, "--example", "no-such") == 2
    stderr = capsys.readouterr().err
    assert "there is no example 'no-such'" in stderr and "claims, " in stderr
    names: list[str] = []
    monkeypatch.setattr("tools.demo.presentation.present", lambda _, example: names.append(example.name) or 0)
    monkeypatch.setattr(sys, "argv", ["demo", "--example", "vllm/native.yaml"])
    assert main() == 0
    assert names == ["vllm/native"]


def test_unknown_arguments_are_refused(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(lambda _: 0, "--twice")
    assert ended.value.code == 2
    assert "--twice" in capsys.readouterr().err
