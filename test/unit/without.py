"""Block the modules that the image leaves out: a test that needs one fails as the image would."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from tools.image.inside.left_out import left_out


class _KeptOut(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if left_out(fullname):
            raise ImportError(f"{fullname}: the image does without", name=fullname)
        return None


def keep_out() -> None:
    """Prevent these modules from being imported from now on."""
    sys.meta_path.insert(0, _KeptOut())
