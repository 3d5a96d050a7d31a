"""A real node for the local cluster: kubelet, containerd, runc, CNI, CoreDNS and kube-proxy, in namespaces.

A command runs inside them, and nothing is left of them afterwards.
"""
