"""How fully rollouts use their budget if pods take time to start."""
