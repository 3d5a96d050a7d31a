"""Sets as upstream's controller left them, written by hand from what is known of it (states/*.yaml).

A state is a file of objects, or a base with changes: `merge` is a JSON merge patch, `put` replaces whole
fields, `own` is merged into the fields that the controller's server-side apply owns. Objects of groups are
written once, with INDEX and GROUP (the group key) in them; KEY and WAS are revision keys.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lws_api.leaderworkerset.v1 import REVISION_LABEL

Object = dict[str, Any]

# PyYAML's loader in C, if available, is ten times faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STATES = Path(__file__).parent / "states"


@dataclass(frozen=True)
class State:
    """One state of one set."""

    name: str
    about: str
    namespace: str
    objects: tuple[Object, ...]

    @property
    def lws(self) -> Object:
        return next(obj for obj in self.objects if obj["kind"] == "LeaderWorkerSet")

    @property
    def leaders(self) -> Object:
        """The leader StatefulSet."""
        return self.get("StatefulSet", self.lws["metadata"]["name"])

    @property
    def revisions(self) -> list[Object]:
        """ControllerRevisions of the set, not those of its StatefulSets."""
        return [
            revision
            for revision in self.of_kind("ControllerRevision")
            if "leaderWorkerTemplate" in revision["data"]["spec"]
        ]

    @property
    def unready(self) -> list[int]:
        """Indices of the groups that are not ready."""
        return [
            index
            for group in _raw(self.name)["groups"]
            if not group.get("ready", True)
            for index in group["indices"]
        ]

    def group(self, index: int, key: str) -> list[Object]:
        """Return the objects of a group with this index and revision key, even if the state has no such
        group.
        """
        raw = _raw(self.name)
        for kind in raw["kinds"].values():
            objects = _finished(raw, _of_group(kind, index, self.namespace), self.namespace)
            if objects[0]["metadata"]["labels"][REVISION_LABEL] == key:
                return objects
        raise LookupError(f"state {self.name} has no groups of key {key}")

    def of_kind(self, kind: str) -> list[Object]:
        return [obj for obj in self.objects if obj["kind"] == kind]

    def get(self, kind: str, name: str) -> Object:
        (match,) = [obj for obj in self.of_kind(kind) if obj["metadata"]["name"] == name]
        return match


def names() -> list[str]:
    """Return the names of all states."""
    return sorted(path.stem for path in _STATES.glob("*.yaml"))


def load(name: str, namespace: str = "default") -> State:
    """Return a state that the caller may change."""
    raw = _raw(name)
    objects = _finished(raw, (*raw["objects"], *_groups(raw, namespace)), namespace)
    return State(name, raw["about"], namespace, tuple(objects))


@cache
def _raw(name: str) -> Object:
    read = _unshared(yaml.load((_STATES / f"{name}.yaml").read_text(encoding="utf-8"), _LOADER))
    if "base" not in read:
        return read
    raw = _unshared(_raw(read["base"]))
    _change(raw, read)
    for key in ("about", "key", "was", "groups"):
        raw[key] = read.get(key, raw.get(key))
    for added in read.get("addToGroups", ()):
        for kind in raw["kinds"].values():
            kind["objects"].append(_like(raw["objects"], added))
    if "kinds" in read:
        raw["kinds"] = {name: _kind(raw, kind) for name, kind in read["kinds"].items()}
    return raw


def _change(raw: Object, read: Object) -> None:
    object_lists = [raw["objects"], *(kind["objects"] for kind in raw["kinds"].values())]
    for change in read.get("changes", ()):
        matches = [obj for objects in object_lists for obj in objects if _title(obj) == change["of"]]
        assert matches, f"no {change['of']} to be changed"
        for match in matches:
            _apply(match, change)
    for added in read.get("add", ()):
        raw["objects"].append(_like(raw["objects"], added))
    for title in read.get("remove", ()):
        assert any(_title(obj) == title for objects in object_lists for obj in objects), (
            f"no {title} to be removed"
        )
        for objects in object_lists:
            objects[:] = [obj for obj in objects if _title(obj) != title]


def _kind(raw: Object, read: Object) -> Object:
    kind = copy.deepcopy(raw["kinds"][read["like"]])
    _change({"objects": kind["objects"], "kinds": {}}, read)
    return {**kind, "key": read.get("key", "KEY")}


def _like(objects: list[Object], added: Object) -> Object:
    model = next(obj for obj in objects if _title(obj) == added["like"])
    result = copy.deepcopy(model)
    _apply(result, added)
    return result


def _apply(obj: Object, change: Object) -> None:
    obj |= copy.deepcopy(change.get("put", {}))
    _merge(obj, change.get("merge", {}))
    if "own" in change:
        _merge(obj["metadata"]["managedFields"][0]["fieldsV1"], change["own"])


def _merge(target: Object, patch: Object) -> None:
    for key, value in copy.deepcopy(patch).items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _finished(raw: Object, objects: Iterable[Object], namespace: str) -> list[Object]:
    """Return the objects with keys and namespace filled in."""
    replacements = {'"namespace": "default"': f'"namespace": "{namespace}"'}
    return [_filled(obj, replacements | {"KEY": raw["key"], "WAS": raw.get("was") or ""}) for obj in objects]


def _groups(raw: Object, namespace: str) -> Iterator[Object]:
    for group in raw["groups"]:
        for index in group["indices"]:
            for obj in _of_group(raw["kinds"][group["kind"]], index, namespace):
                yield obj if group.get("ready", True) else _unready(obj)


def _of_group(kind: Object, index: int, namespace: str) -> Iterator[Object]:
    group = hashlib.sha1(f"{namespace}/web-{index}".encode()).hexdigest()
    words = {"KEY": kind.get("key", "KEY"), "INDEX": str(index), "GROUP": group}
    return (_filled(obj, words) for obj in kind["objects"])


def _unready(obj: Object) -> Object:
    if obj["kind"] == "Pod":
        obj["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    elif obj["kind"] == "StatefulSet":
        obj["status"] |= {"readyReplicas": 0, "availableReplicas": 0}
    return obj


def _unshared(obj: Object) -> Object:
    """Return a copy in which objects that YAML anchors shared are separate."""
    copied: Object = json.loads(json.dumps(obj))
    return copied


def _filled(obj: Object, words: Mapping[str, str]) -> Object:
    text = json.dumps(obj)
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    filled: Object = json.loads(text)
    return filled


def _title(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"
