"""Parse, compare and write Kubernetes quantities, int-or-percent values and numbers in labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, total_ordering
from typing import Any, Literal, TypeGuard

Notation = Literal["decimal", "binary", "exponent"]

NANO = -9
MILLI = -3

# The number of digits is bounded, because parsing them takes quadratic time.
_SYNTAX = re.compile(
    r"([+-]?)([0-9]{0,1000})(?:\.([0-9]{0,1000}))?(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,9})"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}

_MOST_DIGITS = 18
# Exponents above this exceed any real amount, and writing out their digits would exhaust memory.
_ABSURD = 100
_LARGEST_BINARY = 2**63 - 1

INT32 = 2**31 - 1
"""The largest value of an int32 field of the API."""

_PERCENT = re.compile(r"[0-9]+%")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """The number `mantissa` × 10^`exponent`, never finer than a nano unit. Comparison is by value.

    notation: the family of suffixes. text: the original spelling, if Kubernetes keeps it; else empty.
    """

    mantissa: int
    exponent: int
    notation: Notation = "decimal"
    text: str = ""

    @property
    def value(self) -> Decimal:
        """The exact number. It is not an int, because 1e999999999 is a legal quantity."""
        return Decimal(f"{self.mantissa}E{self.exponent}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __str__(self) -> str:
        return self.text or _written(self)

    def plus(self, other: Quantity) -> Quantity:
        """Return the sum, in the notation of this quantity."""
        if max(self.exponent, other.exponent) > _ABSURD:
            return max(self, other)
        exponent = min(self.exponent, other.exponent)
        mantissa: int = sum(
            quantity.mantissa * 10 ** (quantity.exponent - exponent)
            for quantity in (self, other)
            if quantity.mantissa
        )
        return Quantity(mantissa, exponent, self.notation)

    def times(self, count: int) -> Quantity:
        """Return the product with `count`, which must be at least 1."""
        if count == 1 or self.exponent > _ABSURD:
            return self
        return Quantity(self.mantissa * count, self.exponent, self.notation)

    def rounded_up(self, exponent: int) -> Quantity:
        """Return the quantity without digits below 10^`exponent`, rounded away from zero."""
        if self.exponent >= exponent:
            return self
        return Quantity(_shifted(self.mantissa, self.exponent - exponent), exponent, self.notation)


def parse(value: str | int | float) -> Quantity:
    """Parse the quantity in a value of a manifest. A JSON number is parsed as its digits.

    Raises ValueError for anything else (syntax of resource.Quantity in the Kubernetes API).
    """
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e21
    text = str(int(value)) if is_whole else str(value).strip()
    match = _SYNTAX.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{value!r} is not a quantity; write digits and a unit, such as 500m, 1.5 or 16Gi")
    sign = -1 if match[1] == "-" else 1
    integer, fraction, suffix = match[2].lstrip("0") or "0", match[3] or "", match[4]
    if suffix in _BINARY:
        return _parsed_binary(text, sign, integer, fraction, _BINARY[suffix])
    notation: Notation = "decimal" if suffix in _DECIMAL else "exponent"
    exponent = _DECIMAL[suffix] if notation == "decimal" else int(suffix[1:])
    digits = integer + fraction
    scale = exponent - len(fraction)
    # Kubernetes keeps such a spelling, as it does for some binary quantities.
    is_kept = (
        len(digits) <= _MOST_DIGITS
        and scale >= NANO
        and scale % 3 == 0
        and not digits.startswith("0")
        and not digits.endswith("000")
    )
    return _at_nano(sign * int(digits), scale, notation, text if is_kept else "")


@lru_cache(maxsize=4096)
def canonical(value: str | int | float, smallest: int = NANO) -> str:
    """Return a quantity as Kubernetes writes it, rounded up to 10^`smallest`. ValueError if it is invalid."""
    return str(parse(value).rounded_up(smallest))


def scaled(value: int | str, total: int, round_up: bool) -> int:
    """Resolve a percentage of `total`, or return an integer as it is. Raises ValueError for other strings.

    round_up: True for maxSurge, False for maxUnavailable.
    """
    if isinstance(value, int):
        return value
    if not _PERCENT.fullmatch(value):
        raise ValueError(f'{value!r} is neither a whole number nor a percentage; write it as 2 or "25%"')
    product = int(value[:-1]) * total
    return -(-product // 100) if round_up else product // 100


def whole_number(text: object, least: int = 0, most: int = INT32) -> int | None:
    """Return the number in a label or annotation; None if the text is not a number within these bounds."""
    if not isinstance(text, str) or not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if least <= number <= most else None


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether a JSON value is an integer. In Python, true and false are integers too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _parsed_binary(text: str, sign: int, integer: str, fraction: str, power: int) -> Quantity:
    if not fraction and 15 - len(integer) - power * 3 // 10 - 1 >= 0 and int(integer) & 7:
        return Quantity(sign * int(integer) << power, 0, "binary", text)
    quantity = _at_nano(int(integer + fraction) << power, -len(fraction), "binary", "")
    if quantity > Quantity(_LARGEST_BINARY, 0):
        quantity = Quantity(_LARGEST_BINARY, 0, "binary")
    return Quantity(sign * quantity.mantissa, quantity.exponent, "binary")


def _at_nano(mantissa: int, exponent: int, notation: Notation, text: str) -> Quantity:
    if exponent >= NANO:
        return Quantity(mantissa, exponent, notation, text)
    return Quantity(_shifted(mantissa, exponent - NANO), NANO, notation)


def _shifted(mantissa: int, places: int) -> int:
    """Return `mantissa` × 10^`places` for negative `places`, rounded away from zero."""
    if -places > len(str(mantissa)):
        return (mantissa > 0) - (mantissa < 0)
    unit: int = 10**-places
    size = -(-abs(mantissa) // unit)
    return size if mantissa > 0 else -size


def _without_zeros(mantissa: int, exponent: int) -> tuple[int, int]:
    if mantissa == 0:
        return 0, 0
    digits = str(mantissa)
    significant = digits.rstrip("0")
    return int(significant), exponent + len(digits) - len(significant)


def _written(quantity: Quantity) -> str:
    mantissa, exponent = _without_zeros(quantity.mantissa, quantity.exponent)
    if quantity.notation == "binary" and exponent >= 0:
        value: int = mantissa * 10**exponent
        if abs(value) >= 1024:
            power = 0
            while value % 1024 == 0:
                value, power = value // 1024, power + 10
            return f"{value}{_BINARY_SUFFIX[power]}"
    spare = exponent % 3
    mantissa, exponent = mantissa * 10**spare, exponent - spare
    if quantity.notation == "exponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # Kubernetes has no suffix beyond E, and writes such quantities without one.
    return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


# --- Sum the resources that a pod requests, as schedulers count them.


Requests = Mapping[str, Quantity]
"""Name of a resource → requested quantity."""

_OF_PODS = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def of_pod(pod: Mapping[str, Any]) -> Requests:
    """Return the effective request of a pod with this spec, overhead included, as the scheduler computes it.

    Limits replace missing requests, as in the API server. Sidecars run concurrently with everything that
    starts after them. Other init containers run before the containers.
    """
    running: Requests = {}
    neediest: Requests = {}
    for container in pod.get("initContainers") or ():
        requests = _of(container.get("resources"))
        if container.get("restartPolicy") == "Always":
            running = total([running, requests])
            neediest = _highest(neediest, running)
        else:
            neediest = _highest(neediest, total([running, requests]))
    everything = total(
        [running, *(_of(container.get("resources")) for container in pod.get("containers") or ())]
    )
    needed = _highest(everything, neediest)
    pod_level = _of(pod.get("resources"))
    overriding = {
        name: amount for name, amount in pod_level.items() if name in _OF_PODS or name.startswith(_HUGE_PAGES)
    }
    return total([{**needed, **overriding}, _quantities(pod.get("overhead"))])


def total(summands: Iterable[Requests]) -> Requests:
    """Return the sum for each resource, in the notation of the first summand."""
    sums: dict[str, Quantity] = {}
    for requests in summands:
        for name, amount in requests.items():
            sums[name] = sums[name].plus(amount) if name in sums else amount
    return sums


def of_many(requests: Requests, count: int) -> Requests:
    """Return the request of `count` equal pods, of which there may be two billion."""
    return {name: amount.times(count) for name, amount in requests.items()} if count > 0 else {}


def _of(resources: Mapping[str, Any] | None) -> Requests:
    resources = resources or {}
    return {**_quantities(resources.get("limits")), **_quantities(resources.get("requests"))}


def _quantities(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in (amounts or {}).items()}


def _highest(first: Requests, second: Requests) -> Requests:
    return {
        name: max(amounts)
        for name in {**first, **second}
        if (amounts := [requests[name] for requests in (first, second) if name in requests])
    }
