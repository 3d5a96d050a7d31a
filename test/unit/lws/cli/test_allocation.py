"""Settings of the garbage collector and of the C library, put back afterwards."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Iterator

import pytest

from lws.cli.commands import manager


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    former, files = gc.get_threshold(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    gc.unfreeze()
    gc.set_threshold(*former)


def test_garbage_is_looked_for_less_often_and_never_in_what_is_imported() -> None:
    manager.before_imports()
    manager.after_imports()
    assert gc.get_threshold()[0] == 10_000
    assert gc.get_freeze_count() > 1000


@pytest.mark.parametrize("missing", [OSError("no such library"), AttributeError("no mallopt")])
def test_other_c_libraries_have_no_such_call(missing: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_: None) -> None:
        raise missing

    monkeypatch.setattr(ctypes, "CDLL", load)
    manager.before_imports()
    assert gc.get_threshold()[0] == 10_000, "the rest is set all the same"


def test_as_many_files_may_be_open_as_the_system_lets() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
    manager.before_imports()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
