"""Which LeaderWorkerSets does a manifest hold?

In: a stream of YAML or JSON documents. Out: the sets, as written; all other kinds are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

import click
import yaml

from lws_api.leaderworkerset.v1 import API_VERSION, KIND

# The loader written in C, where PyYAML has it, is ten times faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def sets_in(stream: TextIO) -> Iterator[dict[str, Any]]:
    """Every set, in order; those within a List too. Raises ClickException for what is no YAML or an unknown
    version.
    """
    try:
        documents = list(yaml.load_all(stream, Loader=_LOADER))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{stream.name} is not YAML: {error}") from error
    for document in documents:
        yield from _sets_of(document, stream.name)


def _sets_of(document: Any, name: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    if document.get("kind") == "List":
        for item in document.get("items") or ():
            yield from _sets_of(item, name)
    if document.get("kind") != KIND:
        return
    given = document.get("apiVersion")
    if given != API_VERSION:
        raise click.ClickException(f"{name}: apiVersion is {given!r}, only {API_VERSION} is known")
    yield document
