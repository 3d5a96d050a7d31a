"""How do requests reach the API server: kubeconfig, credentials, proxies, trust?"""
