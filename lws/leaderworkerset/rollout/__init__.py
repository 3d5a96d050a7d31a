"""The rollout of a set, in numbers only."""
