"""The command line of generators of committed files: write files that are out of date, or `--check` them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Files = Callable[[], Mapping[Path, str]]
"""Returns the text of each file, by path below a directory."""


def main(
    program: str, files: Files, source: str, arguments: Sequence[str] | None, root: Path = Path()
) -> int:
    """Write or compare the files, by path below `root`, and return the exit code."""
    description = f"Write the files generated from {source}."
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    texts = files()
    paths = {path: root / path for path in texts}
    stale = [
        path for path, file in paths.items() if not file.is_file() or file.read_text("utf-8") != texts[path]
    ]
    for path in stale:
        if check:
            print(f"{path} differs from {source}: run `python -m {program}`", file=sys.stderr)
        else:
            paths[path].parent.mkdir(parents=True, exist_ok=True)
            paths[path].write_text(texts[path], encoding="utf-8")
            print(f"wrote {path}")
    return 1 if check and stale else 0
