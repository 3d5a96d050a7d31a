"""Every table of functions in `lws.cli` has an entry for each kind of set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws.cli import histories, manifests, states
from lws.cli.commands import key, plan, restart, status, undo
from lws.cli.sets import KINDS

TABLES: dict[str, Mapping[str, Any]] = {
    "histories": histories._HISTORIES,
    "states": states._STATES,
    "admission": manifests._ERRORS,
    "status": status._VIEWS,
    "plan": plan._PLANS,
    "undo": undo._UNDO_RULES,
    "restart": restart._PATCHES,
    "key": key._KEYS,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_each_kind(name: str) -> None:
    assert TABLES[name].keys() == {kind.resource.kind for kind in KINDS}
