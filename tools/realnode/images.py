"""Compile the programs of a node, and build images from them, as archives in the cache."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.image.archive import is_kept
from tools.localcluster.build import cache_directory, ensure_built
from tools.localcluster.progress import Report
from tools.localcluster.recipe import (
    KUBERNETES_MODULE,
    KUBERNETES_VERSION,
    Target,
    kubernetes_linker_flags,
    plain_target,
)

CNI_PLUGINS = ("ptp", "host-local")

_SOURCES = Path(__file__).parent / "go"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEDIA = "application/vnd.oci.image"
_NAME = "io.containerd.image.name"
_GZIP = b"\x1f\x8b"
PAUSE = "localhost/pause:1"
COREDNS = "localhost/coredns:1"
MEMBERS = ("localhost/member:1", "localhost/member:2", "localhost/member:3")
"""One program, a process of a group (go/member/main.go), as images with different names, for rollouts."""
# The images of examples that need only the shape of groups. They contain our own program of this kind.
_EXAMPLES = ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.9")


TARGETS: tuple[Target, ...] = (
    Target(
        name="node",
        # The module of the control plane, so that common packages are compiled once.
        module=KUBERNETES_MODULE,
        package="./node",
        linker_flags=kubernetes_linker_flags(KUBERNETES_VERSION),
        programs=("kubelet", "kube-proxy"),
        sources=(KUBERNETES_MODULE / "node" / "main.go",),
    ),
    *(
        plain_target(name, _SOURCES / "containers", f"{_CONTAINERD}/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    plain_target("ptp", _SOURCES / "containers", f"{_CNI}/main/ptp"),
    plain_target("host-local", _SOURCES / "containers", f"{_CNI}/ipam/host-local"),
    *(plain_target(name, _SOURCES / name) for name in ("coredns", "pause", "member")),
)


def build_programs(report: Report) -> Mapping[str, Path]:
    """Return the binary of every program, built if needed. Raises BuildError or NoGoError."""
    return {
        program: ensure_built(target, cache_directory(), report) / program
        for target in TARGETS
        for program in target.programs
    }


@dataclass(frozen=True)
class SmallImage:
    """An image with a single program, and the names under which it is known."""

    names: tuple[str, ...]
    program: Path
    command: tuple[str, ...] = ()
    """Arguments before the container's; without them the program is started by its own name."""
    labels: dict[str, str] = field(default_factory=dict)
    ballast: bytes = b""
    """The content of a second file, for images that take time to pull."""


def write_archive(image: SmallImage, path: Path) -> None:
    """Write an image to an archive, as `write_layout` does."""
    entrypoint = f"/{image.program.name}"
    files = [(entrypoint[1:], image.program.read_bytes(), 0o755)]
    files += [("ballast", image.ballast, 0o644)] if image.ballast else []
    layer = _tar(files)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [entrypoint, *image.command], "WorkingDir": "/", "Labels": image.labels},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    write_layout(image.names, config, [layer], path)


def write_layout(names: Sequence[str], config: dict[str, Any], layers: Sequence[bytes], path: Path) -> None:
    """Write an image as an OCI layout in a tar file, which `ctr images import` and similar commands read."""
    described = _json(config)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor(described, "config.v1+json"),
            "layers": [_descriptor(layer, _kind(layer)) for layer in layers],
        }
    )
    named = [{**_descriptor(manifest, "manifest.v1+json"), "annotations": {_NAME: name}} for name in names]
    index = _json({"schemaVersion": 2, "manifests": named})
    files = [("oci-layout", _json({"imageLayoutVersion": "1.0.0"}), 0o644), ("index.json", index, 0o644)]
    blobs = (described, *layers, manifest)
    files += [(f"blobs/{_digest(blob).replace(':', '/')}", blob, 0o644) for blob in blobs]
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(_tar(files))
    unfinished.replace(path)


def _kind(layer: bytes) -> str:
    return "layer.v1.tar+gzip" if layer.startswith(_GZIP) else "layer.v1.tar"


def _tar(files: Sequence[tuple[str, bytes, int]]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def _descriptor(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def small_images(programs: Mapping[str, Path]) -> tuple[SmallImage, ...]:
    """Return the images that contain the compiled programs."""
    return (
        SmallImage((PAUSE, *_EXAMPLES), programs["pause"]),
        SmallImage((COREDNS,), programs["coredns"]),
        # Each is a separate image, as a new version would be.
        *(SmallImage((name,), programs["member"], labels={"name": name}) for name in MEMBERS),
    )


def write_archives(programs: Mapping[str, Path], cache: Path) -> Iterator[Path]:
    """Yield an archive for each image. Create those that `cache` does not contain completely."""
    cache.mkdir(parents=True, exist_ok=True)
    for image in small_images(programs):
        # The folder of a program is named by the hash of its sources.
        made_of = f"{image.names} {image.command} {image.program.resolve()}"
        archive = cache / f"image-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.tar"
        if not is_kept(archive):
            write_archive(image, archive)
        yield archive
