"""Measure on one real node how long groups do not serve: `make bench SHAPES=serving NODE=real`, as root.

Kubelet, containerd and processes are real. Images come from a registry in this process, which slows each pull
down to `PULL` seconds. All pods are on one node, so this cannot measure `node-return`.

Runs in the node's namespaces: `python -m tools.realnode python -m test.bench.serving_node RESULT`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from test.bench.progress import clocked
from test.bench.serving import (
    LOAD,
    NODE,
    PULL,
    Case,
    Object,
    Watch,
    leader_deleted,
    mean_down,
    measured,
    with_containers,
)
from tools.localcluster import LocalCluster
from tools.realnode.cluster import RealCluster
from tools.realnode.images import MEMBERS, SmallImage, write_archive
from tools.realnode.kit import Kit, read_kit

GRACE = 10

_PORT = 5055
_REPOSITORY = f"127.0.0.1:{_PORT}/server"
_BYTES_PER_SECOND = 10_000_000
_CHUNK = 250_000
_TAGS = itertools.count(1)


class _Processes(Watch):
    """Also record when processes of containers end. ended: times by pid."""

    def __init__(self, cluster: LocalCluster, size: int) -> None:
        super().__init__(cluster, size)
        self._running: set[int] = set()
        self.ended: dict[int, float] = {}

    def step(self, now: float, passed: float) -> list[Object]:
        running = {*_members()}
        self.ended |= dict.fromkeys(self._running - running, now)
        self._running = running
        return super().step(now, passed)

    def forget(self) -> None:
        super().forget()
        self.ended.clear()


def _members() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cmdline").read_bytes().startswith(b"/member\0serve"):
                yield int(path.name)


def _last_ended(watch: _Processes, began: float) -> float:
    return max(watch.ended.values()) - began


def _server(image: str, **environment: int) -> list[Object]:
    return [
        {
            "name": "server",
            "image": image,
            "args": ["serve"],
            "env": [{"name": name, "value": str(value)} for name, value in environment.items()],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
        }
    ]


def _spec(replicas: int, size: int, containers: list[Object]) -> Object:
    pod = {"terminationGracePeriodSeconds": GRACE, "containers": containers}
    return {
        "replicas": replicas,
        "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod}},
    }


def _new_image(api: Any) -> None:
    """Roll out an image that the node has never had."""
    with_containers(api, _server(f"{_REPOSITORY}:{next(_TAGS)}", MEMBER_WARMUP=round(LOAD)))


# The processes ignore SIGTERM until they are killed.
_DEAF = _spec(2, 2, _server(MEMBERS[0], MEMBER_WARMUP=round(LOAD), MEMBER_GRACE=10 * GRACE))
_PARALLEL = ("podTerminationPolicy", "Parallel")
CASES = (
    Case(
        f"real node, `podTerminationPolicy: Parallel`: the last process of a group ends (grace {GRACE} s)",
        _DEAF,
        _PARALLEL,
        leader_deleted,
        _last_ended,
    ),
    Case("real node, the same: the group is recreated", _DEAF, _PARALLEL, leader_deleted, mean_down),
    Case(
        "real node, `prewarm`: a group of a rollout to a new image",
        _spec(1, 1, _server(MEMBERS[0], MEMBER_WARMUP=round(LOAD))),
        ("rolloutStrategy", {"prewarm": {}}),
        _new_image,
        mean_down,
    ),
)


class _Registry(BaseHTTPRequestHandler):
    """Serve an image for each requested tag; no two images share a layer."""

    kit: Kit
    blobs: ClassVar[dict[str, bytes]] = {}
    manifests: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        self._answer(sends=True)

    def do_HEAD(self) -> None:
        self._answer(sends=False)

    def log_message(self, format: str, *arguments: Any) -> None:
        return

    def _answer(self, sends: bool) -> None:
        _, _, *where = self.path.split("/")
        if where in ([], [""]):
            self._send(b"{}", "application/json", "", sends)
            return
        kind, reference = where[-2:]
        digest = reference
        if kind == "manifests" and ":" not in reference:
            digest = self.manifests.get(reference) or self._store_manifest(reference)
        media = (
            "application/vnd.oci.image.manifest.v1+json"
            if kind == "manifests"
            else "application/octet-stream"
        )
        self._send(self.blobs[digest], media, digest, sends)

    def _send(self, body: bytes, media: str, digest: str, sends: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        for start in range(0, len(body) if sends else 0, _CHUNK):
            self.wfile.write(body[start : start + _CHUNK])
            time.sleep(_CHUNK / _BYTES_PER_SECOND)

    def _store_manifest(self, tag: str) -> str:
        path = self.kit.folder / "pulled.tar"
        ballast = os.urandom(round(PULL * _BYTES_PER_SECOND))
        write_archive(SmallImage((tag,), Path(self.kit.programs["member"]), ballast=ballast), path)
        with tarfile.open(path) as archive:
            files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
            read = {name: file.read() for name, file in files.items() if file is not None}
        path.unlink()
        for name, blob in read.items():
            if name.startswith("blobs/"):
                self.blobs[name.removeprefix("blobs/").replace("/", ":")] = blob
        digest: str = json.loads(read["index.json"])["manifests"][0]["digest"]
        self.manifests[tag] = digest
        return digest


@contextmanager
def _serving_images(kit: Kit) -> Iterator[None]:
    _Registry.kit = kit
    # Without this file, containerd would use HTTPS.
    hosts_file = kit.folder / "registries" / f"127.0.0.1:{_PORT}" / "hosts.toml"
    hosts_file.parent.mkdir(parents=True)
    hosts_file.write_text(f'server = "http://127.0.0.1:{_PORT}"\n')
    server = ThreadingHTTPServer(("127.0.0.1", _PORT), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def main(path: Path) -> int:
    """Add the figures to the result in `path`."""
    kit = read_kit()
    with RealCluster(kit) as cluster, _serving_images(kit):
        real = measured(cluster, CASES, _Processes, clocked())
    result = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**result, NODE: real}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
