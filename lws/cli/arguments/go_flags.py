"""How the manager's flags may be spelled: as Go programs take them, because manifests out there use all
their forms.

In: arguments. Out: the same with two dashes and `=`, as click takes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import click


def as_double_dashed(arguments: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """`-flag` → `--flag`, and a bare `--flag` of a boolean → `--flag=true` (it never takes the next
    argument, while any other flag takes it whatever it looks like).
    """
    flags = {name: param.type for param in params for name in param.opts}
    result: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            return [*result, argument, *remaining]
        if argument.startswith("-") and not argument.startswith("--") and len(argument) > 2:
            argument = f"-{argument}"
        if isinstance(flags.get(argument), click.types.BoolParamType):
            argument = f"{argument}=true"
        result.append(argument)
        if argument in flags:
            result += itertools.islice(remaining, 1)
    return result
