"""How typed clients write pod templates down, and what the API server fills in."""
