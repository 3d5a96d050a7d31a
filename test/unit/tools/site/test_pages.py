"""Pages of the site: the documents, and the repository files that they link to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.__main__ import DeadLinkError, on_site, pages_of


def repository(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("docs/start/install.md", "start/install.md"),
        ("CONTRIBUTING.md", "repository/CONTRIBUTING.md"),
        ("lws/runtime/actions.py", "repository/lws/runtime/actions.py.md"),
    ],
)
def test_urls_of_files(path: str, expected: str) -> None:
    assert on_site(path) == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        pytest.param("[a](other.md#there)", "[a](other.md#there)", id="document"),
        pytest.param("[a](../../code.py)", "[a](../repository/code.py.md)", id="code"),
        pytest.param("[a](../../README.md#x)", "[a](../repository/README.md#x)", id="other-document"),
        pytest.param("[a](../../examples/)", "[a](../repository/examples/README.md)", id="folder"),
        pytest.param("[a](https://example.com/)", "[a](https://example.com/)", id="elsewhere"),
        pytest.param("[a](#here)", "[a](#here)", id="here"),
        pytest.param("```\n[a](gone.md)\n```", "```\n[a](gone.md)\n```", id="in-code"),
        pytest.param("| `a\\|b` | c\\|d |", "| `a|b` | c\\|d |", id="pipe-in-a-table"),
    ],
)
def test_links(tmp_path: Path, link: str, expected: str) -> None:
    root = repository(
        tmp_path,
        docs__a__page_md=link,
        docs__a__other_md="",
        README_md="",
        code_py="",
        examples__README_md="",
    )
    assert pages_of(root)["a/page.md"] == expected


def test_linked_files_are_included(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        docs__a_md="[map](../MAP.md)",
        MAP_md="[b](code.py) [a](docs/a.md)",
        code_py="x = 1\n",
        spare_py="",
    )
    pages = pages_of(root)
    assert sorted(pages) == ["a.md", "repository/MAP.md", "repository/code.py.md"]
    assert pages["repository/MAP.md"] == "[b](code.py.md) [a](../a.md)"
    assert "x = 1" in pages["repository/code.py.md"]


def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeadLinkError, match=r"gone\.md leads to nothing"):
        pages_of(repository(tmp_path, docs__a_md="[a](gone.md)"))
