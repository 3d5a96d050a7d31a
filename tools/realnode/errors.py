"""What can go wrong with a real node."""

from __future__ import annotations


class NodeError(RuntimeError):
    """One line: what failed, and what to do."""


class MissingError(NodeError):
    """This machine lacks something that a node needs: what, and how to get it."""
