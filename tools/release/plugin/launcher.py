#!/usr/bin/env python3
"""kubectl lws: the first call installs its packages beside this file, or in the user's cache.

Packages come from the wheels and locked requirements beside it, else from PyPI or a mirror as pip is
configured. Exits with the code of `lws`, or with 1 and a line that says what is missing.
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
        wanted = ".".join(map(str, LEAST))
        return fail(f"needs Python {wanted} or newer, and python3 is {sys.version.split()[0]}")
    try:
        programs = environment() / "bin"
    except (OSError, subprocess.CalledProcessError) as error:
        return fail(f"its packages could not be installed: {error}")
    # By the interpreter, not by itself: its first line says where the environment was made, not where it is.
    arguments = [str(programs / "python"), str(programs / "kubectl-lws"), *sys.argv[1:]]
    os.execv(arguments[0], arguments)


def environment() -> Path:
    """The virtual environment with the packages, made where there is none."""
    for parent in (HERE, cache() / "kubectl-lws" / HERE.name):
        found = parent / "environment"
        if found.exists():
            return found
    parent = HERE if os.access(HERE, os.W_OK) else cache() / "kubectl-lws" / HERE.name
    parent.mkdir(parents=True, exist_ok=True)
    print("kubectl lws: installing its packages, once", file=sys.stderr, flush=True)
    # Finished first and named then: a call that is cut short, or two at once, leave nothing half-made.
    unfinished = Path(tempfile.mkdtemp(prefix=".environment-", dir=parent))
    try:
        install_into(unfinished)
        try:
            unfinished.rename(parent / "environment")
        except OSError:
            # Somebody was faster.
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
    # Nothing may come between the output of a command and its reader.
    subprocess.run(command, stdout=sys.stderr, check=True)


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def fail(why: str) -> int:
    print(f"kubectl lws: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
