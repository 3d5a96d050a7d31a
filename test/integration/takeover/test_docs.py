"""The commands of the page about revisions work and print what the page shows.

A fenced `console` block after the line `<!-- tested -->` is run: every `$ ` starts a command. The page shows
lines of its output, in order; `…` stands for any text, also for whole lines, and blanks for any blanks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import ClusterAccess

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "concepts" / "revisions.md"
_SECONDS = 300.0
# Commands that change nothing.
_DIFF = re.compile(r"(kubectl )?lws diff ")
_LOOKS = re.compile(r"kubectl get |lws (history|status|diff) ")
_BLOCK = re.compile(r"<!-- tested -->\n```console\n(.*?)```", re.DOTALL)


@dataclass
class Command:
    """One command, and the lines of its output that the page shows."""

    text: str
    lines: list[str] = field(default_factory=list)


def commands_of(page: str) -> Iterator[list[Command]]:
    """Yield the commands of each block, in order."""
    for block in _BLOCK.findall(page):
        commands: list[Command] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            elif line.startswith("    ") and not commands[-1].lines:
                commands[-1].text += f"\n{line}"
            else:
                commands[-1].lines.append(line)
        yield commands


def is_shown(output: str, lines: list[str]) -> bool:
    """Report whether every shown line is in the output, in order; `…` allows other lines in between."""
    parts = ["(?:.*\n)*" if line == "…" else _pattern(line) + "\n" for line in lines]
    return (
        re.fullmatch("".join(parts), output if output.endswith("\n") or not output else output + "\n")
        is not None
    )


def _pattern(line: str) -> str:
    words = [".*".join(map(re.escape, word.split("…"))) for word in line.split()]
    return r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*"


@pytest.fixture
def shell(cluster: ClusterAccess, world: World, tmp_path: Path) -> dict[str, str]:
    """The environment of a reader's shell: kubectl, lws, and a context with a separate namespace."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(cluster.binary("kubectl"))
    lws = programs / "lws"
    lws.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lws "$@"\n')
    lws.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(cluster.kubectl("config", "view", "--raw", "--flatten"))
    variables = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "api")]),
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    context = ["kubectl", "config", "set-context", "--current", f"--namespace={world.namespace}"]
    subprocess.run(context, env=variables, check=True, capture_output=True)
    return variables


def test_the_commands_print_what_the_page_shows(shell: dict[str, str], tmp_path: Path) -> None:
    blocks = list(commands_of(PAGE.read_text(encoding="utf-8")))
    assert len(blocks) >= 5
    for commands in blocks:
        setting = ""
        for command in commands:
            if re.match(r"\w+\(\)", command.text):
                # A shell function, for the rest of the block.
                setting += f"{command.text}\n"
                continue
            run = partial(run_in, shell, tmp_path, setting + command.text)
            done = run()
            if _LOOKS.match(command.text) and not is_shown(done.stdout, command.lines):
                # Readers are slower than a test, so the shown output may need some time.
                done = eventually(
                    command.text, run, lambda now, lines=command.lines: is_shown(now.stdout, lines)
                )
            # To fix the page, one has to see what it should say.
            print(f"$ {command.text}\n{done.stdout}{done.stderr}")
            # As in `kubectl diff`, 1 means a difference.
            assert done.returncode == (1 if _DIFF.match(command.text) else 0), command.text
            assert is_shown(done.stdout, command.lines), command.lines


def run_in(shell: dict[str, str], directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", text],
        cwd=directory,
        env=shell,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("output", "lines", "expected"),
    [
        ("a  b\n", ["a b"], True),
        ("a b", ["a b"], True),
        ("a c\n", ["a b"], False),
        ("a b\nc\n", ["a b"], False),
        ("x\na b\n", ["…", "a b"], True),
        ("x\na b\n", ["a b"], False),
        ("a 17s b\n", ["a … b"], True),
        ("  a\n", ["a"], True),
        ("", [], True),
        ("anything\n", [], False),
    ],
)
def test_output_is_compared_with_shown_lines(output: str, lines: list[str], expected: bool) -> None:
    assert is_shown(output, lines) is expected
