"""Whether drivers, kernels, libraries and GPUs go together, and the nearest that do. Pure."""
