"""What does the configuration file say?

In: a path. Out: its one YAML document as plain data; keys that occur twice are errors.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from lws.config.errors import ConfigError
from lws_api.config.v1alpha1 import API_VERSION, KIND

_START = f"it must start with `apiVersion: {API_VERSION}` and `kind: {KIND}`"


def read(path: str) -> dict[str, Any]:
    """The document in the file; raises ConfigError if there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = yaml.load(text, Loader=_StrictLoader)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}; check --config"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{path}{_line(error)}: {_problem(error)}"]) from error
    if document is None:
        raise ConfigError([f"{path}: is empty; {_START}"])
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: must be a mapping; {_START}"])
    return {str(key): value for key, value in document.items()}


def _line(error: yaml.YAMLError) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f":{mark.line + 1}" if mark is not None else ""


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(part for part in (error.context, error.problem) if part)
    return f"is not YAML: {' '.join(str(error).split())}"


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} is no key: keys are strings", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key} stands here a second time: remove one of the two",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
