"""The controller runtime, for workloads of any kind."""
