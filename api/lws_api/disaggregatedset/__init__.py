"""The DisaggregatedSet API.

In: nothing of the controller. Out: versions of its models and constants, one module each.
"""
