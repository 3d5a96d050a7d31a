"""Which part of the OpenAPI document of Kubernetes do our CRDs need?

In: the OpenAPI v3 document of `apps/v1`, as an API server serves it. Out: the committed extract: the embedded
types and all that they refer to, one type per line, without descriptions and lists of values. To refresh it
from a running API server of the pinned version:

    kubectl get --raw /openapi/v3/apis/apps/v1 | python -m tools.openapi.extract
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KUBERNETES = "1.37.2"
"""The release that the extract was taken from."""

PATH = Path(__file__).with_name(f"kubernetes-{KUBERNETES}.json")

EMBEDDED = ("io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.core.v1.PersistentVolumeClaim")
"""The types that our kinds embed."""

_LEFT_OUT = frozenset({"description", "enum"})
"""Not needed: a CRD that repeats the values of enums would refuse what only the API server of tomorrow knows.
"""

Schemas = dict[str, dict[str, Any]]
"""Type name → its OpenAPI schema."""


def read(path: Path = PATH) -> Schemas:
    """The committed extract."""
    schemas: Schemas = json.loads(path.read_text(encoding="utf-8"))
    return schemas


def extract(document: Mapping[str, Any]) -> Schemas:
    """The embedded types and everything they refer to; raises KeyError if the document lacks one of them."""
    schemas = document["components"]["schemas"]
    wanted: Schemas = {}
    missing = list(EMBEDDED)
    while missing:
        name = missing.pop()
        if name not in wanted:
            wanted[name] = _shortened(schemas[name])
            missing.extend(_references(wanted[name]))
    return wanted


def rendered(schemas: Schemas) -> str:
    """The text of the extract: sorted, one type per line, so that a difference shows which type."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(schema, sort_keys=True, separators=(',', ':'))}"
        for name, schema in sorted(schemas.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def target(reference: str) -> str:
    """The type name that a `$ref` means."""
    return reference.rpartition("/")[2]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref":
                yield target(value)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _shortened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_shortened(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        # The keys under `properties` are names of fields, and a field may well be called "description".
        key: {field: _shortened(value) for field, value in node.items()}
        if key == "properties"
        else _shortened(node)
        for key, node in schema.items()
        if key not in _LEFT_OUT
    }


def main() -> None:
    """Write the extract of the document on standard input."""
    PATH.write_text(rendered(extract(json.load(sys.stdin))), encoding="utf-8")
    print(f"wrote {PATH.name}; now run `python -m tools.crdgen`")


if __name__ == "__main__":
    main()
