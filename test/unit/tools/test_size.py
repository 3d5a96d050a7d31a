"""tools.size: what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import size


def test_a_closure_includes_transitive_imports(tmp_path: Path) -> None:
    texts = {"a": "from b import c", "b": "import d", "b.c": "", "d": "import os", "e": "import a"}
    paths = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    assert size.closure(("a",), paths) == {"a", "b.c"}
    assert size.closure(("b",), paths) == {"b", "d"}


def test_every_path_begins_with_existing_modules(capsys: pytest.CaptureFixture[str]) -> None:
    assert size.main() == 0
    assert "lws/: files, lines" in capsys.readouterr().out
