#!/usr/bin/env python3
"""Launch kubectl lws. The first call installs its packages beside this file, or in the user's cache.

Packages come from the wheels and locked requirements beside this file, and from PyPI or a mirror as
configured for pip. The exit code is the code of `lws`, or 1 with a line that says what is missing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEAST = (3, 11)


def main() -> int:
    if sys.version_info < LEAST:
        minimum = ".".join(map(str, LEAST))
        return fail(f"needs Python {minimum} or newer, and python3 is {sys.version.split()[0]}")
    try:
        programs = environment() / "bin"
    except (OSError, subprocess.CalledProcessError) as error:
        return fail(f"its packages could not be installed: {error}")
    # The interpreter is called explicitly: the first line of the script names the path at which the
    # environment was created, not its present path.
    arguments = [str(programs / "python"), str(programs / "kubectl-lws"), *sys.argv[1:]]
    os.execv(arguments[0], arguments)


def environment() -> Path:
    """Return the virtual environment with the packages, and create it if it does not exist."""
    for parent in (HERE, cache() / "kubectl-lws" / HERE.name):
        directory = parent / "environment"
        if directory.exists():
            return directory
    parent = HERE if os.access(HERE, os.W_OK) else cache() / "kubectl-lws" / HERE.name
    parent.mkdir(parents=True, exist_ok=True)
    print("kubectl lws: installing its packages, once", file=sys.stderr, flush=True)
    # The environment gets its name when it is complete, so that interrupted or concurrent calls leave no
    # partial one.
    unfinished = Path(tempfile.mkdtemp(prefix=".environment-", dir=parent))
    try:
        install_into(unfinished)
        try:
            unfinished.rename(parent / "environment")
        except OSError:
            # Another call was faster.
            if not (parent / "environment").exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return parent / "environment"


def install_into(directory: Path) -> None:
    run([sys.executable, "-m", "venv", str(directory)])
    python = str(directory / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "--requirement", str(HERE / "requirements.txt")])
    wheels = sorted(str(path) for path in (HERE / "wheels").glob("*.whl"))
    run([*pip, "--no-deps", "--no-index", *wheels])


def run(command: list[str]) -> None:
    # pip must not write to stdout, which a reader of the command's output parses.
    subprocess.run(command, stdout=sys.stderr, check=True)


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def fail(why: str) -> int:
    print(f"kubectl lws: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
