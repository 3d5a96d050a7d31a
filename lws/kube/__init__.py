"""What anyone knows about Kubernetes objects: plain dicts in, answers out. Pure."""
