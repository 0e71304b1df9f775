"""Command lines of scontrol, sinfo and scancel; those of squeue are in `jobs`."""

from __future__ import annotations

from collections.abc import Sequence

from hpcforge.blueprint.hostlist import fold

SINFO_FORMAT = "%N|%T|%E"  # the columns that `nodes.parse_sinfo` reads


def update_nodes(nodes: str, state: str, reason: str = "") -> list[str]:
    """Give these nodes (a hostlist) a state, such as DRAIN or RESUME; Slurm asks for a reason where it drains."""
    return ["scontrol", "update", f"NodeName={nodes}", f"State={state}", *([f"Reason={reason}"] if reason else [])]


def show_node(node: str) -> list[str]:
    """Print a node as one line."""
    return ["scontrol", "--oneliner", "show", "node", node]


def list_nodes(nodes: Sequence[str]) -> list[str]:
    """Print state and reason of these nodes, as `nodes.parse_sinfo` reads them."""
    return ["sinfo", "--noheader", "--Node", f"--nodes={fold(nodes)}", f"--format={SINFO_FORMAT}"]


def create_reservation(name: str, nodes: Sequence[str], user: str, minutes: int, purge_min: int = 0) -> list[str]:
    """Reserve nodes from now on. `purge_min`: minutes without a job after which it ends; 0 for never."""
    return [
        *("scontrol", "create", "reservation", f"ReservationName={name}", "StartTime=now", f"Duration={minutes}"),
        *(f"Nodes={fold(nodes)}", f"Users={user}", *([f"Flags=PURGE_COMP={purge_min}"] if purge_min else [])),
    ]


def delete_reservation(name: str) -> list[str]:
    """Remove a reservation; its jobs go on."""
    return ["scontrol", "delete", f"ReservationName={name}"]


def comment_job(job_id: str, comment: str) -> list[str]:
    """Replace the comment of a job."""
    return ["scontrol", "update", f"JobId={job_id}", f"Comment={comment}"]


def cancel_jobs(*job_ids: str) -> list[str]:
    """Cancel jobs."""
    return ["scancel", *job_ids]
