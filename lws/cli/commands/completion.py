"""`lws completion`: the script that makes a shell complete `lws`.

In: the name of a shell. Out: the script.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lws.cli.arguments.options import EXIT_CODES
from lws.cli.main import COMPLETION_VARIABLE, PROGRAM, commands

SHELLS = ("bash", "zsh", "fish")

_HELP = """Print the completion script of a shell for `lws`.

\b
bash (4.4 or newer), in ~/.bashrc:
  source <(lws completion bash)
zsh, in ~/.zshrc after compinit:
  source <(lws completion zsh)
fish:
  lws completion fish > ~/.config/fish/completions/lws.fish

`kubectl lws` is completed by kubectl's own completion: see `kubectl completion --help`. It calls
kubectl_complete-lws, which is installed beside kubectl-lws.
"""


@click.command(help=_HELP, short_help="Print the completion script of a shell.", epilog=EXIT_CODES)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """The script for one shell."""
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(commands, {}, PROGRAM, COMPLETION_VARIABLE).source())
