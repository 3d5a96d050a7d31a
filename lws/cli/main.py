"""The entry point: the table of subcommands, and errors as one line each.

In: arguments. Out: an exit code: 0 done, 1 could not, 2 asked wrongly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from lws import __version__
from lws.cli.arguments import as_double_dashed
from lws.cli.diff import diff
from lws.cli.history import history
from lws.cli.key import key
from lws.cli.manager import manager
from lws.cli.pause import pause, resume
from lws.cli.plan import plan
from lws.cli.restart import restart
from lws.cli.status import status
from lws.cli.undo import undo
from lws.cluster.errors import ClusterError
from lws.config import ConfigError

_PLUGIN = "kubectl-lws"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lws")
def commands() -> None:
    """LeaderWorkerSet: groups of pods, one leader and its workers, run, rolled and healed as one unit."""


for _command in (status, history, diff, undo, restart, pause, resume, plan, key, manager):
    commands.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; never ends with a traceback for anything that a user or a cluster can cause."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["manager"]:
        given = as_double_dashed(given, manager.params)
    name, completion = _called(Path(sys.argv[0]).name)
    try:
        code = commands.main(given, prog_name=name, complete_var=completion, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        asked = error.ctx.command_path if error.ctx is not None else name
        click.echo(f"{asked}: {error.format_message()} (see {asked} --help)", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (ConfigError, ClusterError, OSError) as error:
        click.echo(f"lws: {error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _called(program: str) -> tuple[str, str]:
    """By which name usage texts call us, and which variable shells ask for completions with."""
    if program != _PLUGIN:
        return "lws", "_LWS_COMPLETE"
    variable = "_KUBECTL_LWS_COMPLETE"
    # A completion script is for the program of the plugin; a person has typed `kubectl lws`.
    return (_PLUGIN if variable in os.environ else "kubectl lws"), variable
