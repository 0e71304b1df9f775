"""Which nodes users' jobs hold, so that no test can start there."""

from __future__ import annotations

from collections.abc import Iterable

from hpcforge.blueprint import hostlist
from hpcforge.verify.head import Head
from hpcforge.verify.jobs import QUERY_S
from hpcforge.verify.submit import JOB_NAME
from hpcforge.verify.transcript import clean


def busy(head: Head, names: Iterable[str], run_as: str) -> dict[str, str]:
    """The nodes among these on which users' jobs run, each with one of them: "job 20, ada's train".

    Empty if Slurm is silent. `run_as` is the account of test jobs, which are no user's; anybody may use their names.

    Tests take whole nodes, so one job of any size is enough. A job that only completes is waited for.
    """
    wanted = set(names)
    answer = head.run(
        ["squeue", "--noheader", "--states=RUNNING,SUSPENDED,CONFIGURING", "--format=%A|%u|%j|%N"], timeout_s=QUERY_S
    )
    found: dict[str, str] = {}
    for line in answer.stdout.splitlines():
        row = line.strip().split("|", 2)
        name, bar, nodes = row[2].rpartition("|") if len(row) == 3 else ("", "", "")
        if not bar or (row[1] == run_as and name.startswith(JOB_NAME)):
            continue
        try:
            holds = hostlist.expand(nodes)
        except hostlist.HostlistError:
            continue
        for node in holds:
            if node in wanted:
                found.setdefault(node, clean(f"job {row[0]}, {row[1]}'s {name}"))
    return found
