"""What can go wrong while the image is built."""

from __future__ import annotations


class ImageError(RuntimeError):
    """One line: what is missing or broken, and what to do."""
