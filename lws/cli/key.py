"""`lws key`: the revision key of a manifest, as the controller would compute it.

In: a LeaderWorkerSet manifest. Out: its key and, with --data, the canonical bytes that the key is the hash
of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

import click
import yaml

from lws.admission.leaderworkerset import default
from lws.leaderworkerset.revisions import record
from lws_api.crds import defaulted
from lws_api.leaderworkerset.v1 import API_VERSION, KIND


@click.command()
@click.option(
    "-f", "--filename", type=click.File("r"), required=True, help="Manifest (YAML or JSON); - for stdin."
)
@click.option("--data", is_flag=True, help="Print the canonical bytes too.")
def key(filename: TextIO, data: bool) -> None:
    """Print the revision key (template hash) of each LeaderWorkerSet in a manifest.

    Defaults are filled in first, as the API server and the webhook would.
    """
    found = False
    for lws in _sets_in(filename):
        found = True
        defaulted_lws = defaulted(lws)
        default(defaulted_lws)
        recorded = record(defaulted_lws)
        click.echo(f"{lws.get('metadata', {}).get('name', '-')}\t{recorded.key}")
        if data:
            click.echo(recorded.text)
    if not found:
        raise click.ClickException(f"{filename.name} holds no {KIND} of {API_VERSION}")


def _sets_in(stream: TextIO) -> Iterator[dict[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(stream))
    except yaml.YAMLError as error:
        raise click.ClickException(f"{stream.name} is not YAML: {error}") from error
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == KIND:
            if document.get("apiVersion") != API_VERSION:
                given = document.get("apiVersion")
                message = f"{stream.name}: apiVersion is {given!r}, only {API_VERSION} is known"
                raise click.ClickException(message)
            yield document
