"""The types of Kubernetes that our kinds embed: a pinned extract of its OpenAPI document, and structural
schemas built from it.
"""
