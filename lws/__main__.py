"""`python -m lws` is the `lws` command."""

from __future__ import annotations

from lws.cli import main

main()
