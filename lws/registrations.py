"""The kinds of workload that the manager serves."""

from __future__ import annotations

from lws.disaggregatedset import registration as disaggregatedset
from lws.leaderworkerset import registration as leaderworkerset

REGISTRATIONS = (leaderworkerset.REGISTRATION, disaggregatedset.REGISTRATION)
"""All registrations, in the order in which their routes and fields are evaluated."""
