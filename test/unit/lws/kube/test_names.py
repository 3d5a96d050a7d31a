"""lws.kube.names: valid names, and their maximum length."""

from __future__ import annotations

import pytest

from lws.kube.names import (
    byte_length,
    dns1035_label_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    generate_name_errors,
    label_key_errors,
    parent_and_ordinal,
    tightest_derived_name,
)

LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TOO_LONG = "must be no more than 63 bytes"
SUBDOMAIN_TOO_LONG = "must be no more than 253 bytes"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a", [], id="one letter"),
        pytest.param("vllm-70b", [], id="usual"),
        pytest.param("a" * 63, [], id="63"),
        pytest.param("a" * 64, [LABEL_TOO_LONG], id="64"),
        pytest.param("1a", [LABEL], id="digit first"),
        pytest.param("-a", [LABEL], id="dash first"),
        pytest.param("a-", [LABEL], id="dash last"),
        pytest.param("a.b", [LABEL], id="dot"),
        pytest.param("A", [LABEL], id="upper case"),
        pytest.param("a\n", [LABEL], id="line end"),
        pytest.param("", [LABEL], id="empty"),
        pytest.param("é" * 32, [LABEL_TOO_LONG, LABEL], id="bytes count, not characters"),
        pytest.param("\ud800", [LABEL], id="lone surrogate"),
    ],
)
def test_dns1035_label(name: str, expected: list[str]) -> None:
    assert dns1035_label_errors(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("lws-webhook-server-cert", [], id="usual"),
        pytest.param("1.a-b.c", [], id="dots and digits"),
        pytest.param("a" * 253, [], id="253"),
        pytest.param("a" * 254, [SUBDOMAIN_TOO_LONG], id="254"),
        pytest.param("a..b", [SUBDOMAIN], id="empty part"),
        pytest.param("a_b", [SUBDOMAIN], id="underscore"),
        pytest.param("", [SUBDOMAIN], id="empty"),
    ],
)
def test_dns1123_subdomain(name: str, expected: list[str]) -> None:
    assert dns1123_subdomain_errors(name) == expected


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        pytest.param("vllm-", [], id="dash last"),
        pytest.param("a-", [], id="one letter and a dash"),
        pytest.param("vllm", [], id="no dash"),
        pytest.param("-", [LABEL], id="only a dash"),
        pytest.param("Vllm-", [LABEL], id="upper case"),
        pytest.param("a" * 63 + "-", [], id="dash of 64 is masked with its neighbour"),
        pytest.param("a" * 64 + "-", [LABEL_TOO_LONG], id="too long"),
    ],
)
def test_generate_name(prefix: str, expected: list[str]) -> None:
    assert generate_name_errors(prefix) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a-1-0", ("a-1", 0), id="greedy on the left"),
        pytest.param("x--1", ("x-", 1), id="two dashes"),
        pytest.param("a-007", ("a", 7), id="leading zeros"),
        pytest.param("-5", ("", 5), id="no parent"),
        pytest.param("a-2147483647", ("a", 2147483647), id="largest int32"),
        pytest.param("a-2147483648", ("a", -1), id="beyond int32"),
        pytest.param("a-" + "0" * 20 + "3", ("a", 3), id="zeros do not count"),
        pytest.param("a-" + "9" * 5000, ("a", -1), id="more digits than int() reads"),
        pytest.param("a", ("", -1), id="no dash"),
        pytest.param("a-", ("", -1), id="no digits"),
        pytest.param("a-b", ("", -1), id="letters"),
        pytest.param("a1", ("", -1), id="digits without dash"),
        pytest.param("a-1\n", ("", -1), id="line end"),
        pytest.param("a-١", ("", -1), id="digits of another script"),
        pytest.param("", ("", -1), id="empty"),
    ],
)
def test_parent_and_ordinal(name: str, expected: tuple[str, int]) -> None:
    assert parent_and_ordinal(name) == expected


@pytest.mark.parametrize(
    ("highest_index", "size", "room", "pattern"),
    [
        pytest.param(0, 1, 52, "<name>-<hash>", id="one group of one"),
        pytest.param(1_999_999, 1, 52, "<name>-<hash>", id="groups of one do not depend on the index"),
        pytest.param(0, 2, 50, "<name>-0-<hash>", id="one group"),
        pytest.param(9, 8, 50, "<name>-9-<hash>", id="ten groups"),
        pytest.param(10, 8, 49, "<name>-10-<hash>", id="eleven groups"),
        pytest.param(99, 8, 49, "<name>-99-<hash>", id="a hundred groups"),
        pytest.param(1_999_999, 2, 44, "<name>-1999999-<hash>", id="most groups, all surged"),
    ],
)
def test_tightest_derived_name(highest_index: int, size: int, room: int, pattern: str) -> None:
    tightest = tightest_derived_name(highest_index, size)
    assert (tightest.room, tightest.pattern) == (room, pattern)


@pytest.mark.parametrize("highest_index", [0, 9, 10, 1_999_999])
def test_all_names_derived_from_a_name_within_the_limit_are_valid(highest_index: int) -> None:
    for size in (1, 2, 9, 10, 1000, 2**31 - 1):
        name = "a" * tightest_derived_name(highest_index, size).room
        leader, revision_hash = f"{name}-{highest_index}", "-" + "x" * 10
        derived = [leader, name + revision_hash]
        if size > 1:
            derived += [f"{leader}-{size - 1}", leader + revision_hash]
        assert max(len(derived_name) for derived_name in derived) == 63, f"size {size}"


def test_byte_length_counts_utf8() -> None:
    assert (byte_length("é"), byte_length("\ud800")) == (2, 3)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        pytest.param("data-1", [], id="usual"),
        pytest.param("1", [], id="digit"),
        pytest.param("my.data", ["a lowercase RFC 1123 label"], id="dot"),
        pytest.param("A", ["a lowercase RFC 1123 label"], id="upper case"),
        pytest.param("a" * 64, [LABEL_TOO_LONG], id="64"),
    ],
)
def test_dns1123_label(name: str, parts: list[str]) -> None:
    messages = dns1123_label_errors(name)
    assert len(messages) == len(parts)
    assert all(message.startswith(part) for message, part in zip(messages, parts, strict=True))


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        pytest.param("zone", [], id="no prefix"),
        pytest.param("topology.kubernetes.io/zone", [], id="prefix"),
        pytest.param("Rack_1.a", [], id="all that is allowed"),
        pytest.param("a zone", ["name part must consist"], id="blank"),
        pytest.param("", ["name part must consist"], id="empty"),
        pytest.param("/zone", ["prefix part a lowercase RFC 1123 subdomain"], id="empty prefix"),
        pytest.param("A/zone", ["prefix part a lowercase RFC 1123 subdomain"], id="upper case prefix"),
        pytest.param("a/b/c", ["prefix part a lowercase RFC 1123 subdomain"], id="two slashes"),
        pytest.param("a" * 64, [LABEL_TOO_LONG], id="64"),
    ],
)
def test_label_key(key: str, parts: list[str]) -> None:
    messages = label_key_errors(key)
    assert len(messages) == len(parts)
    assert all(message.startswith(part) for message, part in zip(messages, parts, strict=True))
