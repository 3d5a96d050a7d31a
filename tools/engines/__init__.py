"""Engines that are not ours, as an image: what tests on a real node distribute over the pods of a group.

In: packages of Debian and of PyPI, locked. Out: an archive in the cache. It knows nothing of sets.
"""
