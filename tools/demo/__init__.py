"""The demo: a LeaderWorkerSet comes up, is updated, loses a pod and recovers, live, every step verified.

It uses the product as users do: chart, API and labels.
"""
