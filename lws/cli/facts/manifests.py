"""Parse LeaderWorkerSets and sets of other kinds from a stream of YAML or JSON documents.

The stream is UTF-8, whatever the encoding of the terminal. Other kinds are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, BinaryIO, ClassVar

import yaml

from lws.cli.refusal import Refusal
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET
from lws_api.meta import ResourceKind

_TAG = "tag:yaml.org,2002:"
_NOT_AS_PYYAML = frozenset({f"{_TAG}timestamp", f"{_TAG}int", f"{_TAG}float"})
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")


# The loader written in C, where PyYAML has it, is ten times faster. A base chosen at run time has no type.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as kubectl does: a date is text, 1:30 is no number, and 1e3 is one."""

    yaml_implicit_resolvers: ClassVar = {
        first: [resolver for resolver in resolvers if resolver[0] not in _NOT_AS_PYYAML]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(f"{_TAG}int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


_Kinds = Collection[ResourceKind]


def title_of(stream: BinaryIO) -> str:
    """What messages call a manifest."""
    return str(getattr(stream, "name", "<stdin>"))


def sets_in(stream: BinaryIO, kinds: _Kinds = (LEADER_WORKER_SET,)) -> Iterator[dict[str, Any]]:
    """Every object of these kinds, in order; those within a List too. Raises Refusal for what is no YAML,
    what JSON cannot say, or an unknown version.
    """
    versions = {kind.kind: f"{kind.group}/{kind.version}" for kind in kinds}
    try:
        documents = list(yaml.load_all(stream, Loader=_Loader))
        json.dumps(documents, ensure_ascii=False, allow_nan=False).encode()
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refusal(f"{title_of(stream)} is not YAML: {error}") from error
    except RecursionError as error:
        raise Refusal(f"{title_of(stream)} is nested too deeply to be a manifest") from error
    except (TypeError, ValueError) as error:
        # YAML knows sets, binaries and references to itself.
        raise Refusal(f"{title_of(stream)} cannot be written as JSON: {error}") from error
    for document in documents:
        yield from _sets_of(document, title_of(stream), versions)


def _sets_of(document: Any, name: str, versions: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if document.get("kind") == "List" and isinstance(items, list):
        for item in items:
            yield from _sets_of(item, name, versions)
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in versions:
        return
    given = document.get("apiVersion")
    if given != versions[kind]:
        raise Refusal(f"{name}: apiVersion is {given!r}, only {versions[kind]} is known")
    yield document
