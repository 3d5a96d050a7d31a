"""The history of workloads of any kind, recorded in ControllerRevisions."""
