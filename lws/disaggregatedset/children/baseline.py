"""Read and write the group counts that a child, and its role, had when the rollout of its slice began.

They are remembered as annotations of the child; the first is upstream's `initial-replicas`.
"""

from __future__ import annotations

import re

from lws.kube.metadata import annotations_of
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION

_COUNT = re.compile(r"[0-9]{1,7}")


def initial_of(child: Object) -> int | None:
    """The count at the start; None where nothing is remembered, or nothing that can be read."""
    return _count(child, INITIAL_REPLICAS_ANNOTATION)


def others_initial_of(child: Object) -> int:
    """What the other revisions had of its role, where there were several; 0 where nothing is remembered."""
    return _count(child, OTHERS_INITIAL_REPLICAS_ANNOTATION) or 0


def _count(child: Object, annotation: str) -> int | None:
    text = annotations_of(child).get(annotation)
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None
