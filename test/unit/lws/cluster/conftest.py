"""Keys for certificates: drawing one takes a tenth of a second, so the tests share a few."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

_POOL: list[rsa.RSAPrivateKey] = []
_POOL_SIZE = 4


@pytest.fixture
def shared_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys drawn one after the other are different ones, but the fifth is the first again."""
    draw = rsa.generate_private_key

    def shared(public_exponent: int, key_size: int) -> rsa.RSAPrivateKey:
        if key_size != 2048:
            return draw(public_exponent, key_size)
        if len(_POOL) < _POOL_SIZE:
            _POOL.append(draw(public_exponent, key_size))
        else:
            _POOL.append(_POOL.pop(0))
        return _POOL[-1]

    monkeypatch.setattr(rsa, "generate_private_key", shared)
