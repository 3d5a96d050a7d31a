"""The demo: a LeaderWorkerSet comes up, is updated, loses a pod and recovers, live, every step verified.

In: this machine. Out: what happens, in the terminal. The product is seen as users see it: chart, API, labels.
"""
