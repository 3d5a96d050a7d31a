"""lws.cli.commands.completion: the scripts that shells load."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from lws.cli.commands.completion import SHELLS, completion


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_lws(shell: str) -> None:
    done = CliRunner().invoke(completion, [shell])
    assert done.exit_code == 0
    assert f"_LWS_COMPLETE={shell}_complete" in done.output


def test_a_shell_that_is_not_known() -> None:
    done = CliRunner().invoke(completion, ["tcsh"])
    assert done.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.output


def test_every_shell_is_explained() -> None:
    text = CliRunner().invoke(completion, ["--help"]).output
    assert all(f"lws completion {shell}" in text for shell in SHELLS)
    assert "kubectl_complete-lws" in text
