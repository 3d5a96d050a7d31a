"""lws.config.loading: the file is one strictly parsed YAML document."""

from __future__ import annotations

from pathlib import Path

import pytest

from lws.config.checks import ConfigError
from lws.config.loading import read

START = "it must start with `apiVersion: config.lws.x-k8s.io/v1alpha1` and `kind: Configuration`"


def written(directory: Path, content: str | bytes) -> str:
    path = directory / "config.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_plain_data(tmp_path: Path) -> None:
    text = "# a comment\nkind: Configuration\nwebhook: {port: 1}\ntls:\n  cipherSuites: [a, b]\n"
    assert read(written(tmp_path, text)) == {
        "kind": "Configuration",
        "webhook": {"port": 1},
        "tls": {"cipherSuites": ["a", "b"]},
    }


def test_json_is_yaml_too(tmp_path: Path) -> None:
    assert read(written(tmp_path, '{"kind": "Configuration", "webhook": {"port": 1}}'))["webhook"] == {
        "port": 1
    }


INVALID: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", f": is empty; {START}"),
    "only comments": ("# nothing\n", f": is empty; {START}"),
    "a list": ("- a\n", f": must be a mapping; {START}"),
    "a word": ("hello\n", f": must be a mapping; {START}"),
    "a key twice": (
        "kind: a\nwebhook: {}\nkind: b\n",
        ":3: kind is a duplicate key: remove one of them",
    ),
    "a nested key twice": (
        "webhook:\n  port: 1\n  port: 1\n",
        ":3: port is a duplicate key: remove one of them",
    ),
    "a key that is not a string": ("webhook:\n  1: a\n", ":2: 1 is not a valid key: keys must be strings"),
    "a key that YAML takes for true": ("on: a\n", ":1: True is not a valid key: keys must be strings"),
    "a key that is a list": ("? [a]\n: b\n", ":1: ['a'] is not a valid key: keys must be strings"),
    "bad indentation": (
        "a:\n  b: 1\n c: 2\n",
        ":3: while parsing a block mapping expected <block end>, but found",
    ),
    "an open quote": ('a: "b\n', ": while scanning a quoted scalar found unexpected end of stream"),
    "two documents": (
        "a: 1\n---\nb: 2\n",
        ":2: expected a single document in the stream but found another document",
    ),
    "a Python object": ("a: !!python/object/apply:os.getcwd []\n", ":1: could not determine a constructor"),
    "not text": (b"\xff\xfe\x00", ": is not UTF-8 text: invalid start byte at byte 0"),
    "a control character": ("a: \x00b\n", ": is not YAML: unacceptable character"),
}


@pytest.mark.parametrize(("content", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_files_are_reported_in_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError) as error:
        read(path)
    (line,) = error.value.lines
    assert line.startswith(path)
    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "reason"), [("missing.yaml", "No such file or directory"), (".", "Is a directory")]
)
def test_unreadable_files(tmp_path: Path, name: str, reason: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(ConfigError) as error:
        read(path)
    assert error.value.lines == (f"{path}: cannot be read: {reason}; check --config",)
