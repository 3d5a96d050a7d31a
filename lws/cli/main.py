"""The entry point and subcommands. Exit codes: 0 success, 1 error (printed in one line), 2 wrong usage."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType

import click

from lws import __version__
from lws.cli.screen import printable
from lws.config import ConfigError
from lws.runtime.errors import ClusterError

PROGRAM, COMPLETION_VARIABLE = "lws", "_LWS_COMPLETE"
PLUGIN = "kubectl-lws"
# The name of the program in the image, for Deployments that were written for upstream.
_MANAGER = "manager"

COMMANDS = MappingProxyType(
    {
        **{name: name for name in ("completion", "diff", "doctor", "history", "key", "manager", "pause")},
        **{name: name for name in ("plan", "restart", "status", "undo")},
        "resume": "pause",
    }
)
"""Name of a subcommand → module in `lws.cli.commands` that contains it."""


class _Commands(click.Group):
    """Imports a command when it is called, so that the manager starts without importing the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS.keys() | self.commands.keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.add_command(getattr(import_module(f"lws.cli.commands.{COMMANDS[cmd_name]}"), cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 error, 2 wrong usage. The help of a command says what else they mean.",
)
@click.version_option(__version__, prog_name="lws")
def commands() -> None:
    """LeaderWorkerSet: groups of pods, one leader and its workers, run, rolled and healed as one unit."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. No error of a user or a cluster ends with a traceback."""
    _write_what_can_be_written()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if Path(sys.argv[0]).name == _MANAGER:
        argv.insert(0, _MANAGER)
    if argv[:1] == [_MANAGER]:
        from lws.cli.commands.manager import as_double_dashed, manager

        argv = as_double_dashed(argv, manager.params)
    name, completion = _called(Path(sys.argv[0]).name)
    try:
        code = commands.main(argv, prog_name=name, complete_var=completion, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else name
        click.echo(f"error: {error.format_message()} (see {path} --help)", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (ConfigError, ClusterError, OSError) as error:
        click.echo(printable(f"lws: {error}", kept="\n"), err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _write_what_can_be_written() -> None:
    """Write UTF-8 to other programs, as kubectl does, and a question mark if a terminal lacks a character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def _called(program: str) -> tuple[str, str]:
    """Return the program's name for usage texts, and the variable by which shells request completions."""
    if program != PLUGIN:
        return PROGRAM, COMPLETION_VARIABLE
    variable = "_KUBECTL_LWS_COMPLETE"
    # A completion script completes the program of the plugin, but users type `kubectl lws`.
    return (PLUGIN if variable in os.environ else "kubectl lws"), variable
