"""The transport to the API server: kubeconfig, credentials, proxies, trust."""
