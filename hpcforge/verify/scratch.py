"""The scratch folder that launches of a smoke test share: where it is made, and the commands that make and remove it.

The account of the tests makes and removes it, so neither follows anything that another account can move: it is made
with a random name and mode 0700, below a folder that only root or this account can change. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpcforge.cluster.model import Cluster
from hpcforge.verify.submit import PATH, Launch

LIMIT_S = 60  # for one of the commands
LOCAL = ("/tmp",)  # noqa: S108  # root's or this job's; the name is random, and is taken only if it is free


def shared_parents(cluster: Cluster, nodes: Sequence[str], user: str) -> tuple[str, ...]:
    """The folders where it may be made on storage that all these nodes mount, the user's own first."""
    mounts = [system.mount for system in cluster.shared_by(nodes)]
    return (*(f"{mount}/{user}" for mount in mounts), *mounts)


# Arguments: its name, and the folders where it may be made. The first is taken that is root's with the sticky bit, or
# this account's and closed to others, in one of root's that no other can change. What a killed run left there a day ago
# is removed.
_MAKE = """\
umask 077
echo "{\\"event\\": \\"node\\", \\"host\\": \\"$SLURMD_NODENAME\\"}"
name=$1 me=$(id -u) number=0; shift
about() { [ ! -L "$1" ] && stat -c '%u %A' -- "$1/" 2>/dev/null; }
safe() {
  case $(about "$1") in
    "0 "d????????[tT]) return 0 ;;
    "$me "d????-??-?) case $(about "${1%/*}") in "0 "d????????[tT]|"0 "d????-??-?) return 0 ;; esac ;;
  esac
  return 1
}
for parent in "$@"; do
  if safe "$parent" && mkdir -m 700 -- "$parent/$name"; then
    find "$parent" -mindepth 1 -maxdepth 1 -name 'hpcforge-scratch.*' ! -name "$name" -user "$me" -mtime +1 \\
      -exec rm -rf -- {} + 2>/dev/null
    echo "{\\"event\\": \\"scratch\\", \\"number\\": $number}"
    exit 0
  fi
  number=$((number + 1))
done
echo "none of these takes a folder of $(id -un): $*" >&2
exit 73
"""
REMOVE = 'rm -rf -- "$1"'


def make(job: Launch, job_id: str, name: str, parents: Sequence[str], *, shared: bool) -> list[str]:
    """The command that makes it: on the first node where it is `shared`, else on each."""
    return _on_nodes(job, job_id, shared, _MAKE, name, *parents)


def remove(job: Launch, job_id: str, path: str, *, shared: bool) -> list[str]:
    """The command that removes it from where it was made."""
    return _on_nodes(job, job_id, shared, REMOVE, path)


def _on_nodes(job: Launch, job_id: str, shared: bool, *script: str) -> list[str]:
    nodes = job.nodes[:1] if shared else job.nodes
    count, names = len(nodes), ",".join(node.name for node in nodes)
    return [
        *("timeout", "--kill-after=15", str(LIMIT_S), "srun", f"--jobid={job_id}", "--overlap", f"--nodes={count}"),
        *(f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={names}", f"--mem={job.memory_mib}M", "--mpi=none"),
        *("--chdir=/", "--label", "--input=none", f"--export=PATH={PATH}", "/bin/sh", "-c", script[0], "hpcforge"),
        *script[1:],
    ]
