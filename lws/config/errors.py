"""Describe what is wrong with a configuration and what to write instead, one line for each mistake."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration

KeyPath = tuple[str, ...]
"""Where a value stands in the file, e.g. ("leaderElection", "leaseDuration")."""

Origin = Callable[[KeyPath], str]
"""Names the place that a value came from: a key in a file, or a flag."""


_REQUIRED: Mapping[KeyPath, str] = {
    ("apiVersion",): f": write `apiVersion: {API_VERSION}`",
    ("kind",): f": write `kind: {KIND}`",
    ("gangSchedulingManagement", "schedulerProvider"): ": name it, or leave the section out",
    ("sharding", "shards"): ": say how many, or leave the section out",
}


class ConfigError(Exception):
    """The configuration cannot be used. `lines`: one per mistake: what, where and what to do."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def config_error(error: ValidationError, origin: Origin) -> ConfigError:
    """The ConfigError for what pydantic found in a Configuration."""
    lines = []
    for detail in error.errors(include_url=False):
        keys, index = _split(detail["loc"])
        lines.append(f"{origin(keys)}{index}: {_sentence(detail, keys)}")
    return ConfigError(lines)


def _split(location: tuple[int | str, ...]) -> tuple[KeyPath, str]:
    keys = tuple(part for part in location if isinstance(part, str))
    return keys, "".join(f"[{part}]" for part in location if isinstance(part, int))


def _sentence(detail: Mapping[str, Any], keys: KeyPath) -> str:
    value = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            return _unknown_key(keys)
        case "missing":
            return f"is required{_REQUIRED.get(keys, '')}"
        case "literal_error":
            return f"must be {detail['ctx']['expected'].strip(chr(39))}, not {value!r}"
        case "string_type":
            quoted = "" if isinstance(value, Mapping | list) else f': put it in quotes, "{value}"'
            return f"must be a string, not {value!r}{quoted}"
        case "bool_type":
            return f"must be true or false, not {value!r}"
        case "int_type" | "int_from_float":
            return f"must be a whole number without quotes, not {value!r}"
        case "float_type":
            return f"must be a number without quotes, not {value!r}"
        case "tuple_type":
            return f"must be a list, not {value!r}"
        case "model_type" | "model_attributes_type":
            return f"must be a mapping with keys among {', '.join(_keys_at(keys))}, not {value!r}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case _:
            return f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {value!r}"


def _unknown_key(keys: KeyPath) -> str:
    known = _keys_at(keys[:-1])
    near = difflib.get_close_matches(keys[-1], known, n=1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"no such key; {advice}"


def _keys_at(keys: KeyPath) -> list[str]:
    """The keys of the section at `keys`; none if that is no section."""
    model: Any = Configuration
    for key in keys:
        annotations = {field.alias: field.annotation for field in model.model_fields.values()}
        model = next((kind for kind in _alternatives(annotations.get(key)) if _is_section(kind)), None)
        if model is None:
            return []
    return [str(field.alias) for field in model.model_fields.values()]


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", (annotation,))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
