"""Create, update and disturb a LeaderWorkerSet live, as users do, and verify every step."""
