"""Encode pod templates and claim templates as a typed Kubernetes client does, according to a table of types.

Fields that such a client omits are removed, and fields that it always writes are added. Nothing is rejected:
values outside the table or of another type are kept.

The table maps the name of a type to its fields, and each field to a code:
  s string, b bool, i integer, l integer of 64 bits, q quantity, x int-or-string, t time, j any JSON,
  a type name for a struct, [c] for a list and {c} for a map of the code c.
A field whose code has no prefix is omitted if it is zero or empty. With the prefix `*` (pointer), it is
omitted only if absent; with `=`, it is always written; with `?`, it is a pointer that is written as null if
absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import WithJsonSchema

from lws.kube.quantities import canonical
from lws_api.meta import EMBEDS, KubeModel

Table = Mapping[str, Mapping[str, str]]
Fields = dict[str, Any]
Finish = Callable[[Fields], None]
"""Changes the new fields of a struct in place, after the fields of its nested structs."""

_TABLE = files("lws.kube").joinpath("pod_types.json")

POD_TYPES: Table = MappingProxyType(json.loads(_TABLE.read_bytes())["types"])
"""The types of pod templates and claim templates in Kubernetes 1.37."""

_OF_PYTHON = ((bool, "b"), (int, "i"), (str, "s"), (datetime, "t"))


def types_of(model: type[KubeModel]) -> dict[str, dict[str, str]]:
    """Return the table of a model and of the models that it refers to, without prefixes."""
    table: dict[str, dict[str, str]] = {}
    models = [model]
    for current in models:
        fields = current.__pydantic_fields__.values()
        table[current.__name__] = {
            str(field.alias): _code(field.rebuild_annotation(), models) for field in fields
        }
    return table


def most_items_of(model: type[KubeModel]) -> dict[str, dict[str, int]]:
    """Return the maximum number of items of each limited list, by the names of its struct and its field."""
    most: dict[str, dict[str, int]] = {}
    models = [model]
    for current in models:
        limits = most[current.__name__] = {}
        for field in current.__pydantic_fields__.values():
            _code(field.rebuild_annotation(), models)
            extra = field.json_schema_extra
            if isinstance(extra, dict) and isinstance(limit := extra.get("maxItems"), int):
                limits[str(field.alias)] = limit
    return most


def _code(kind: Any, models: list[type[KubeModel]]) -> str:
    """Return the code of an annotation. If it names a model, append the model to `models`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        schemas = (note.json_schema for note in parts if isinstance(note, WithJsonSchema))
        embedded = next((str(schema[EMBEDS]) for schema in schemas if schema and EMBEDS in schema), "")
        return embedded.rpartition(".")[2] or _code(parts[0], models)
    if origin in (Union, UnionType):
        kinds = [part for part in parts if part is not NoneType]
        return _code(kinds[0], models) if len(kinds) == 1 else "x"
    if origin is tuple:
        return f"[{_code(parts[0], models)}]"
    if origin is dict:
        return "j" if parts[1] is Any else f"{{{_code(parts[1], models)}}}"
    if issubclass(kind, KubeModel):
        models.append(kind)
        return str(kind.__name__)
    return next(code for python, code in _OF_PYTHON if issubclass(kind, python))


_Shape = Callable[[Any], Any]

_ABSENT: Any = object()
_EXACT = 2**53


class Normaliser:
    """Encodes values of the types in `table`. `finish` adds rules for single types, such as defaults."""

    def __init__(self, table: Table, finish: Mapping[str, Finish] = MappingProxyType({})) -> None:
        self._structs = {name: _Struct(finish.get(name)) for name in table}
        for name, fields in table.items():
            for key, code in fields.items():
                self._structs[name].add(key, code, self._shape)

    def write(self, type_name: str, value: Mapping[str, Any]) -> Fields:
        """Return the encoded value as a new mapping, which may share parts with `value`: change neither."""
        written: Fields = self._structs[type_name](value)
        return written

    def _shape(self, code: str) -> _Shape:
        if code[0] == "[":
            shape = self._shape(code[1:-1])
            if shape is _as_it_is:
                return _as_it_is
            return lambda value: [shape(item) for item in value] if isinstance(value, list) else value
        if code == "{q}":
            return _quantities
        if code[0] == "{":
            return _as_it_is
        return _SCALARS[code] if code in _SCALARS else self._structs[code]


