"""The demo: a LeaderWorkerSet comes up, is updated, loses a pod and recovers, live and with every step verified.

In: this machine. Out: what happens, in the terminal. It sees the product as a user does: through its chart, its
API and its labels.
"""
