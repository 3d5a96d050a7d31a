"""The API that users write: models, constants and CustomResourceDefinitions of the kinds that this project
serves.

Shared by the controller, its tools and Python clients; imports nothing of the controller.
"""

from __future__ import annotations

__version__ = "2026.11.0"