class _Struct:
    """Encodes one type: each field by its rule, then the fields that are always written, then `finish`."""

    def __init__(self, finish: Finish | None) -> None:
        self._rules: dict[str, _Shape] = {}
        self._always: dict[str, Any] = {}
        self._always_structs: list[tuple[str, _Shape]] = []
        self._finish = finish

    def add(self, key: str, code: str, shape_of: Callable[[str], _Shape]) -> None:
        prefix = code[0] if code[0] in "*=?" else ""
        code = code.removeprefix(prefix)
        shape = shape_of(code)
        if prefix == "*":
            self._rules[key] = lambda value: _ABSENT if value is None else shape(value)
            return
        if prefix == "":
            # Every false value in Python is the zero value of a JSON type: "", 0, false, null, [], {}.
            self._rules[key] = lambda value: shape(value) if value else _ABSENT
            return
        zero: Any = _ZEROS.get(code) if prefix == "=" else None
        if prefix == "=" and isinstance(shape, _Struct):
            zero = {}
            self._always_structs.append((key, shape))
        else:
            self._always[key] = zero
        self._rules[key] = lambda value: shape(zero) if value is None else shape(value)

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            return value
        written: Fields = {}
        rules = self._rules
        for key, item in value.items():
            rule = rules.get(key)
            if rule is not None:
                item = rule(item)
                if item is not _ABSENT:
                    written[key] = item
            elif item is not None:
                written[key] = item
        for key, zero in self._always.items():
            written.setdefault(key, zero)
        for key, shape in self._always_structs:
            if key not in written:
                written[key] = shape({})
        if self._finish is not None:
            self._finish(written)
        return written


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    """Convert an integer via a double, as upstream does, which loses digits beyond 2^53."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or -_EXACT <= value <= _EXACT:
        return value
    digits, _, exponent = repr(float(value)).partition("e+")
    integer, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    return int(integer + fraction.ljust(int(exponent or 0), "0"))


def _quantity(value: Any) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return canonical(value)
        except ValueError:
            return value
    return value


def _quantities(value: Any) -> Any:
    return {key: _quantity(item) for key, item in value.items()} if isinstance(value, Mapping) else value


_SCALARS: Mapping[str, _Shape] = {
    **dict.fromkeys("sbxtj", _as_it_is),
    **dict.fromkeys("il", _integer),
    "q": _quantity,
}
_ZEROS: Mapping[str, Any] = {"s": "", "b": False, "i": 0, "l": 0, "q": "0", "x": 0}


_NO_TIME = "0001-01-01T00:00:00Z"


class Structs:
    """Encodes values of the types in `table` as Go structs: their fields in order, without unknown ones."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def write(self, code: str, value: Any) -> Any:
        """Encode a value of the type with this code. null stands for the zero value of the type."""
        if code[0] == "[":
            return None if value is None else [self.write(code[1:-1], item) for item in value]
        if code[0] == "{":
            entries = () if value is None else sorted(value.items())
            return None if value is None else {key: self.write(code[1:-1], item) for key, item in entries}
        if code in _WRITERS:
            zero, writer = _WRITERS[code]
            return zero if value is None else writer(value)
        return self._struct(code, {} if value is None else value)

    def _struct(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        written = {}
        for key, code in self._table[name].items():
            item = value.get(key)
            prefix = code[0] if code[0] in "*=?" else ""
            # Every false value in Python is the zero value of a JSON type.
            if prefix == "=" or (prefix == "" and item) or (prefix in ("*", "?") and item is not None):
                written[key] = self.write(code.removeprefix(prefix), item)
            elif prefix == "?":
                written[key] = None
        return written


def _without_fraction(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def _time(value: str) -> str | None:
    """Convert a time to UTC and whole seconds. The zero time becomes null."""
    if value == _NO_TIME:
        return None
    try:
        time = datetime.fromisoformat(value)
        return (
            f"{time.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
            if time.tzinfo
            else value
        )
    except (ValueError, OverflowError):
        return value


_WRITERS: Mapping[str, tuple[Any, Any]] = {
    "s": ("", _as_it_is),
    "b": (False, _as_it_is),
    "i": (0, _without_fraction),
    "l": (0, _without_fraction),
    "q": ("0", canonical),
    "x": (0, _as_it_is),
    "t": (None, _time),
    "j": (None, _as_it_is),
}
