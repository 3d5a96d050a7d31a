"""`lws key`: the revision key of a manifest, as the controller would compute it.

In: a LeaderWorkerSet manifest. Out: its key and, with --data, the canonical bytes that the key is the hash
of.
"""

from __future__ import annotations

from typing import TextIO

import click

from lws.cli.arguments.options import EXIT_CODES
from lws.cli.facts.creation import as_stored
from lws.cli.facts.manifests import sets_in
from lws.cli.refusal import Refusal
from lws.leaderworkerset.revisions.history import record
from lws_api.leaderworkerset.v1 import API_VERSION, KIND


@click.command(short_help="Print the revision key of each set in a manifest.", epilog=EXIT_CODES)
@click.option(
    "-f", "--filename", type=click.File("r"), required=True, help="Manifest (YAML or JSON), or - for stdin."
)
@click.option("--data", is_flag=True, help="Also print the canonical bytes.")
def key(filename: TextIO, data: bool) -> None:
    """Print the revision key (template hash) of each LeaderWorkerSet in a manifest.

    Defaults are filled in first, as the API server and the webhook would.
    """
    found = False
    for lws in sets_in(filename):
        found = True
        recorded = record(as_stored(lws))
        click.echo(f"{lws['metadata']['name']}\t{recorded.key}")
        if data:
            # Bytes, because the terminal may speak another encoding than the hash does.
            click.echo(recorded.text.encode())
    if not found:
        raise Refusal(f"{filename.name} holds no {KIND} of {API_VERSION}")
