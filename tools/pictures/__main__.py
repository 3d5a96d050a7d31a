"""Writes every picture of docs/pictures anew. `make generate` runs it as `python -m tools.pictures`."""

from __future__ import annotations

import sys

from tools.pictures.catalogue import DIRECTORY, pictures


def main() -> int:
    """Write what there is, and remove what there no longer is."""
    drawn = pictures()
    DIRECTORY.mkdir(exist_ok=True)
    for path in DIRECTORY.glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    for name, text in drawn.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
