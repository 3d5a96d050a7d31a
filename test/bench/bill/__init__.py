"""What a group costs the control plane during a rollout, by purpose."""
