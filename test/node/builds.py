"""Load another build of the product into the node: the same files with another commit, under another tag."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.image.archive import read_image
from tools.realnode.cluster import RealCluster
from tools.realnode.images import write_layout
from tools.realnode.kit import read_kit

COMMIT = "0123456789abcdef0123456789abcdef01234567"

_VARIABLE = "LWS_GIT_COMMIT"


def load_another_build(cluster: RealCluster, name: str) -> None:
    """Load an image of this name into the node that claims to be built from COMMIT."""
    (archive,) = (path for path in map(Path, read_kit().archives) if path.name.startswith("current-"))
    image = read_image(archive)
    settings = image.config["config"]
    variables = [variable for variable in settings["Env"] if not variable.startswith(f"{_VARIABLE}=")]
    assert len(variables) + 1 == len(settings["Env"]), settings["Env"]
    config = {**image.config, "config": {**settings, "Env": [*variables, f"{_VARIABLE}={COMMIT}"]}}
    with tempfile.TemporaryDirectory() as folder:
        write_layout([name], config, image.layers, Path(folder) / "other.tar")
        cluster.load(Path(folder) / "other.tar")
