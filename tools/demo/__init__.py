"""The demo: a LeaderWorkerSet is created, updated, loses a pod and recovers, live, and every step is
verified.

The demo uses the product as users do, through chart, API and labels.
"""
