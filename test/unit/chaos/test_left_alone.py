"""The chaos checks for a set that another controller manages (`managedBy`)."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from test.harness.audit import MANAGER
from test.integration.chaos.record import PODS, Entry, Record
from test.integration.chaos.verdict import assert_left_alone


def record(*written: tuple[str, str]) -> Record:
    """Return the record of these writes, given as (user, name)."""
    entries = [Entry(datetime.now(UTC), "delete", PODS, "default", name, 200, user) for user, name in written]
    return cast("Record", SimpleNamespace(entries=lambda: entries))


def test_other_clients_may_write_to_the_set_and_a_manager_to_other_sets() -> None:
    assert_left_alone(record(("somebody", "elsewhere-0"), (MANAGER, "one-0")), "elsewhere")


def test_a_write_by_a_manager_is_reported() -> None:
    with pytest.raises(pytest.fail.Exception, match="delete pods elsewhere-0"):
        assert_left_alone(record((MANAGER, "elsewhere-0")), "elsewhere")


def test_a_record_without_the_set_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="nothing has happened to elsewhere"):
        assert_left_alone(record((MANAGER, "one-0")), "elsewhere")
