"""How many groups did a child have when the rollout of its slice began?

In: LeaderWorkerSets. Out: the count, as the original's annotation remembers it.
"""

from __future__ import annotations

import re

from lws.actions import Object
from lws.kube.metadata import annotations_of
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION

_COUNT = re.compile(r"[0-9]{1,7}")


def initial_of(child: Object) -> int | None:
    """The count at the start; None where nothing is remembered, or nothing that can be read."""
    text = annotations_of(child).get(INITIAL_REPLICAS_ANNOTATION)
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None
