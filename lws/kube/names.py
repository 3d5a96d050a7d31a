"""Validate names as the API server does, and limit a set's name so that names derived from it are valid."""

from __future__ import annotations

import re
from dataclasses import dataclass

LABEL_LENGTH = 63
"""Maximum bytes of a DNS label (RFC 1035, RFC 1123) and of a label value in Kubernetes."""
SUBDOMAIN_LENGTH = 253
"""Maximum bytes of a DNS subdomain (RFC 1123), the longest name that an object can have."""

_REVISION_HASH_LENGTH = 10
"""Maximum length of a StatefulSet revision's hash: an unsigned 32-bit number in encoded decimal digits."""
_KEY_LENGTH = 8
"""Number of digits of a group's key in its host name."""
_INT32_MAX = 2**31 - 1
_LONGEST_ORDINAL = len(str(_INT32_MAX))

_DNS1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1035_LABEL_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_DNS1035_LABEL.pattern}')"
)
_DNS1123_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN = re.compile(rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*")
_DNS1123_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    f"and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_DNS1123_LABEL}')"
)
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_NAME_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_LABEL_NAME.pattern}')"
)
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '{_LABEL_VALUE.pattern}')"
)
_DNS1123_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_DNS1123_SUBDOMAIN.pattern}')"
)
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_HTTP_PATH_MESSAGE = f"path part must consist of characters of an HTTP path ('{_HTTP_PATH.pattern}')"
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_PARENT_AND_ORDINAL = re.compile(r"(.*)-([0-9]+)", re.DOTALL)


def safe_encoded(text: str) -> str:
    """Encode text in an alphabet that forms no words, as Kubernetes encodes hashes in names."""
    return "".join(_SAFE_ALPHABET[ord(character) % len(_SAFE_ALPHABET)] for character in text)


_FNV = {32: (0x811C9DC5, 0x01000193), 64: (0xCBF29CE484222325, 0x100000001B3)}


def fnv_1a(text: str, bits: int) -> int:
    """Return the FNV-1a hash of the text in UTF-8. bits: 32 or 64."""
    value, prime = _FNV[bits]
    for byte in text.encode():
        value = (value ^ byte) * prime % (1 << bits)
    return value


def dns1035_label_errors(name: str) -> list[str]:
    """Return the errors of `name` as a DNS-1035 label, such as the name of a Service."""
    return _name_errors(name, _DNS1035_LABEL, LABEL_LENGTH, _DNS1035_LABEL_MESSAGE)


def dns1123_subdomain_errors(name: str) -> list[str]:
    """Return the errors of `name` as a DNS-1123 subdomain, such as the name of a Secret."""
    return _name_errors(name, _DNS1123_SUBDOMAIN, SUBDOMAIN_LENGTH, _DNS1123_SUBDOMAIN_MESSAGE)


def dns1123_label_errors(name: str) -> list[str]:
    """Return the errors of `name` as a DNS-1123 label, such as the name of a volume."""
    return _name_errors(name, re.compile(_DNS1123_LABEL), LABEL_LENGTH, _DNS1123_LABEL_MESSAGE)


def label_key_errors(key: str) -> list[str]:
    """Return the errors of `key` as the key of a label, such as `zone` or `example.com/zone`."""
    prefix, slash, name = key.rpartition("/")
    wrong = [f"prefix part {why}" for why in dns1123_subdomain_errors(prefix)] if slash else []
    return wrong + _name_errors(name, _LABEL_NAME, LABEL_LENGTH, _LABEL_NAME_MESSAGE)


def domain_prefixed_path_errors(path: str) -> list[str]:
    """Return the errors of `path` as the name of a controller, such as `example.com/name`."""
    domain, _, name = path.partition("/")
    if not domain or not name:
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    wrong = [f"domain part {why}" for why in dns1123_subdomain_errors(domain)]
    return wrong + ([] if _HTTP_PATH.fullmatch(name) else [_HTTP_PATH_MESSAGE])


