"""Generate lws/kube/pod_types.json: how a typed client writes each field of pod and claim templates.

The source is Go code of k8s.io/api and k8s.io/apimachinery: OpenAPI does not tell pointers from values.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools import generated

VERSION = "v0.37.2"
SOURCES = {
    "k8s.io/api": ("core/v1/types.go", "apps/v1/types.go"),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1/types.go",),
}
ROOTS = ("PodTemplateSpec", "PersistentVolumeClaim", "StatefulSetPersistentVolumeClaimRetentionPolicy")
TABLE = Path(__file__).parent.parent / "lws" / "kube" / "pod_types.json"

SCALARS = {"string": "s", "bool": "b", "int": "i", "int32": "i", "int64": "l", "[]byte": "s"}
OPAQUE = {"resource.Quantity": "q", "intstr.IntOrString": "x", "Time": "t", "FieldsV1": "j"}
"""Structs with encoders of their own; their fields say nothing about the JSON."""

Table = dict[str, dict[str, str]]

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?!struct\b|interface\b|func\b)(\S+)$", re.MULTILINE)
_FIELD = re.compile(r"\t(?:\w+\s+)?(\S+)\s+`json:\"([^\"]*)\"")


def table_of(sources: Iterable[str], roots: Iterable[str] = ROOTS) -> Table:
    """Return field codes, which `lws.kube.typed` explains, for every struct reachable from `roots`.

    Types are in alphabetical order, fields in the order of the struct, as encoders write them. Raises
    ValueError for a Go type that no rule covers, so that no new Kubernetes is misread silently.
    """
    text = "\n".join(sources)
    structs = {match[1]: match[2] for match in _STRUCT.finditer(text)}
    named = {match[1]: match[2] for match in _NAMED.finditer(text)}
    table: Table = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in table:
            table[name] = _fields(structs, named, name)
            waiting += [ref for code in table[name].values() if (ref := code.strip("*=?![]{}")) in structs]
    return {name: table[name] for name in sorted(table)}


def _fields(structs: Mapping[str, str], named: Mapping[str, str], name: str) -> dict[str, str]:
    if name not in structs:
        raise ValueError(f"type {name}: no struct of the Go sources; add its file to SOURCES")
    codes: dict[str, str] = {}
    for line in structs[name].splitlines():
        if "`json:" not in line or line.lstrip().startswith("//"):
            continue
        match = _FIELD.match(line)
        if match is None:
            raise ValueError(f"type {name}: no rule reads the line {line.strip()}")
        go_type, (key, *options) = match[1].replace("metav1.", ""), match[2].split(",")
        is_embedded = line.split()[0] == match[1]
        if not key and not is_embedded:
            raise ValueError(f"type {name}: no rule reads the line {line.strip()}")
        # encoding/json inlines an embedded struct without a name of its own, with or without the option
        # `inline`.
        if "inline" in options or not key:
            codes |= _fields(structs, named, go_type.removeprefix("*"))
        elif key != "-":
            try:
                codes[key] = _code(structs, named, go_type, frozenset(options))
            except ValueError as error:
                raise ValueError(f"type {name}, field {key}: {error}") from error
    return codes


def _code(structs: Mapping[str, str], named: Mapping[str, str], go_type: str, options: frozenset[str]) -> str:
    pointer = go_type.startswith("*")
    shape = _shape(structs, named, go_type.removeprefix("*"))
    if pointer:
        return ("*" if "omitempty" in options else "?") + shape
    if "omitzero" in options:
        return shape
    # encoding/json never omits a struct unless `omitzero` is set; `omitempty` has no effect on structs.
    is_struct = shape in structs or shape in OPAQUE.values()
    return shape if "omitempty" in options and not is_struct else "=" + shape


def _shape(structs: Mapping[str, str], named: Mapping[str, str], go_type: str) -> str:
    go_type = go_type.removeprefix("v1.")
    if code := SCALARS.get(go_type) or OPAQUE.get(go_type):
        return code
    if go_type in structs:
        return go_type
    if go_type in named:
        return _shape(structs, named, named[go_type])
    if go_type == "types.UID":
        return "s"
    if go_type.startswith("[]"):
        return f"[{_shape(structs, named, go_type[2:])}]"
    if match := re.fullmatch(r"map\[[\w.]+\](\S+)", go_type):
        return f"{{{_shape(structs, named, match[1])}}}"
    raise ValueError(f"no rule for the Go type {go_type}; add it to SCALARS or OPAQUE")


def read_sources(version: str = VERSION) -> list[str]:
    """Return the Go files, fetched with `go mod download`, which uses the module proxy and its checksums."""
    texts = []
    for module, files in SOURCES.items():
        with tempfile.TemporaryDirectory() as scratch:
            command = ["go", "mod", "download", "-json", f"{module}@{version}"]
            done = subprocess.run(command, cwd=scratch, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed; is Go on the PATH?\n{done.stdout}{done.stderr}")
        directory = Path(json.loads(done.stdout)["Dir"])
        texts += [(directory / file).read_text(encoding="utf-8") for file in files]
    return texts


def rendered(table: Table, version: str = VERSION) -> str:
    """Return the committed file. It has one line per type, so that differences are readable."""
    lines = [f'  "{name}": {json.dumps(fields, separators=(",", ":"))}' for name, fields in table.items()]
    source = json.dumps(f"fields of k8s.io/api and k8s.io/apimachinery {version}")
    return f'{{"source": {source},\n "types": {{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    return generated.main(
        "tools.podtypes",
        lambda: {TABLE: rendered(table_of(read_sources()))},
        f"k8s.io/api {VERSION}",
        arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
