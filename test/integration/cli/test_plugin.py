"""`kubectl lws`: kubectl finds the commands, and shells complete them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from test.harness.groups import settle
from test.harness.manifests import a_set
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import ClusterAccess
from tools.localcluster.access import environment

ROOT = Path(__file__).parents[3]


@pytest.fixture
def shell(cluster: ClusterAccess, tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which the plugin is installed, with the completion that the guide gives."""
    written = {
        # What an installation writes.
        "kubectl-lws": f"#!{sys.executable}\nfrom lws.cli import main\nmain()\n",
        "kubectl_complete-lws": _from_guide("kubectl_complete-lws"),
    }
    for name, text in written.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "kubectl").symlink_to(cluster.binary("kubectl"))
    return {
        **os.environ,
        **environment(cluster.kubeconfig, cluster.workspace),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'api'}",
    }


def _from_guide(name: str) -> str:
    """The script that the guide tells people to put on their path."""
    guide = (ROOT / "docs" / "reference" / "cli.md").read_text()
    found = re.search(rf"`{name}`.*?```sh\n(.*?)```", guide, re.DOTALL)
    assert found is not None
    return found[1]


def test_kubectl_lws(world: World, shell: dict[str, str]) -> None:
    world.create(a_set("demo", replicas=1))
    settle(world, "demo")

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", *arguments]
        return subprocess.run(command, env=shell, capture_output=True, text=True, check=False)

    said = kubectl("lws", "status", "demo", "-n", world.namespace)
    assert (said.returncode, said.stdout.splitlines()[-1]) == (0, "settled")
    wrong = kubectl("lws", "status")
    assert wrong.returncode == 2
    assert "kubectl lws status" in wrong.stderr

    commands = kubectl("__complete", "lws", "re").stdout.split()
    assert commands[:2] == ["restart", "resume"]
    # Who presses a key does not wait for a slow cluster, and presses it again.
    complete = ("__complete", "lws", "status", "-n", world.namespace, "de")
    eventually(
        "kubectl completes the name",
        lambda: kubectl(*complete).stdout.split(),
        lambda names: names[:1] == ["demo"],
    )


BASH = """
eval "$(_LWS_COMPLETE=bash_source lws)"
COMP_WORDS=({words}) COMP_CWORD={position}
"$(complete -p lws | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" lws
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
autoload -U compinit && compinit -u -D
eval "$(_LWS_COMPLETE=zsh_source lws)"
whence -w _lws_completion
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["re"], ["restart", "resume"]),
        (["status", "-n", "{namespace}", "de"], ["demo"]),
        (["undo", "demo", "-n", "{namespace}", "--to-revision", ""], ["1"]),
    ],
    ids=["commands", "sets", "revisions"],
)
def test_shells_complete_lws(
    world: World, shell: dict[str, str], tmp_path: Path, words: list[str], found: list[str]
) -> None:
    program = tmp_path / "lws"
    program.write_text(f"#!{sys.executable}\nfrom lws.cli import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if "de" in words or "demo" in words:
        world.create(a_set("demo", replicas=0))
        settle(world, "demo")
    given = ["lws", *(word.format(namespace=world.namespace) for word in words)]

    # bash, and what it makes of the answer.
    text = BASH.format(words=shlex.join(given), position=len(given) - 1)
    ask_until(["bash", "-c", text], shell, lambda said: said.split() == found)

    # zsh asks in another way: triples of kind, value and help.
    asked = {
        "_LWS_COMPLETE": "zsh_complete",
        "COMP_WORDS": shlex.join(given),
        "COMP_CWORD": str(len(given) - 1),
    }
    ask_until(["lws"], {**shell, **asked}, lambda said: said.splitlines()[1::3] == found)


def ask_until(command: list[str], variables: dict[str, str], accept: Callable[[str], bool]) -> None:
    """Who presses a key does not wait for a slow cluster, and presses it again."""

    def said() -> str:
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout

    eventually("the shell completes it", said, accept)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_the_script(shell: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "lws"
    program.write_text(f"#!{sys.executable}\nfrom lws.cli import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    done = subprocess.run(["zsh", "-f", "-c", ZSH], env=shell, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["_lws_completion:", "function"]