def label_value_errors(value: str) -> list[str]:
    """Return the errors of `value` as the value of a label or taint."""
    return _name_errors(value, _LABEL_VALUE, LABEL_LENGTH, _LABEL_VALUE_MESSAGE)


def generate_name_errors(prefix: str) -> list[str]:
    """Return the errors of a generateName for a DNS-1035 label: it may end in a dash, as more is appended."""
    masked = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    return dns1035_label_errors(masked)


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """Split the name of a pod into its StatefulSet and its ordinal: `a-1-0` becomes ("a-1", 0).

    The result is ("", -1) if no pod of a StatefulSet can have this name, and the parent with -1 if the
    ordinal exceeds int32.
    """
    match = _PARENT_AND_ORDINAL.fullmatch(name)
    if match is None:
        return "", -1
    parent, digits = match.groups()
    significant = digits.lstrip("0") or "0"
    # int() rejects strings of several thousand digits.
    if len(significant) > _LONGEST_ORDINAL or int(significant) > _INT32_MAX:
        return parent, -1
    return parent, int(significant)


@dataclass(frozen=True, slots=True)
class DerivedName:
    """A name that is derived from the name of a set.

    purpose: where Kubernetes uses it. pattern: its form, for users. added: bytes beyond the set's name.
    """

    purpose: str
    pattern: str
    added: int

    @property
    def room(self) -> int:
        """Maximum bytes of the set's name for which the derived name stays within 63."""
        return LABEL_LENGTH - self.added


def tightest_derived_name(highest_index: int, size: int) -> DerivedName:
    """Return the derived name that limits the length of a set's name most.

    highest_index: the highest index of a group, surge groups included; 0 or more.
    size: number of pods per group; 1 or more.

    With i = digits of `highest_index` and w = digits of `size - 1`, the name of a set may have at most this
    many bytes:
      63 - 11         `<name>-<hash>`: label controller-revision-hash of leader pods
      63 - 1 - i      `<name>-<index>`: host name and pod-name label of leader pods, name of their Service
      63 - 12 - i     `<name>-<index>-<hash>`: label controller-revision-hash of worker pods; size > 1 only
      63 - 2 - i - w  `<name>-<index>-<worker>`: host name and pod-name label of worker pods; size > 1 only
    i is at most 7 (a million replicas, doubled by surge), and w is at most 10 (int32). Therefore the first
    limit is the tightest for groups of one pod: 52 bytes. The third is the tightest for groups with workers:
    50 bytes with ten groups, 49 with a hundred. The hash has 10 characters. For about one revision in four it
    has fewer, but no set may depend on that.
    """
    hashed = 1 + _REVISION_HASH_LENGTH
    if size == 1:
        return DerivedName("the controller-revision-hash label of leader pods", "<name>-<hash>", hashed)
    return DerivedName(
        purpose="the controller-revision-hash label of worker pods",
        pattern=f"<name>-{highest_index}-<hash>",
        added=1 + len(str(highest_index)) + hashed,
    )


def tightest_name_with_key(size: int) -> DerivedName:
    """Return the tightest derived name for groups of `size` pods whose host names are `<name>-<key>`."""
    host = 1 + _KEY_LENGTH
    if size == 1:
        return DerivedName("the host name of leader pods", "<name>-<key>", host)
    return DerivedName(
        purpose="the controller-revision-hash label of worker pods",
        pattern="<name>-<key>-<hash>",
        added=host + 1 + _REVISION_HASH_LENGTH,
    )


def byte_length(text: str) -> int:
    """Return the length of `text` in UTF-8 bytes, as Kubernetes counts it. Lone surrogates are allowed."""
    return len(text.encode(errors="surrogatepass"))


def _name_errors(name: str, pattern: re.Pattern[str], length: int, message: str) -> list[str]:
    errors = []
    if byte_length(name) > length:
        errors.append(f"must be no more than {length} bytes")
    if pattern.fullmatch(name) is None:
        errors.append(message)
    return errors
