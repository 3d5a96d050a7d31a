"""lws.cli.main as a user calls it: `lws` and `kubectl lws`, the list of commands, and usage errors."""

from __future__ import annotations

import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

from lws.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[4]


def called(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_the_wheel_installs_both_names_and_the_completion_of_kubectl() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {
        "lws": "lws.cli:main",
        "kubectl-lws": "lws.cli:main",
        "kubectl_complete-lws": "lws.cli.commands.completion:complete_for_kubectl",
    }
    assert pkgutil.resolve_name("lws.cli:main") is main
    assert callable(pkgutil.resolve_name("lws.cli.commands.completion:complete_for_kubectl"))


@pytest.mark.parametrize(
    ("program", "name"),
    [("/usr/bin/lws", "lws"), ("/opt/bin/kubectl-lws", "kubectl lws"), ("__main__.py", "lws")],
)
def test_the_usage_shows_the_name_of_the_program(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    code, out, _ = called(["history", "--help"], capsys)
    assert (code, out.splitlines()[0]) == (0, f"Usage: {name} history [OPTIONS] NAME")
    code, _, err = called(["history"], capsys)
    assert code == 2
    assert "Missing argument 'NAME'" in err
    assert f"{name} history --help" in err


@pytest.mark.parametrize(
    ("program", "variable", "name"),
    [("lws", "_LWS_COMPLETE", "lws"), ("kubectl-lws", "_KUBECTL_LWS_COMPLETE", "kubectl-lws")],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_the_program(
    program: str,
    variable: str,
    name: str,
    shell: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setenv(variable, f"{shell}_source")
    code, out, _ = called([], capsys)
    assert code == 0
    assert f"{variable}={shell}_complete" in out
    registered = {
        "bash": rf"complete -o nosort -F \w+ {name}$",
        "zsh": rf"^#compdef {name}$",
        "fish": rf"^complete --no-files --command {name} ",
    }
    assert re.search(registered[shell], out, re.MULTILINE)


def test_commands_are_completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["lws"])
    for name, value in {"_LWS_COMPLETE": "bash_complete", "COMP_WORDS": "lws re", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    code, out, _ = called([], capsys)
    assert (code, out.split()) == (0, ["plain,restart", "plain,resume"])


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called([command, "--help"], capsys)
    assert code == 0
    assert len(out.splitlines()[2]) > 20


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(COMMANDS) if name != "manager")])
def test_every_command_documents_its_exit_codes(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = called([*command, "--help"], capsys)
    text = " ".join(out.split())
    assert code == 0
    assert re.search(r"Exit codes: 0 .+[12] .*wrong usage\.", text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "demo", "--watch", "-o", "json"],
        ["status", "demo", "--timeout", "5"],
        ["status", "pod/demo"],
        ["status", "demo", "--watch", "--timeout", "0"],
        ["history", "demo", "--revision", "0"],
        ["history", "demo", "-o", "xml"],
        ["diff", "demo", "--from", "a"],
        ["undo"],
        ["plan"],
        ["plan", "-f", "/does/not/exist"],
        ["plan", "-f", "-", "--force-conflicts"],
    ],
    ids=" ".join,
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(arguments, capsys)
    assert (code, out) == (2, "")
    assert f"lws {arguments[0]} --help" in err
