"""The Kubernetes types that our kinds embed: a pinned extract of OpenAPI, and structural schemas from it."""
