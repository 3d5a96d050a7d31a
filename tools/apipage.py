"""Write docs/reference/api.md, which lists the fields of every kind, from the generated definitions and the
models.

`python -m tools.apipage` writes the page; `--check` compares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from lws.leaderworkerset.revisions.encoding import LIVE, TYPES
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET
from lws_api.meta import ActsAs, KubeModel, ResourceKind
from tools import generated
from tools.crdgen import KINDS

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/reference/api.md")

_INTRODUCTION = """\
# API reference

For authors of manifests and clients: every field, as in `kubectl explain`. Changing a field marked ↻ starts a
rollout.
"""
_SPEC = "| Field | Type | Default | Meaning |\n| --- | --- | --- | --- |\n"
_STATUS = "| Field | Type | Meaning |\n| --- | --- | --- |\n"
_TEMPLATES = ("workerTemplate", "leaderTemplate", "volumeClaimTemplates")
"""Fields that contain templates of Kubernetes, whose fields are not listed."""
_ELSEWHERE = ("roles[].spec", "roles[].metadata", "conditions[]", "scheduling")
"""Fields whose subfields are described in another table, belong to Kubernetes, or are rejected anyway."""


def page() -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION]
    for kind in KINDS:
        (version,) = definitions()[kind.kind]["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        for part, head, source in (("spec", _SPEC, kind), ("status", _STATUS, None)):
            rows = "".join(_rows(schema[part], "", source))
            parts.append(f"## {kind.kind} {part}\n\n{head}{rows}")
    return "\n".join(parts)


def _rows(schema: Mapping[str, Any], path: str, kind: ResourceKind | None) -> Iterator[str]:
    required = schema.get("required") or ()
    for name, field in (schema.get("properties") or {}).items():
        field_path = f"{path}.{name}".lstrip(".")
        meaning = " ".join((field.get("description") or "").split()).replace("|", "\\|")
        if kind is None:
            yield f"| `{field_path}` | {_type_of(field)} | {meaning} |\n"
        else:
            value = field.get("default", _values_if_absent(kind).get(field_path.replace("[]", "")))
            default = "required" if name in required else _shown(value)
            # The text is for `kubectl explain`, which does not show the value.
            meaning = meaning.replace(f" (default {value})", "")
            mark = " ↻" if _is_recorded(field_path, kind) else ""
            yield f"| `{field_path}`{mark} | {_type_of(field)} | {default} | {meaning} |\n"
        items = field.get("items") or {}
        if name in _TEMPLATES or field_path in _ELSEWHERE:
            continue
        yield from _rows(field, field_path, kind)
        if f"{field_path}[]" not in _ELSEWHERE:
            yield from _rows(items, f"{field_path}[]", kind)


def _is_recorded(path: str, kind: ResourceKind) -> bool:
    parts = path.split(".")
    if kind is not LEADER_WORKER_SET or len(parts) < 2 or parts[1] in LIVE:
        return False
    return (parts[0], parts[1]) == ("networkConfig", "subdomainPolicy") or (
        parts[0] == "leaderWorkerTemplate" and parts[1] in TYPES["LeaderWorkerTemplate"]
    )


def _type_of(field: Mapping[str, Any]) -> str:
    if words := field.get("enum"):
        return ", ".join(f"`{word}`" for word in words)
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field.get("format") or field.get("type") or "any")
    return f"{_type_of(field['items'])}[]" if kind == "array" and "items" in field else kind


@cache
def _values_if_absent(kind: ResourceKind) -> Mapping[str, Any]:
    """Return the defaults that are not in the definition, by path in the spec."""
    return dict(_acting(kind.model.__pydantic_fields__["spec"].rebuild_annotation(), ""))


def _acting(annotation: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the value that each absent field in a type acts as, by path."""
    if isinstance(annotation, ActsAs):
        yield path, annotation.default
    for part in get_args(annotation):
        yield from _acting(part, path)
    if isinstance(annotation, type) and issubclass(annotation, KubeModel):
        for field in annotation.__pydantic_fields__.values():
            yield from _acting(field.rebuild_annotation(), f"{path}.{field.alias}".lstrip("."))


def _shown(default: Any) -> str:
    if default is None or isinstance(default, dict):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line, and return the exit code."""
    return generated.main("tools.apipage", lambda: {PAGE: page()}, "the API", arguments, root)


if __name__ == "__main__":
    sys.exit(main())
