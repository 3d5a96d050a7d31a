"""`kubectl lws`: kubectl finds the commands, and shells complete them."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
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
    """The environment of a shell in which the package is installed."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for name, entry in scripts.items():
        module, _, function = entry.partition(":")
        path = tmp_path / name
        # The script that an installation writes.
        path.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "kubectl").symlink_to(cluster.binary("kubectl"))
    return {
        **os.environ,
        **environment(cluster.kubeconfig, cluster.workspace),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'api'}",
    }


def test_kubectl_runs_and_completes_the_plugin(world: World, shell: dict[str, str]) -> None:
    world.create(a_set("demo", replicas=1))
    settle(world, "demo")

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", *arguments]
        return subprocess.run(command, env=shell, capture_output=True, text=True, check=False)

    result = kubectl("lws", "status", "demo", "-n", world.namespace)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "settled")
    wrong = kubectl("lws", "undo")
    assert wrong.returncode == 2
    assert "kubectl lws undo --help" in wrong.stderr

    commands = kubectl("__complete", "lws", "re").stdout.splitlines()
    assert commands[1:] == ["resume\tResume the rollout of a paused set.", ":4"]
    options = ("-n", world.namespace)
    for words, candidates in {
        ("status", *options, "de"): ["demo", ":4"],
        ("pause", *options, "lws/de"): ["lws/demo", ":4"],
        ("history", "-n", world.namespace[:-1]): [world.namespace, ":4"],
    }.items():
        press_until(["kubectl", "__complete", "lws", *words], shell, candidates)


COMPLETERS = {
    "bash": """
source <(lws completion bash)
COMP_WORDS=({words}) COMP_CWORD={position}
"$(complete -p lws | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" lws
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    # zsh's widgets need a terminal, so the test reads what the function passes to them.
    "zsh": """
autoload -U compinit && compinit -u -D
source <(lws completion zsh)
compadd() {{ print -l -- "${{completions[@]}}"; }}
_describe() {{ print -l -- "${{(@)completions_with_descriptions%%:*}}"; }}
words=({words}) CURRENT=$(({position} + 1))
_lws_completion
""",
    "fish": """
lws completion fish | source
complete --do-complete {line} | sed 's/\\t.*//'
""",
}


@pytest.mark.parametrize("name", COMPLETERS)
def test_shells_complete_lws(world: World, shell: dict[str, str], name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    world.create(a_set("demo", replicas=0))
    settle(world, "demo")
    options = ["-n", world.namespace]
    for words, candidates in [
        (["re"], ["restart", "resume"]),
        (["status", *options, "de"], ["demo"]),
        (["undo", "demo", *options, "--to-revision", ""], ["1"]),
        (["history", "demo", "-n", world.namespace[:-1]], [world.namespace]),
        (["history", "demo", "-o", "j"], ["json"]),
    ]:
        typed = ["lws", *words]
        text = COMPLETERS[name].format(
            words=shlex.join(typed), position=len(words), line=shlex.quote(" ".join(typed))
        )
        flags = ["-f"] if name == "zsh" else []
        press_until([name, *flags, "-c", text], shell, candidates)


def press_until(command: list[str], variables: dict[str, str], candidates: list[str]) -> None:
    """Complete again until the candidates appear: completion does not wait for a slow cluster."""

    def shown() -> list[str]:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    eventually("the shell completes the command", shown, lambda lines: lines == candidates)
