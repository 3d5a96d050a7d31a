"""A real Kubernetes control plane with simulated nodes on this machine: `with LocalCluster() as cluster:`."""

from tools.linux import NotLinuxError
from tools.localcluster.access import ClusterAccess, CommandError
from tools.localcluster.api import Api, ApiError
from tools.localcluster.build import BuildError, NoGoError
from tools.localcluster.cluster import COMPONENTS, LocalCluster
from tools.localcluster.component import ComponentError
from tools.localcluster.components import AUDIT_METADATA, Options
from tools.localcluster.pods import Pods, PodView
from tools.localcluster.progress import Progress, Report
from tools.localcluster.versions import UnknownVersionError

_OURS = (ApiError, BuildError, CommandError, ComponentError, NoGoError, NotLinuxError, UnknownVersionError)
FAILURES = (*_OURS, OSError)
"""Errors whose message alone says what is wrong and what to do."""

__all__ = [
    "AUDIT_METADATA",
    "COMPONENTS",
    "FAILURES",
    "Api",
    "ApiError",
    "BuildError",
    "ClusterAccess",
    "CommandError",
    "ComponentError",
    "LocalCluster",
    "NoGoError",
    "Options",
    "PodView",
    "Pods",
    "Progress",
    "Report",
    "UnknownVersionError",
]
