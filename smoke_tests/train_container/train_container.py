"""train_ddp in a container: each rank's root file system must be the image, and hide nothing that training needs.

    srun ch-run -b /opt/hpcforge:/opt/hpcforge IMAGE -- PYTHON -m torch.distributed.run ... train_container.py

The image is that of node_image.py, which marks it. PyTorch and this program are bound into it. On a node with GPUs,
ranks that do not see them have a wrong result: on CPUs they would train all the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import train_ddp
from ranks import Job, Turn, main

MARK = Path("/etc/hpcforge-image")
GPU = Path("/dev/nvidia0")


def run(job: Job, options: argparse.Namespace) -> None:
    """Compare the place with a container, then train."""
    inside = MARK.is_file() and len(MARK.read_text().split()) > 1
    if not inside:
        job.wrong("root file system", "an image", "the node's own")
    seen = job.device.type == "cuda" or not GPU.exists()
    if not seen:
        job.wrong("GPUs in the container", "those of the node", "none")
    job.agree(inside and seen)
    train_ddp.run(job, options)


def parser() -> argparse.ArgumentParser:
    """The options of train_ddp."""
    return train_ddp.parser()


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("train_container", alone.json, lambda: (alone, run))])
