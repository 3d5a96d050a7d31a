"""Test DisaggregatedSets on a cluster: build manifests, read their state and check what is promised about
them.
"""
