"""Tests of the names of children, and of how they are parsed."""

from __future__ import annotations

import pytest

from lws.disaggregatedset.names import Identity, child_name, identity_of, scaler_name, service_name

DECODE = Identity(1, "980bcb92", "decode")
LEGACY = Identity(0, "980bcb92", "decode", is_legacy=True)


def test_names_match_upstream() -> None:
    assert child_name("llm", DECODE) == "llm-1-980bcb92-decode"
    assert child_name("llm", LEGACY) == "llm-980bcb92-decode"
    assert service_name("llm-1-980bcb92-decode") == "llm-1-980bcb92-decode-prv"
    assert scaler_name("llm", "decode") == "llm-decode"


@pytest.mark.parametrize(
    "identity",
    [
        DECODE,
        LEGACY,
        Identity(0, "12345678", "0"),
        Identity(99, "00000000", "a-1-b"),
        Identity(0, "12345678", "0-12345678-a", is_legacy=True),
    ],
)
def test_a_name_identifies_a_child(identity: Identity) -> None:
    for set_name in ("llm", "llm-1", "a-0-12345678"):
        assert identity_of(set_name, child_name(set_name, identity)) == identity


@pytest.mark.parametrize(
    "name",
    [
        "llm",
        "llm-",
        "other-1-980bcb92-decode",
        "llm-1-980bcb9-decode",
        "llm-1-980BCB92-decode",
        "llm-01-980bcb92-decode",
        "llm-100-980bcb92-decode",
        "llm-1-980bcb92-",
        "llm-1-980bcb92-a-",
        "llm-1-980bcb92-decode-prv\n",
        "llmx1-980bcb92-decode",
    ],
)
def test_other_names_identify_no_child(name: str) -> None:
    assert identity_of("llm", name) is None
