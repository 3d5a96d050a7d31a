"""lws.config.checks: cipher suites, named as in Go and translated for OpenSSL."""

from __future__ import annotations

import ssl

import pytest

from lws.config.checks import TLS12_SUITES, TLS13_SUITES, is_known, openssl_names

MODERN = [suite for suite in TLS12_SUITES if "ECDHE" in suite and ("GCM" in suite or "CHACHA20" in suite)]


@pytest.mark.parametrize("suite", MODERN)
def test_openssl_names_of_suites(suite: str) -> None:
    (name,) = openssl_names([suite])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(name)
    offered = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert offered == {name}


def test_names_follow_one_rule() -> None:
    """In `TLS_<exchange>_WITH_<cipher>_<size>_<mode>`, exchange and cipher are the same in both notations."""
    for suite, name in TLS12_SUITES.items():
        exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
        assert name.startswith(exchange.replace("_", "-")) == (exchange != "RSA"), suite
        assert (
            "GCM" in cipher,
            "CHACHA20" in cipher,
            "RC4" in cipher,
            "SHA256" in cipher and "CBC" in cipher,
        ) == (
            "GCM" in name,
            "CHACHA20" in name,
            "RC4" in name,
            "SHA256" in name and "GCM" not in name,
        ), suite
        assert ("128" in cipher and "AES" in cipher) == ("AES128" in name), suite
        assert ("256_" in cipher and "AES" in cipher) == ("AES256" in name), suite


def test_duplicates_are_removed_in_order() -> None:
    assert openssl_names(
        [
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_AES_128_GCM_SHA256",
        ]
    ) == ("ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256")


def test_suites_absent_from_openssl_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict(TLS12_SUITES) | {"TLS_RSA_WITH_RC4_128_SHA": "NO-SUCH-CIPHER"}
    monkeypatch.setattr("lws.config.checks.TLS12_SUITES", names)
    assert openssl_names(["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]) == (
        "ECDHE-RSA-AES128-GCM-SHA256",
    )


def test_known_suites() -> None:
    assert [suite for suite in (*TLS13_SUITES, *TLS12_SUITES) if not is_known(suite)] == []


@pytest.mark.parametrize(
    "suite", ["", "AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 ", "tls_aes_128_gcm_sha256"]
)
def test_unknown_suites(suite: str) -> None:
    assert not is_known(suite)
