"""Manifests, configurations, commands and chart values in the documents are valid as shown."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from lws.cli.commands.manager import as_double_dashed
from lws.cli.main import commands
from lws.config import load
from lws.disaggregatedset.admission import validation
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import errors_in
from lws_api.config.v1alpha1 import API_VERSION, KIND
from lws_api.crds import defaulted
from lws_api.disaggregatedset import v1 as disaggregatedset
from lws_api.leaderworkerset import v1

ROOT = Path(__file__).parents[3]
PLACES = ("docs/**/*.md", "*.md", "charts/*/*.md", "examples/*.md")
DOCUMENTS = sorted(path for pattern in PLACES for path in ROOT.glob(pattern))
BLOCK = re.compile(r"^ *```(yaml|sh|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[;&|(])\s*(?:kubectl )?lws ")
SHELL_ENDS = {"&&", "||", ";", "|", "&", "(", ")", ">", "<"}
PORT = {"name": "http", "containerPort": 80}
CONTAINER = {"name": "server", "image": "example.com/server:1", "ports": [PORT]}
SET = {
    "apiVersion": v1.API_VERSION,
    "kind": v1.KIND,
    "metadata": {"name": "my-model", "namespace": "default"},
    "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [CONTAINER]}}}},
}


def blocks(*kinds: str) -> list[Any]:
    """Return the fenced blocks of all documents, as parameters with ids."""
    return [
        pytest.param(block[2], id=f"{path.relative_to(ROOT)}:{text[: block.start()].count(chr(10)) + 1}")
        for path in DOCUMENTS
        for text in [path.read_text(encoding="utf-8")]
        for block in BLOCK.finditer(text)
        if block[1] in kinds
    ]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: merged(base[key], more[key]) for key in base.keys() & more.keys() if isinstance(base[key], dict)
    }
    return {**base, **more, **both}


def lost(written: Any, stored: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of values that the API server would not store as written."""
    if isinstance(written, dict):
        for key, value in written.items():
            if not isinstance(stored, dict) or key not in stored:
                yield f"{path}.{key}"
            else:
                yield from lost(value, stored[key], f"{path}.{key}")
    elif isinstance(written, list) and isinstance(stored, list):
        for number, (written_item, stored_item) in enumerate(zip(written, stored, strict=True)):
            yield from lost(written_item, stored_item, f"{path}[{number}]")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_blocks_are_accepted(text: str, tmp_path: Path) -> None:
    document = yaml.safe_load(text)
    if document.get("kind") == disaggregatedset.KIND:
        stored = defaulted(document)
        assert list(lost(document, stored)) == []
        assert validation.errors_in(stored) == []
    elif document.get("kind") == v1.KIND or document.keys() <= {"metadata", "spec", "status"}:
        manifest = merged(SET, document)
        lws = defaulted(manifest)
        assert list(lost(manifest, lws)) == []
        default(lws)
        assert errors_in(lws) == []
    else:
        file = tmp_path / "configuration.yaml"
        file.write_text(yaml.safe_dump(merged({"apiVersion": API_VERSION, "kind": KIND}, document)))
        load(str(file), {}, {})


def command_lines(text: str) -> Iterator[str]:
    """Yield the lines of a block that a reader types; in a session, the text after each prompt."""
    joined = text.replace("\\\n", " ")
    session = re.findall(r"^ *\$ (.*)$", joined, re.MULTILINE)
    yield from session or joined.splitlines()


def own_commands(line: str) -> Iterator[list[str]]:
    """Yield the arguments of every call of `lws` or `kubectl lws` in a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    call: list[str] = []
    for token in [*lexer, ";"]:
        if token not in SHELL_ENDS:
            call.append(token)
            continue
        if call[:2] == ["kubectl", "lws"]:
            yield call[2:]
        elif call[:1] == ["lws"]:
            yield call[1:]
        call = []


def calls_in(text: str) -> list[list[str]]:
    lines = (line for line in command_lines(text) if CALL.search(line))
    return [call for line in lines for call in own_commands(line)]


def parse(arguments: list[str]) -> None:
    """Raise click's UsageError if the program does not accept the arguments."""
    name, *rest = arguments
    if name.startswith("-"):
        return
    with click.Context(commands) as context:
        command = commands.get_command(context, name)
        if command is None:
            raise click.UsageError(f"no such command: {name}")
        if name == "manager":
            _, *rest = as_double_dashed([name, *rest], command.params)
        if "--help" not in rest:
            with command.make_context(name, rest, parent=context):
                pass


@pytest.fixture
def at_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with the files that the documents name, and return it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("FILE", "my-model.yaml"):
        (tmp_path / name).write_text(json.dumps(SET))
    return tmp_path


@pytest.mark.parametrize("text", blocks("sh", "console"))
def test_commands_are_accepted(text: str, at_a_manifest: Path) -> None:
    for arguments in calls_in(text):
        parse(arguments)


def test_chart_values_exist() -> None:
    schema = json.loads((ROOT / "charts" / "lws" / "values.schema.json").read_text(encoding="utf-8"))
    for path in DOCUMENTS:
        for key in re.findall(r"--set[a-z-]* ([\w.]+)=", path.read_text(encoding="utf-8")):
            part = schema
            for name in key.split("."):
                part = part.get("properties", {name: {}})[name]
                part = schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lws status NAME", [["status", "NAME"]]),
        ("$(lws key -f x) && kubectl lws diff a", [["key", "-f", "x"], ["diff", "a"]]),
        ("kubectl get lws NAME", []),
        ("lws pause NAME   # stop", [["pause", "NAME"]]),
    ],
)
def test_calls_are_found(line: str, expected: list[list[str]]) -> None:
    assert list(own_commands(line)) == expected


@pytest.mark.parametrize("arguments", [["stat", "NAME"], ["undo"], ["status", "NAME", "--wtach"]])
def test_mistakes_are_found(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse(arguments)


def test_blocks_of_each_kind_occur() -> None:
    assert len(blocks("yaml")) >= 10
    calls = [
        call
        for param in blocks("sh", "console")
        for line in command_lines(param.values[0])
        if "lws " in line
        for call in own_commands(line.replace("'", ""))
    ]
    assert {"status", "history", "diff", "undo", "plan", "key"} <= {call[0] for call in calls}
