"""The running product manages sets on a real control plane as promised.

A package, so that one release of the chart and one manager serve all of its tests and are removed before
others begin.
"""
