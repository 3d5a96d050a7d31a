"""Divide the API server's CPU profile into blocks of work.

A stack, outermost function first, counts to the first block in the order below that has one of its functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from test.bench.bill.pprof import Stack

REVIEWS, WATCHES, OVERHEAD, REST = "reviews", "watches", "requests as such", "rest"
VERBS = ("create", "update", "patch", "delete", "get", "list")

# For each block, parts of function names.
_BLOCKS: Mapping[str, tuple[str, ...]] = {
    REVIEWS: ("plugin/webhook/", "net/http.(*persistConn)", "net/http.(*Transport)"),
    WATCHES: (
        "handlers.handleWatch",
        "handlers.(*WatchServer)",
        "handlers.(*watchEncoder)",
        "cacher.(*cacheWatcher)",
        "cacher.(*Cacher)",
        "cacher.(*watchCache)",
        "cacher.NewCacherFromConfig",
        "cache.(*Reflector)",
        "watch.(*StreamWatcher)",
        "etcd3.(*watchChan)",
        "v3.(*watchGrpcStream)",
    ),
    "create": ("CreateResource", "createHandler", "Creater"),
    "update": ("handlers.UpdateResource",),
    "patch": ("handlers.PatchResource", "handlers.(*patcher)", "handlers.(*jsonPatcher)"),
    "delete": ("handlers.DeleteResource", "handlers.DeleteCollection"),
    "get": ("GetResource", "getResourceHandler"),
    "list": ("handlers.ListResource",),
    OVERHEAD: ("net/http.", "http2.", "endpoints/filters", "server/filters", "crypto/tls"),
}


def seconds_by_block(profile: Mapping[Stack, float]) -> dict[str, float]:
    """Return the seconds of every block in the profile, the largest first."""
    seconds_of: Counter[str] = Counter()
    for stack, seconds in profile.items():
        seconds_of[block_of(stack)] += seconds  # type: ignore[assignment]
    return dict(seconds_of.most_common())


def block_of(stack: Stack) -> str:
    """Return the block of a stack.

    Go's garbage collector and scheduler serve all blocks, and count as the rest.
    """
    for name, parts in _BLOCKS.items():
        if any(part in function for function in stack for part in parts):
            return name
    return REST
