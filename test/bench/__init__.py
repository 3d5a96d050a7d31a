"""Benchmarks of the product: speed, CPU, memory and requests, compared with the bare control plane."""
