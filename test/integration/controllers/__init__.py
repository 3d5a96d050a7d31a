"""The running product manages sets on a real control plane.

This is a package so that one release of the chart and one manager serve all of its tests, and are removed
before other tests begin.
"""
