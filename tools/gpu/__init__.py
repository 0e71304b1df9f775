"""One command that runs every claim that one NVIDIA GPU can settle: `python -m tools.gpu_report`."""
