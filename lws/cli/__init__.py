"""The `lws` command: parse, call, print; nothing is decided here."""

from __future__ import annotations

from lws.cli.main import main

__all__ = ["main"]
