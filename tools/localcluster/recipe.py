"""Define what is compiled, by which command, and under which cache key."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster.versions import DEFAULT, RELEASES

KUBERNETES_VERSION = RELEASES[DEFAULT]
HELM_VERSION = "3.22.0"
MINIMUM_GO = (1, 26)

_SOURCES = Path(__file__).parent / "go"
KUBERNETES_MODULE = _SOURCES / "kubernetes"
"""The Go module of the newest version. Its package `node` builds the programs that run on a node."""
_PINNED_FILES = ("go.mod", "go.sum", "main.go")
_LINKER_FLAGS = "-s -w"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
KUEUE_MODULE = "sigs.k8s.io/kueue"
_PROMETHEUS = "github.com/prometheus/prometheus/cmd"


@dataclass(frozen=True)
class Target:
    """One binary.

    module, package: the Go module, and its package `main` or a file in another directory.
    programs: the names under which it is called.
    sources: files of other directories from which it is built.
    tags: build tags, which may leave parts out.
    """

    name: str
    module: Path
    package: str
    linker_flags: str
    programs: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    tags: str = ""


def kubernetes_linker_flags(version: str) -> str:
    """Return linker flags that make the control plane and kubectl report `version` ("1.37.2")."""
    major, minor, _ = version.split(".")
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    settings = [f"-X {package}.{key}={fact}" for package in _VERSION_PACKAGES for key, fact in facts.items()]
    return " ".join([_LINKER_FLAGS, *settings])


def helm_linker_flags(version: str, kubernetes_version: str) -> str:
    """Return linker flags that make helm report `version`, and render offline for `kubernetes_version`."""
    major, minor, _ = kubernetes_version.split(".")
    settings = [f"-X helm.sh/helm/v3/internal/version.version=v{version}"]
    for package in ("chartutil", "lint/rules"):
        settings.append(f"-X helm.sh/helm/v3/pkg/{package}.k8sVersionMajor={major}")
        settings.append(f"-X helm.sh/helm/v3/pkg/{package}.k8sVersionMinor={minor}")
    return " ".join([_LINKER_FLAGS, *settings])


def plain_target(name: str, module: Path, package: str = ".", tags: str = "") -> Target:
    """Return a target with one program that reports no version."""
    return Target(name, module, package, _LINKER_FLAGS, (name,), tags=tags)


_HELM = Target(
    name="helm",
    module=_SOURCES / "helm",
    package="helm.sh/helm/v3/cmd/helm",
    linker_flags=helm_linker_flags(HELM_VERSION, KUBERNETES_VERSION),
    programs=("helm",),
)
KWOK = plain_target("kwok", _SOURCES / "kwok", "sigs.k8s.io/kwok/cmd/kwok")

KUEUE = plain_target("kueue", _SOURCES / "kueue", f"{KUEUE_MODULE}/cmd/kueue")
FOR_TESTS: tuple[Target, ...] = (
    *(
        # Service discovery of clouds is left out: it is most of what Prometheus depends on.
        plain_target(program, _SOURCES / "prometheus", f"{_PROMETHEUS}/{program}", tags="remove_all_sd")
        for program in ("promtool", "prometheus")
    ),
    KUEUE,
    plain_target("gitops", _SOURCES / "gitops"),
)
"""The targets that only tests of alerts, dashboards, GitOps and neighbours need, built when first needed."""


def targets(minor: str = DEFAULT) -> tuple[Target, ...]:
    """Return the targets of a local cluster of this version ("1.32"); all versions have the same programs."""
    if minor == DEFAULT:
        kubernetes = Target(
            name="kubernetes",
            module=KUBERNETES_MODULE,
            package=".",
            linker_flags=kubernetes_linker_flags(KUBERNETES_VERSION),
            programs=(*_CONTROL_PLANE, "kwok"),
        )
        return (kubernetes, _HELM)
    kubernetes = Target(
        name=f"kubernetes-{minor}",
        module=_SOURCES / f"kubernetes-{minor}",
        package="../control-plane/main.go",
        linker_flags=kubernetes_linker_flags(RELEASES[minor]),
        programs=_CONTROL_PLANE,
        sources=(_SOURCES / "control-plane" / "main.go",),
    )
    # kwok has the same version everywhere, so that simulated nodes behave in the same way.
    return (kubernetes, KWOK, _HELM)


def target_of(program: str, minor: str = DEFAULT) -> Target:
    """Return the target that contains a program; raises KeyError if there is none."""
    for target in (*targets(minor), *FOR_TESTS):
        if program in target.programs:
            return target
    raise KeyError(f"no such program: {program}; known are {', '.join(all_programs())}")


def all_programs() -> tuple[str, ...]:
    """Return the names of all programs of a local cluster, which are the same for every version."""
    return tuple(program for target in targets() for program in target.programs)


def build_command(go: Path, target: Target, output: Path) -> list[str]:
    """Return the command that builds `target` into `output` and names every compiled package on stderr."""
    flags = ["-v", "-trimpath", "-mod=readonly", *_tags(target), "-ldflags", target.linker_flags]
    return [str(go), "build", *flags, "-o", str(output), target.package]


def packages_command(go: Path, target: Target) -> list[str]:
    """Return the command that prints a line for each package of `target`, and downloads sources as needed."""
    return [str(go), "list", "-mod=readonly", *_tags(target), "-deps", target.package]


def module_command(go: Path, module: str) -> list[str]:
    """Return the command that downloads the pinned version of `module` and prints its location as JSON."""
    return [str(go), "mod", "download", "-json", module]


def go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with changes, so that Go needs no C compiler and downloads no other Go."""
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
    return {**environment, **settings}


def cache_key(target: Target, platform_name: str) -> str:
    """Return 16 hexadecimal digits that change with the pinned files, sources, command or platform."""
    return digest_of(_key_parts(target, platform_name))


def digest_of(parts: Iterable[bytes]) -> str:
    """Return 16 hexadecimal digits that change with any of the parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]


def platform_name() -> str:
    """Return the operating system and processor for which binaries are built, such as "linux-x86_64"."""
    return f"{sys.platform}-{platform.machine()}"


def _tags(target: Target) -> list[str]:
    return [f"-tags={target.tags}"] if target.tags else []


def _key_parts(target: Target, platform_name: str) -> Iterable[bytes]:
    yield platform_name.encode()
    yield " ".join([target.package, target.linker_flags, *target.programs, *_tags(target)]).encode()
    for name in _PINNED_FILES:
        path = target.module / name
        yield path.read_bytes() if path.exists() else b""
    for source in target.sources:
        yield source.read_bytes()
