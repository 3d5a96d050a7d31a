"""lws.history: reuse of earlier revisions, and adoption of orphans."""

from __future__ import annotations

from lws.history.plan import plan_adoption, plan_reuse
from lws.history.revision import HIGHEST_NUMBER
from lws.runtime.actions import Merge, SetOwner
from test.unit.lws.history.test_order import make_recorded

OWNER = {"kind": "LeaderWorkerSet", "name": "demo", "uid": "u", "controller": True}


def test_a_revision_that_is_wanted_again_becomes_the_newest() -> None:
    known = make_recorded(3)
    assert plan_reuse(known, 3, OWNER) == ()
    (raised,) = plan_reuse(known, 5, OWNER)
    why = "the spec matches revision 3 again"
    assert raised == Merge(known.reference, {"revision": 6}, why=why)
    assert plan_reuse(make_recorded(HIGHEST_NUMBER), HIGHEST_NUMBER, OWNER) == ()


def test_an_orphan_that_is_wanted_is_adopted_in_the_same_write() -> None:
    known = make_recorded(3, is_orphan=True)
    (adopted,) = plan_reuse(known, 3, OWNER)
    assert adopted == SetOwner(known.reference, OWNER, "an orphan of the set is adopted")
    (raised,) = plan_reuse(known, 4, OWNER)
    assert isinstance(raised, SetOwner)
    assert raised.patch == {"revision": 5}
    for newest in (3, 4):
        assert plan_reuse(known, newest, None) == (), "while its set may not adopt it is left as it is"


def test_the_other_orphans_are_adopted_as_they_are() -> None:
    orphans = [make_recorded(1, is_orphan=True), make_recorded(2, is_orphan=True)]
    adopted = plan_adoption(orphans, OWNER)
    assert [each.target for each in adopted] == [each.reference for each in orphans]
    assert {each.patch == {} and each.owner == OWNER for each in adopted if isinstance(each, SetOwner)} == {
        True
    }
