"""tools.openapi.extract: the part of the OpenAPI document that CRDs need."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tools.openapi import extract

TEMPLATE, CLAIM = extract.EMBEDDED


def document() -> dict[str, Any]:
    return {
        "components": {
            "schemas": {
                TEMPLATE: {
                    "description": "dropped",
                    "properties": {
                        "description": {"description": "dropped too", "type": "string", "enum": ["a"]},
                        "inner": {"allOf": [{"$ref": "#/components/schemas/Inner"}], "default": {}},
                    },
                },
                CLAIM: {
                    "type": "object",
                    "properties": {"list": {"items": {"$ref": "#/components/schemas/Inner"}}},
                },
                "Inner": {"properties": {"again": {"$ref": f"#/components/schemas/{CLAIM}"}}},
                "Unrelated": {"type": "object"},
            }
        }
    }


def test_only_referenced_types_are_included() -> None:
    assert extract.extract(document()).keys() == {TEMPLATE, CLAIM, "Inner"}


def test_descriptions_are_removed_but_fields_of_that_name_are_kept() -> None:
    assert extract.extract(document())[TEMPLATE] == {
        "properties": {
            "description": {"type": "string"},
            "inner": {"allOf": [{"$ref": "#/components/schemas/Inner"}], "default": {}},
        }
    }


def test_a_document_without_the_types_is_refused() -> None:
    with pytest.raises(KeyError, match="PersistentVolumeClaim"):
        extract.extract({"components": {"schemas": {}}})


def test_one_type_per_line() -> None:
    lines = extract.rendered(extract.extract(document())).splitlines()
    assert len(lines) == 5
    assert lines[1] == '"Inner":{"properties":{"again":{"$ref":"#/components/schemas/' + CLAIM + '"}}},'


def test_the_committed_file_is_up_to_date() -> None:
    assert extract.rendered(extract.read()) == extract.PATH.read_text(encoding="utf-8")


def test_main_writes_the_extract_of_stdin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extract, "PATH", tmp_path / "extract.json")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(document())))
    extract.main()
    assert extract.read(tmp_path / "extract.json") == extract.extract(document())
    assert "python -m tools.crdgen" in capsys.readouterr().out
