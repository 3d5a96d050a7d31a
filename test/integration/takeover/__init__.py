"""Sets that another controller made, and what becomes of them when ours takes over."""
