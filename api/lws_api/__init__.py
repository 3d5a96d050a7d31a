"""The API that users write: models, constants and CustomResourceDefinitions of the kinds that this project
serves.

In: nothing of the controller. Out: what the controller, its tools and any Python client share.
"""

from __future__ import annotations

__version__ = "2026.11.0"
