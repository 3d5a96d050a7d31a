"""Sets that another controller created, and what happens to them when our controller takes over."""
