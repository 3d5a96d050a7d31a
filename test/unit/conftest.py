"""What all unit tests share: a garbage collector that does not walk through thousands of collected tests
again, no trust in anybody whom a test does not name, no module that the image does without, and a few keys
for certificates.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from test.unit.without import keep_out

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import rsa

# Nothing that is collected becomes garbage.
gc.disable()
_NEW_OBJECTS = 20_000

# Reading the authorities of this machine takes 20 ms for each client, and no test talks to anybody whom they
# vouch for. Some packages read them when they are imported.
os.environ["SSL_CERT_FILE"] = os.devnull

keep_out()

_POOL_SIZE = 4


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection made stays until the end: a quarter of the suite's time would go into looking at it."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()


@pytest.fixture(scope="session")
def shared_keys() -> Iterator[None]:
    """Drawing a key takes a twentieth of a second, so tests share a few: those drawn one after the other are
    different ones, but the fifth is the first again.
    """
    # Imported late: most runs of a few tests need no keys.
    from cryptography.hazmat.primitives.asymmetric import rsa

    pool: list[rsa.RSAPrivateKey] = []
    draw = rsa.generate_private_key

    def shared(public_exponent: int, key_size: int) -> rsa.RSAPrivateKey:
        if key_size != 2048:
            return draw(public_exponent, key_size)
        pool.append(draw(public_exponent, key_size) if len(pool) < _POOL_SIZE else pool.pop(0))
        return pool[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rsa, "generate_private_key", shared)
        yield
