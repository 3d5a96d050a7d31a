"""Whether a number of groups may be written so: a whole number, or a percentage.

In: the value of a field of type int-or-string. Out: errors in the words of the API server.
"""

from __future__ import annotations

from lws.admission.errors import FieldError, invalid
from lws.kube.quantities import scaled

_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def amount_errors(path: object, amount: int | str | None) -> list[FieldError]:
    """What is wrong with the amount in the field at `path`: one error at most, none where it says nothing."""
    if amount is None:
        return []
    if isinstance(amount, int):
        return [invalid(path, amount, "must be greater than or equal to 0")] if amount < 0 else []
    try:
        percent = scaled(amount, 100, round_up=False)
    except ValueError:
        return [invalid(path, amount, _PERCENT_MESSAGE)]
    return [invalid(path, amount, "must not be greater than 100%")] if percent > 100 else []
