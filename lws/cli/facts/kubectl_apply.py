"""What would `kubectl apply` send for a manifest, given what is stored and what was applied last?

In: the manifest and the stored object. Out: a JSON merge patch, by the three-way rule of kubectl for custom
resources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lws.actions import Object
from lws.kube.metadata import annotations_of

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def apply_patch(manifest: Object, stored: Object) -> dict[str, Any]:
    """What the manifest says and is not so; and, as null, what it said when it was last applied and says no
    more. What others have set, a default say, stays. Lists are replaced as wholes (RFC 7386).
    """
    metadata = manifest["metadata"]
    # kubectl's own record is an annotation too: there are always some.
    wanted = {**manifest, "metadata": {**metadata, "annotations": metadata.get("annotations") or {}}}
    return _merge(last_applied(stored), wanted, stored)


def last_applied(stored: Object) -> Mapping[str, Any]:
    """The manifest that was applied last; empty if none was, or not by kubectl."""
    text = annotations_of(stored).get(LAST_APPLIED_ANNOTATION)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        # kubectl would refuse; whose error tells more.
        return {}
    return found if isinstance(found, Mapping) else {}


def _merge(original: Any, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    before: Mapping[str, Any] = original if isinstance(original, Mapping) else {}
    patch: dict[str, Any] = {}
    for key, value in wanted.items():
        actual = stored.get(key)
        if isinstance(value, Mapping) and isinstance(actual, Mapping):
            below = _merge(before.get(key), value, actual)
            if below:
                patch[key] = below
        elif value != actual:
            patch[key] = value
    for key in before:
        if wanted.get(key) is None and stored.get(key) is not None:
            patch[key] = None
    return patch
