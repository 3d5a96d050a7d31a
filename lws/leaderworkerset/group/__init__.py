"""One group: a leader pod, its workers and what belongs to them."""
