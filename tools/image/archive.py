"""Read the archive of an image, an OCI layout as builders save it, and check that it is complete."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.image.steps import ImageError

_REFERENCE = "org.opencontainers.image.ref.name"
_GZIP = b"\x1f\x8b"
_UNREADABLE = (tarfile.TarError, EOFError, KeyError, OSError, ValueError, zlib.error)


@dataclass(frozen=True)
class Image:
    """The content of an archive."""

    names: tuple[str, ...]
    """The names under which `ctr images import` and similar commands register the image."""
    config: dict[str, Any]
    """The configuration of the OCI specification: architecture, config.User, config.Labels, …"""
    layers: tuple[bytes, ...]
    """The layers as they are stored, compressed or not."""

    @property
    def compressed_size(self) -> int:
        """The number of bytes that a node pulls."""
        return sum(len(layer if layer.startswith(_GZIP) else zlib.compress(layer)) for layer in self.layers)

    def files(self) -> Iterator[tuple[str, tarfile.TarInfo, bytes]]:
        """Yield path without leading slash, entry, and content (links have none) of every file and link."""
        for layer in self.layers:
            unpacked = gzip.decompress(layer) if layer.startswith(_GZIP) else layer
            with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
                for entry in tar:
                    file = tar.extractfile(entry) if entry.isfile() else None
                    yield entry.name.removeprefix("./"), entry, file.read() if file else b""


def read_image(path: Path) -> Image:
    """Read an archive, and compare every part with its hash. Raises ImageError."""
    try:
        with tarfile.open(path) as tar:
            return _image_in(tar)
    except FileNotFoundError as error:
        raise ImageError(f"{path} is not there: make it with `make image`") from error
    except _UNREADABLE as error:
        raise ImageError(f"{_flaw(path, error)}: `make image` again") from error


def is_kept(path: Path) -> bool:
    """Report whether the cache holds a complete archive; log that an incomplete one is built again."""
    try:
        with tarfile.open(path) as tar:
            _image_in(tar)
    except FileNotFoundError:
        return False
    except _UNREADABLE as error:
        print(f"{_flaw(path, error)}: it is made again", flush=True)
        return False
    return True


def add_docker_manifest(path: Path) -> None:
    """Add the manifest that `docker load` reads to an OCI layout, unless the builder has done so."""
    with tarfile.open(path) as tar:
        if "manifest.json" in (name.removeprefix("./") for name in tar.getnames()):
            return
        descriptor = json.loads(_part(tar, "index.json"))["manifests"][0]
        manifest = json.loads(_blob(tar, descriptor["digest"]))
        parts = {
            "Config": _place(manifest["config"]["digest"]),
            "RepoTags": [descriptor["annotations"][_REFERENCE]],
            "Layers": [_place(layer["digest"]) for layer in manifest["layers"]],
        }
    content = json.dumps([parts]).encode()
    entry = tarfile.TarInfo("manifest.json")
    entry.size = len(content)
    with tarfile.open(path, "a") as tar:
        tar.addfile(entry, io.BytesIO(content))


def _flaw(path: Path, error: Exception) -> str:
    return f"{path} is truncated or no archive of an image ({' '.join(str(error).split())})"


def _image_in(tar: tarfile.TarFile) -> Image:
    index = json.loads(_part(tar, "index.json"))
    names, descriptor = [], index["manifests"][0]
    for key in ("io.containerd.image.name", _REFERENCE):
        names += [name for name in [descriptor.get("annotations", {}).get(key)] if name]
    manifest = json.loads(_blob(tar, descriptor["digest"]))
    while "manifests" in manifest:
        manifest = json.loads(_blob(tar, manifest["manifests"][0]["digest"]))
    config = json.loads(_blob(tar, manifest["config"]["digest"]))
    layers = tuple(_blob(tar, layer["digest"]) for layer in manifest["layers"])
    return Image(tuple(dict.fromkeys(names)), config, layers)


def _blob(tar: tarfile.TarFile, digest: str) -> bytes:
    algorithm, _, value = digest.partition(":")
    content = _part(tar, _place(digest))
    if hashlib.new(algorithm, content).hexdigest() != value:
        raise ValueError(f"{digest[:19]} is not what its name says")
    return content


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _part(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read()
