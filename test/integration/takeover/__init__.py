"""Sets that another controller created, and what happens to them when ours takes over."""
