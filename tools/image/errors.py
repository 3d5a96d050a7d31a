"""What can go wrong while the image is built."""

from __future__ import annotations


class ImageError(RuntimeError):
    """One line: what is missing or broken, and what to do."""


class LackingError(ImageError):
    """This machine lacks what a build needs: what, and how to get it. No build has begun."""
