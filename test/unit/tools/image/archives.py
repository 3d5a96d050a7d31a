"""Small image archives, in the format that builders save."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def tar_of(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def write_archive(path: Path, files: Mapping[str, bytes], name: str = "localhost/lws:0.1.0") -> Path:
    """Write an OCI layout with one layer."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    config = blob(json.dumps({"architecture": "amd64", "config": {"User": "65532:65532"}}).encode())
    manifest = blob(json.dumps({"config": config, "layers": [blob(gzip.compress(tar_of(files)))]}).encode())
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    index = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    path.write_bytes(tar_of({"index.json": index, **blobs}))
    return path
