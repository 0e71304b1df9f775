"""GPUs as their drivers report them on a node: a file for each maker."""
