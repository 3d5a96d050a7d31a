"""How fully rollouts use their budget where pods take time to start."""
