"""Command lines as Slurm's manuals have them."""

from __future__ import annotations

import pytest

from hpcforge.slurm import commands


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            commands.update_nodes("w[1-2]", "DRAIN", "disk is full"),
            "scontrol update NodeName=w[1-2] State=DRAIN Reason=disk is full",
        ),
        (commands.update_nodes("w1", "RESUME"), "scontrol update NodeName=w1 State=RESUME"),
        (commands.show_node("w1"), "scontrol --oneliner show node w1"),
        (commands.list_nodes(["w2", "w1"]), "sinfo --noheader --Node --nodes=w[1-2] --format=%N|%T|%E"),
        (
            commands.create_reservation("test", ["w1", "w2"], "ops", 20, 3),
            "scontrol create reservation ReservationName=test StartTime=now Duration=20 Nodes=w[1-2] Users=ops "
            "Flags=PURGE_COMP=3",
        ),
        (
            commands.create_reservation("test", ["w1"], "ops", 20),
            "scontrol create reservation ReservationName=test StartTime=now Duration=20 Nodes=w1 Users=ops",
        ),
        (commands.delete_reservation("test"), "scontrol delete ReservationName=test"),
        (commands.comment_job("7", "alive"), "scontrol update JobId=7 Comment=alive"),
        (commands.cancel_jobs("7", "8"), "scancel 7 8"),
    ],
)
def test_a_command_line(command: list[str], line: str) -> None:
    assert " ".join(command) == line
