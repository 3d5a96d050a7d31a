"""How the manager's flags may be spelled: as Go programs take them, because manifests out there use all
their forms.

In: arguments. Out: the same with two dashes and `=`, as click takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click


def as_double_dashed(arguments: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """`-flag` → `--flag`, and a bare `--flag` of a boolean → `--flag=true` (it never takes the next
    argument).
    """
    booleans = {
        name for param in params if isinstance(param.type, click.types.BoolParamType) for name in param.opts
    }
    result: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return result + list(arguments[position:])
        if argument.startswith("-") and not argument.startswith("--") and len(argument) > 2:
            argument = f"-{argument}"
        result.append(f"{argument}=true" if argument in booleans else argument)
    return result
