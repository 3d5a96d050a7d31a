"""The rollout of one slice, in numbers only: from one revision, or number of groups, to another."""
