"""Run the `lws` command by `python -m lws`."""

from __future__ import annotations

from lws.cli import main

main()
