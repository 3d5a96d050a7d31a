"""Settings and fixtures of all unit tests.

The garbage collector skips objects of the test collection. No certificate authority of the machine is
trusted, and modules that the image leaves out cannot be imported. A few private keys are shared.
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

# Objects of the test collection never become garbage.
gc.disable()
_NEW_OBJECTS = 20_000

# Reading the machine's certificate authorities takes 20 ms for each client, and no test needs them. Some
# packages read them when they are imported.
os.environ["SSL_CERT_FILE"] = os.devnull

keep_out()

_POOL_SIZE = 4


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the objects of the collection from garbage collection.

    They live until the end; scanning them would take a quarter of the suite's time.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()


@pytest.fixture(scope="session")
def shared_keys() -> Iterator[None]:
    """Share a few RSA keys among tests, because generating one takes a twentieth of a second.

    Four keys generated one after the other are different; the fifth is the first one again.
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
