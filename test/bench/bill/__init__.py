"""What the control plane spends on a group of a rollout, and on whose behalf."""
