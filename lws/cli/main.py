"""The entry point: the table of subcommands, and errors as one line each.

In: arguments. Out: an exit code: 0 done, 1 could not, 2 asked wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from lws import __version__
from lws.cli.arguments import as_double_dashed
from lws.cli.key import key
from lws.cli.manager import manager
from lws.cluster.errors import ClusterError
from lws.config import ConfigError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lws")
def commands() -> None:
    """LeaderWorkerSet: groups of pods, one leader and its workers, run, rolled and healed as one unit."""


commands.add_command(manager)
commands.add_command(key)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; never ends with a traceback for anything that a user or a cluster can cause."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["manager"]:
        given = as_double_dashed(given, manager.params)
    try:
        code = commands.main(given, prog_name="lws", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (ConfigError, ClusterError, OSError) as error:
        click.echo(f"lws: {error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
