"""Does the running product do with sets what it promises, on a real control plane?

A package, so that one release of the chart and one manager serve all of its tests and are gone before others
begin.
"""
