"""A real node for the local cluster: kubelet, containerd, runc, CNI, CoreDNS and kube-proxy, in namespaces.

A command runs inside the namespaces, and nothing of them is left afterwards.
"""
