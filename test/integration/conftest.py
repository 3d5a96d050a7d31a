"""The cluster that these tests share; see test/cluster.py."""

from test.cluster import _local_only, _new_enough, _our_simulation, cluster, local_cluster

__all__ = ["_local_only", "_new_enough", "_our_simulation", "cluster", "local_cluster"]
