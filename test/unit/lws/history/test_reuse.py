"""lws.history: reuse of earlier revisions."""

from __future__ import annotations

from lws.history.plan import plan_reuse
from lws.history.revision import HIGHEST_NUMBER
from lws.runtime.actions import Merge, SetOwner
from test.unit.lws.history.test_order import make_recorded

OWNER = {"kind": "LeaderWorkerSet", "name": "demo", "uid": "u", "controller": True}


def test_a_reused_revision_becomes_the_newest() -> None:
    revisions = make_recorded(3)
    assert plan_reuse(revisions, 3, OWNER) == ()
    (raised,) = plan_reuse(revisions, 5, OWNER)
    why = "the spec matches revision 3 again"
    assert raised == Merge(revisions.reference, {"revision": 6}, why=why)
    assert plan_reuse(make_recorded(HIGHEST_NUMBER), HIGHEST_NUMBER, OWNER) == ()


def test_a_reused_orphan_is_adopted_in_the_same_write() -> None:
    revisions = make_recorded(3, is_orphan=True)
    (adopted,) = plan_reuse(revisions, 3, OWNER)
    assert adopted == SetOwner(revisions.reference, OWNER, "an orphan of the set is adopted")
    (raised,) = plan_reuse(revisions, 4, OWNER)
    assert isinstance(raised, SetOwner)
    assert raised.patch == {"revision": 5}
    for newest in (3, 4):
        assert plan_reuse(revisions, newest, None) == (), "it is not changed while its set may not adopt"
