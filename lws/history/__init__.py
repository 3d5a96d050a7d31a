"""The history of a workload of any kind, as ControllerRevisions."""
