"""docs/reference lists exactly the keys, flags, metrics and permissions of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lws.cli.commands.manager import manager
from lws.config.loading import FLAGS
from lws.leaderworkerset.group.gangs import GANG_VERBS, WORKLOAD_VERBS
from lws.runtime.client.resources import DISAGGREGATED_VERBS, NAMESPACED_VERBS, VERBS
from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = [REFERENCE / f"{name}.md" for name in ("configuration", "endpoints", "permissions")]


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of all tables in one section, without the header rows."""
    document = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    sections = re.split(r"^##? ", document, flags=re.MULTILINE)
    (text,) = [part for part in sections if part.startswith(f"{heading}\n")]
    tables = re.findall(r"^\|.*\n\| --- .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        [cell.strip() for cell in row.strip("|").split(" | ")]
        for table in tables
        for row in table.splitlines()
    ]


def code_in(cell: str) -> str:
    """Return the text in backticks at the start of a cell, or ""."""
    match = re.match(r"`([^`]*)`", cell)
    return match[1] if match else ""


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of a section and of the sections below it."""
    for field in model.model_fields.values():
        section = section_in(field.annotation)
        if section is not None:
            yield from keys_of(section, f"{prefix}{field.alias}.")
        else:
            yield f"{prefix}{field.alias}"


def section_in(annotation: Any) -> type[BaseModel] | None:
    choices = getattr(annotation, "__args__", (annotation,))
    return next(
        (choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)), None
    )


def default_at(key: str) -> str:
    """Return the default of a key as one line of YAML, or “–” if there is none."""
    value: Any = Configuration(apiVersion=API_VERSION, kind=KIND).model_dump(mode="json")
    for part in key.split("."):
        value = value[part] if value is not None else None
    # YAML reads an unquoted 0 as a number.
    spellings = {None: "–", True: "true", False: "false", "": '""', "0": '"0"'}
    return str(value) if isinstance(value, list) else spellings.get(value, str(value))


def test_every_key_is_documented_with_its_default() -> None:
    documented = {code_in(row[0]): code_in(row[1]) or row[1] for row in rows_of("The file")}
    expected = {key: default_at(key) for key in keys_of(Configuration) if "." in key}
    assert documented == expected


def test_every_flag_is_documented_with_the_key_that_it_overrides() -> None:
    documented = {code_in(row[0]): code_in(row[1]) for row in rows_of("Flags")}
    keys = {f"--{name}": ".".join(flag.path) for name, flag in FLAGS.items()}
    flags = [option for parameter in manager.params for option in parameter.opts]
    assert documented == {flag: keys.get(flag, "") for flag in flags}


def test_every_permission_is_documented() -> None:
    documented: dict[str, set[str]] = {}
    for row in rows_of("Permissions"):
        for resource in re.findall(r"`([^`]+)`", row[0]):
            documented.setdefault(resource, set()).update(row[1].split(", "))
    granted: dict[str, set[str]] = {}
    for table in (VERBS, NAMESPACED_VERBS, DISAGGREGATED_VERBS, WORKLOAD_VERBS, *GANG_VERBS.values()):
        for (_, resource), verbs in table.items():
            granted.setdefault(resource, set()).update(verbs)
    assert documented == granted
