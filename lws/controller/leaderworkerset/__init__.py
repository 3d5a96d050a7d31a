"""LeaderWorkerSet as the manager knows it: which changes wake its passes, which reviews it answers."""
