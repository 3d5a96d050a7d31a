"""lws.cli.commands.completion: the completion scripts of the shells."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import CompletionItem
from click.testing import CliRunner

from lws.cli.commands.completion import SHELLS, complete_for_kubectl, completion
from lws.cli.main import commands


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_lws(shell: str) -> None:
    done = CliRunner().invoke(completion, [shell])
    assert done.exit_code == 0
    assert f"_LWS_COMPLETE={shell}_complete" in done.output


def test_an_unknown_shell_is_rejected() -> None:
    done = CliRunner().invoke(completion, ["tcsh"])
    assert done.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.output


def test_every_shell_is_explained() -> None:
    text = CliRunner().invoke(completion, ["--help"]).output
    assert all(f"lws completion {shell}" in text for shell in SHELLS)
    assert "kubectl_complete-lws" in text


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    complete_for_kubectl(words)
    out, err = capsys.readouterr()
    assert err == ""
    return list(out.splitlines())


def test_commands_are_completed_with_descriptions(capsys: pytest.CaptureFixture[str]) -> None:
    *lines, directive = answer(capsys, "re")
    assert [line.split("\t")[0] for line in lines] == ["restart", "resume"]
    assert lines[1].split("\t")[1] == "Resume the rollout of a paused set."
    assert directive == ":4"


def test_an_empty_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(line.startswith("status\t") for line in answer(capsys))


def test_options_and_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    lines = answer(capsys, "history", "--rev")
    assert lines == ["--revision\tShow only this revision, with its template.", ":4"]
    assert answer(capsys, "history", "demo", "-o", "y") == ["yaml", ":4"]
    assert answer(capsys, "history", "demo", "--output=j") == ["json", ":4"]


@pytest.mark.parametrize(
    ("words", "directive"),
    [(["plan", "-f", ""], ":0"), (["history", "--kubeconfig", "/etc/k"], ":0"), (["try", "--to", ""], ":16")],
    ids=" ".join,
)
def test_file_names_are_completed_by_the_shell(
    words: list[str], directive: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = click.Option(["--to"], type=click.Path(file_okay=False))
    monkeypatch.setitem(commands.commands, "try", click.Command("try", params=[folder]))
    assert answer(capsys, *words) == [directive]


def test_arguments_of_kubectl_are_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def candidates(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{context.params['namespace']}-{incomplete}")]

    name = click.Argument(["name"], shell_complete=candidates)
    command = click.Command("try", params=[click.Option(["-n", "--namespace"]), name])
    monkeypatch.setitem(commands.commands, "try", command)
    assert answer(capsys, "try", "-n", "team", "de") == ["team-de", ":4"]
