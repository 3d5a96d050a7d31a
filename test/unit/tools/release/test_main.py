"""tools.release: a tag is released only if it equals the version and the changelog has a date for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release.__main__ import check_tag
from tools.release.places import PLACES, ROOT, ReleaseError, version


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for path in {*(place.path for place in PLACES), "CHANGELOG.md"}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    return tmp_path


def test_a_tag_of_the_version_is_accepted(source: Path) -> None:
    check_tag(f"v{version()}", source)


@pytest.mark.parametrize("tag", ["v1.0.0", version(), f"v{version()}-rc1"])
def test_another_tag_is_rejected(source: Path, tag: str) -> None:
    with pytest.raises(ReleaseError, match=f"tag {tag}, version {version()}"):
        check_tag(tag, source)


def test_a_version_without_a_date_is_refused(source: Path) -> None:
    changes = source / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace(f"## {version()} - ", f"## {version()} of "))
    with pytest.raises(ReleaseError, match=rf"no section `## {version()} - YEAR-MONTH-DAY`"):
        check_tag(f"v{version()}", source)
