"""A real node for the local cluster: kubelet, containerd, runc, CNI, CoreDNS and kube-proxy, in namespaces.

In: a command, archives of images. Out: that command runs where the node is, and nothing of it is left
afterwards. It knows nothing of what is run on it.
"""
