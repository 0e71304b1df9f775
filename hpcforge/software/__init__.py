"""Compatibility of drivers, kernels, libraries and GPUs, and the nearest compatible set. Pure."""
