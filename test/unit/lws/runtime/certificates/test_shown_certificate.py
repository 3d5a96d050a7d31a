"""lws.cli.commands.doctor: flaws of a served certificate, seen by a client that trusts a CA."""

from __future__ import annotations

from datetime import timedelta

from lws.cli.commands.doctor import shown_flaw
from test.unit.lws.runtime.certificates.chains import NOW, another_authority, issue

ROOT = issue("root")
MIDDLE = issue("middle", ROOT)
SERVER = issue("lws.svc", MIDDLE)
NAMES = ("lws.svc",)


def test_signed_by_the_ca() -> None:
    assert shown_flaw(SERVER.pem, (MIDDLE.pem,), NAMES, NOW) == ""
    assert shown_flaw(SERVER.pem, (another_authority() + MIDDLE.pem,), NAMES, NOW) == ""


def test_intermediate_certificates_lead_to_the_ca() -> None:
    assert shown_flaw(SERVER.pem + MIDDLE.pem, (ROOT.pem,), NAMES, NOW) == ""
    assert shown_flaw(SERVER.pem, (ROOT.pem,), NAMES, NOW) == "of another CA"


def test_an_incomplete_chain_is_not_trusted() -> None:
    assert shown_flaw(SERVER.pem + issue("else", ROOT).pem, (ROOT.pem,), NAMES, NOW) == "of another CA"


def test_signed_by_another_ca() -> None:
    assert shown_flaw(SERVER.pem, (another_authority(),), NAMES, NOW) == "of another CA"
    assert shown_flaw(SERVER.pem, (), NAMES, NOW) == ""


def test_names_and_times() -> None:
    assert shown_flaw(SERVER.pem, (MIDDLE.pem,), ("b.svc", "a.svc"), NOW) == "not for a.svc, b.svc"
    late = NOW + timedelta(days=31)
    assert shown_flaw(SERVER.pem, (MIDDLE.pem,), NAMES, late) == "valid only until 2026-03-31 12:00 UTC"


def test_invalid_certificates() -> None:
    assert shown_flaw(b"?", (MIDDLE.pem,), NAMES, NOW).startswith("unreadable")
    assert shown_flaw(SERVER.pem, (b"?",), NAMES, NOW).startswith("unreadable")
