"""A step that ends soon after its job. Pure.

srun asks ever more seldom, up to once a minute, whether a step may begin, and gives tasks on a dead node half a minute
to end. So the head looks at the job meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

POLL_S = 1  # how often the head asks for the job's state
GRACE_S = 1  # for srun to say its last words, once the job is over

# timeout(1), with which the command begins, makes a process group: what is in it ends as a whole. A squeue that gives
# no answer says nothing of the job.
_WATCHED = f"""\
job=$1; shift
"$@" &
step=$!
(
  while sleep {POLL_S}; do
    state=$(squeue --noheader --states=all --jobs="$job" --format=%T 2>/dev/null) || continue
    case $state in ''|PENDING|CONFIGURING|RUNNING|SUSPENDED|RESIZING) continue ;; esac
    sleep {GRACE_S}
    kill -s KILL -- "-$step"
    exit
  done
) </dev/null >/dev/null 2>&1 &
watch=$!
wait "$step"
ended=$?
kill "$watch" 2>/dev/null
exit "$ended"
"""


def watched(number: str, command: Sequence[str]) -> list[str]:
    """The command, which has to begin with timeout(1), such that it ends seconds after the job does, with 137."""
    return ["sh", "-c", _WATCHED, "sh", number, *command]
