"""A real Kubernetes control plane with simulated nodes on this machine: `with LocalCluster() as cluster:`."""

from tools.linux import NotLinuxError
from tools.localcluster.access import ClusterAccess as ClusterAccess
from tools.localcluster.access import CommandError as CommandError
from tools.localcluster.api import Api as Api
from tools.localcluster.api import ApiError as ApiError
from tools.localcluster.build import BuildError as BuildError
from tools.localcluster.build import NoGoError as NoGoError
from tools.localcluster.cluster import COMPONENTS as COMPONENTS
from tools.localcluster.cluster import LocalCluster as LocalCluster
from tools.localcluster.component import ComponentError as ComponentError
from tools.localcluster.components import AUDIT_METADATA as AUDIT_METADATA
from tools.localcluster.components import Options as Options
from tools.localcluster.pods import Pods as Pods
from tools.localcluster.progress import Progress as Progress
from tools.localcluster.progress import Report as Report
from tools.localcluster.versions import UnknownVersionError

_OURS = (ApiError, BuildError, CommandError, ComponentError, NoGoError, NotLinuxError, UnknownVersionError)
FAILURES = (*_OURS, OSError)
"""Errors whose message alone says what is wrong and what to do."""
