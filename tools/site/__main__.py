"""Answers: is the documentation one whole site? Run as `python -m tools.site`.

In: docs/, what it links to, mkdocs.yml. Out: build/site; exit code 1 where a link or an anchor is dead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tools.deployment import REPOSITORY
from tools.site.pages import DeadLinkError, pages_of

# docs_dir of mkdocs.yml.
_PREPARED = REPOSITORY / "build" / "docs"


def main() -> int:
    """Lay the pages out, and have them built."""
    try:
        pages = pages_of(REPOSITORY)
    except DeadLinkError as error:
        print(error, file=sys.stderr)
        return 1
    lay_out(pages)
    command = [sys.executable, "-m", "mkdocs", "--no-color", "build", "--strict"]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # With --quiet, mkdocs counts no warnings and finds every site in order.
    built = subprocess.run(
        command, cwd=REPOSITORY, env=variables, check=False, stderr=subprocess.PIPE, text=True
    )
    if built.returncode:
        print(built.stderr, file=sys.stderr)
    return built.returncode


def lay_out(pages: Mapping[str, str]) -> None:
    """Write the pages, beside the pictures and figures of docs/."""
    shutil.rmtree(_PREPARED, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs", _PREPARED, ignore=shutil.ignore_patterns("*.md"))
    for path, text in pages.items():
        page = _PREPARED / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
