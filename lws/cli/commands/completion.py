"""`lws completion`: print the script that completes `lws` in a shell, and serve `kubectl_complete-lws`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete, get_completion_class

from lws.cli.arguments import EXIT_CODES
from lws.cli.main import COMPLETION_VARIABLE, PLUGIN, PROGRAM, commands

# https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective
_COMPLETE_FILES, _NO_FILES, _COMPLETE_FOLDERS = 0, 4, 16

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
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(commands, {}, PROGRAM, COMPLETION_VARIABLE).source())


def complete_for_kubectl(arguments: Sequence[str] | None = None) -> None:
    """Print the candidates for the last of the words after `kubectl lws`, then a directive for the shell.

    Each candidate is a line; a tab separates it from its description.
    """
    *words, incomplete = (sys.argv[1:] if arguments is None else arguments) or [""]
    items = ShellComplete(commands, {}, PLUGIN, "").get_completions(list(words), incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else str(item.value))
    kinds = {item.type for item in items}
    folders = _COMPLETE_FOLDERS if "dir" in kinds else _NO_FILES
    click.echo(f":{_COMPLETE_FILES if 'file' in kinds else folders}")
