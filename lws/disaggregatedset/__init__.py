"""Everything about one DisaggregatedSet. Decisions are pure: only `observe`, `registration` and `routing`
know the client, the store or the loop.
"""
