"""How does a process that runs for months deal with memory and open files? Said once, before and after the
imports.

Out: settings of the garbage collector, of the C library and of the system; nothing is decided here.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_NEW_OBJECTS = 10_000

# malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# TLS is read into 256 KiB at a time, twice for each message: what is larger may cost system calls, that not.
_LARGE_BYTES = 320 * 1024
_SPARE_BYTES = 512 * 1024


def before_imports() -> None:
    """Look for garbage less often, give large buffers back as soon as they are free, have as many files as
    the system lets.
    """
    # Objects come and go by the thousand and hardly ever in circles: to look for those less often saves
    # 5 % of the CPU time.
    gc.set_threshold(_NEW_OBJECTS)
    # Once a large buffer was freed, glibc keeps the place of those to come: 5 MB for pages of lists.
    # Other C libraries have no such call, and Windows no C library without a name.
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in (
            (_M_MMAP_THRESHOLD, _LARGE_BYTES),
            (_M_TRIM_THRESHOLD, _SPARE_BYTES),
            (_M_ARENA_MAX, 1),
        ):
            mallopt(parameter, value)
    _open_as_many_files_as_allowed()


def _open_as_many_files_as_allowed() -> None:
    """As every Go program does: many container runtimes begin with 1,024, which as many callers of a probe
    could use up, and then nobody renews the Lease.
    """
    # Windows has no such limits.
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def after_imports() -> None:
    """What is imported stays: to look through all of it takes 50 ms, in which no review is answered."""
    gc.freeze()
