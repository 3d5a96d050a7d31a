"""lws.cli.main: the list of commands, and the output and exit code of every failure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

from lws import __version__
from lws.cli.main import COMMANDS, commands, main
from lws.config import ConfigError
from lws.runtime.errors import Forbidden, Unreachable

Run = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `lws` with arguments and returns exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/lws"])

    def call(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | int | None], None]:
    """Return a function that registers a command `try` with the given outcome."""

    def register(end: BaseException | int | None) -> None:
        @click.command("try")
        def command() -> Any:
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setitem(commands.commands, "try", command)

    return register


def test_every_command_has_a_description(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    context = click.Context(commands)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        assert f"  {name} " in out
        assert command is not None and command.get_short_help_str(), name
    assert {"key", "manager", "history", "undo", "status", "plan"} <= set(commands.list_commands(context))


def test_the_manager_does_not_import_other_commands() -> None:
    script = "import sys, lws.cli.main, lws.cli.commands.manager; print(*(each for each in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    needed = {
        "lws.cli.main",
        "lws.cli.commands.manager",
        "lws.cli",
        "lws.cli.commands",
        "lws.cli.screen",
    }
    loaded = {
        module for module in done.stdout.split() if module.startswith("lws.cli") or module == "deepdiff"
    }
    assert loaded == needed


@pytest.mark.parametrize("spelling", ["-h", "--help"])
def test_help_in_both_spellings(spelling: str, run: Run) -> None:
    code, out, _ = run(spelling)
    assert code == 0 and out.startswith("Usage: lws [OPTIONS] COMMAND")


def test_the_version(run: Run) -> None:
    assert run("--version") == (0, f"lws, version {__version__}\n", "")


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        pytest.param(None, 0, "", id="done"),
        pytest.param(0, 0, "", id="success with a message"),
        pytest.param(3, 3, "", id="a specific exit code"),
        pytest.param(click.ClickException("no such set"), 1, "Error: no such set\n", id="could not"),
        pytest.param(
            ConfigError(["webhook.port: too large"]), 1, "lws: webhook.port: too large\n", id="configuration"
        ),
        pytest.param(Unreachable("connection refused"), 1, "lws: connection refused\n", id="no API server"),
        pytest.param(Forbidden(403, "Forbidden", "may not list"), 1, "lws: may not list\n", id="a refusal"),
        pytest.param(
            PermissionError(13, "Permission denied", "a.yaml"),
            1,
            "lws: [Errno 13] Permission denied: 'a.yaml'\n",
            id="a file that may not be read",
        ),
        pytest.param(click.Abort(), 130, "", id="a person has had enough"),
    ],
)
def test_exit_codes_and_messages(
    end: BaseException | int | None, code: int, message: str, run: Run, fails: Callable[..., None]
) -> None:
    fails(end)
    assert run("try") == (code, "", message)


def test_an_interrupt_prints_no_traceback(run: Run, fails: Callable[..., None]) -> None:
    fails(KeyboardInterrupt())
    code, out, err = run("try")
    assert (code, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["histroy"], "No such command 'histroy'"),
        (["key"], "either NAME or '-f' / '--filename' is required"),
        (["manager", "-no-such-flag"], "No such option"),
        (["manager", "--zap-log-level", "loud"], "'loud' is no log level: use debug, info, error, panic"),
        (["manager", "--leader-elect=perhaps"], "'perhaps' is not a valid boolean"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, run: Run) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize("spelling", ["-version", "--version", "--version=true"])
def test_flags_of_the_manager_accept_a_single_dash(spelling: str, run: Run) -> None:
    code, out, _ = run("manager", spelling)
    assert code == 0 and out.startswith(f"v{__version__}\n")


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        pytest.param("/usr/bin/lws", ["manager", "--version"], id="lws manager"),
        pytest.param("/manager", ["--version"], id="the program name in the image of upstream"),
    ],
)
def test_the_version_of_the_manager_has_the_three_lines_of_upstream(
    program: str, arguments: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setenv("LWS_BUILD_DATE", "2026-11-22T12:00:00Z")
    monkeypatch.setenv("LWS_GIT_COMMIT", "0123abc")
    assert run(*arguments) == (0, f"v{__version__}\n2026-11-22T12:00:00Z\n0123abc\n", "")


def test_a_missing_command_prints_the_usage(run: Run) -> None:
    code, out, err = run()
    assert code == 2
    assert (out + err).startswith("Usage: lws ")
