"""What is there: one DisaggregatedSet with everything that belongs to it, read from the API server at one go.

In: a session and a name. Out: the snapshot that the controller would decide from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lws.actions import Object
from lws.cli.facts import names
from lws.cli.refusal import Refusal, Unreadable
from lws.cli.session import Session
from lws.cluster.cache.store import Store
from lws.cluster.observe.disaggregatedsets import DisaggregatedObserver
from lws.cluster.write.disaggregated_memory import DisaggregatedMemory
from lws.controller.disaggregatedset.tables import TABLES
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import fault_of
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_LABEL

_KINDS = (CHILD_KIND, "ControllerRevision", "Service", SCALER_KIND)
# Names of LeaderWorkerSets in one selector: more would make an address that some proxies refuse.
_AT_ONCE = 50


async def find(session: Session, name: str) -> Object:
    """The set of this name."""
    return readable(await names.find(session, DISAGGREGATED_SET, name))


def readable(obj: Object) -> Object:
    """The set; a definition of another release may have let anything in."""
    if fault := fault_of(obj):
        raise Unreadable(obj["metadata"]["name"], fault)
    return obj


async def snapshot_of(session: Session, obj: Object) -> DisaggregatedSnapshot:
    """Everything that belongs to a set."""
    namespace, name = readable(obj)["metadata"]["namespace"], obj["metadata"]["name"]
    store = Store(lambda before, after: None, TABLES)
    store.put(obj)
    for kind in _KINDS:
        for each in await session.cluster.listed(kind, namespace, f"{NAME_LABEL}={name}"):
            store.put(each)
    children = [each["metadata"]["name"] for each in store.controlled_by(obj["metadata"]["uid"], CHILD_KIND)]
    for some in _portions(sorted(children)):
        for kind in ("StatefulSet", "Pod"):
            selector = f"{CHILD_LABEL} in ({','.join(some)})"
            for each in await session.cluster.listed(kind, namespace, selector):
                store.put(each)
    observer = DisaggregatedObserver(session.cluster, store, DisaggregatedMemory(store))
    snapshot = await observer.observe(namespace, name, session.now)
    if snapshot is None:
        raise Refusal(f"DisaggregatedSet {name} was deleted meanwhile")
    return snapshot


def _portions(children: Sequence[str]) -> Iterator[Iterable[str]]:
    for start in range(0, len(children), _AT_ONCE):
        yield children[start : start + _AT_ONCE]
