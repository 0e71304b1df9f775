"""Run the launches of a test in its allocation, one after the other, and judge the test by all of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hpcforge.cluster.model import Cluster
from hpcforge.errors import ExpectedError
from hpcforge.launchers import LAUNCHERS
from hpcforge.verify.attribution import Blame, blamed, last_line
from hpcforge.verify.head import Completed, Head
from hpcforge.verify.job_end_reason import end_of
from hpcforge.verify.jobs import HeldAllocation
from hpcforge.verify.measurements import headline, missed, numbers, unreported
from hpcforge.verify.step_output import clean, port_of, scratch_of
from hpcforge.verify.step_verdict import judge, unheard
from hpcforge.verify.submit import PATH, PORT_S, Launch, free_port, srun, steps
from hpcforge.verify.verdicts import LaunchVerdict, Verdict, spread

# The scratch folder that launches of a smoke test share: its place, and the commands that make and remove it.
#
# The account of the tests makes and removes it, so neither follows a path that another account can move: it has a
# random name and mode 0700, below a folder that only root or this account can change.
LIMIT_S = 60  # for one of the commands
LOCAL = ("/tmp",)  # noqa: S108  # root's or this job's; the name is random, and is used only if it is free


def shared_parents(cluster: Cluster, nodes: Sequence[str], user: str) -> tuple[str, ...]:
    """Return the possible parents on storage that all these nodes mount, the user's own first."""
    mounts = [system.mount for system in cluster.shared_by(nodes)]
    return (*(f"{mount}/{user}" for mount in mounts), *mounts)


# Arguments: its name, and the possible parents. The first safe one is used: root's with the sticky bit, or this
# account's and closed to others, in one of root's that others cannot change. It also removes the folder that a killed
# run left there a day ago.
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
    """Return the command that makes it: on the first node where it is `shared`, else on each."""
    return _on_nodes(job, job_id, shared, _MAKE, name, *parents)


def remove(job: Launch, job_id: str, path: str, *, shared: bool) -> list[str]:
    """Return the command that removes it from where it was made."""
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


# A step that ends soon after its job.
#
# srun asks at growing intervals, up to a minute, whether a step may begin, and gives tasks on a dead node half a minute
# to end. So the head reads the job's state meanwhile.
POLL_S = 1  # how often the head asks for the job's state
GRACE_S = 1  # for the last output of srun, once the job is over

# timeout(1), the first word of the command, makes a process group, which ends as a whole. A squeue without an answer
# does not show the job's state.
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
    """Return the command, which must begin with timeout(1), so that it ends seconds after the job does, with 137."""
    return ["sh", "-c", _WATCHED, "sh", number, *command]


CUT_OFF_S = 45.0  # a step is killed on the head after its time limit; the connection waits this much longer

Progress = Callable[[str], None]


class NoScratchError(ExpectedError):
    """The scratch folder that a test needs could not be made, with the reason."""


def run_step(head: Head, job: Launch, hold: HeldAllocation) -> Completed:
    """Run the step of a launch; if its ranks get no port to meet at, return the failed search for one."""
    port = 0
    if job.kind.ranked or job.kind.meets:
        command = free_port(job, hold.number)
        stay = hold.waiting(f"a free port on {job.nodes[0].name}", PORT_S)
        answer = head.run(watched(hold.number, command), user=job.user, timeout_s=PORT_S + CUT_OFF_S, meanwhile=stay)
        port = port_of(answer.stdout) or 0
        if not port:
            return answer
    limit_s = job.time_limit_s + CUT_OFF_S
    step = watched(hold.number, srun(job, hold.number, port))
    stay = hold.waiting(spread(job.launcher, job.ranks, job.nodelist), job.time_limit_s)
    return head.run(step, user=job.user, timeout_s=limit_s, meanwhile=stay)


def run_launches(
    cluster: Cluster, head: Head, job: Launch, hold: HeldAllocation, progress: Progress
) -> tuple[Verdict, Mapping[str, str]]:
    """Run every launch that the test of a job lists, up to the first without its required end.

    Also return the nodes that made Slurm end the first before it began, with reasons. The time limit is for all.
    """
    reached: list[tuple[Verdict, float]] = []
    out: Mapping[str, str] = {}
    due_s = time.monotonic() + job.time_limit_s
    try:
        with _scratch(cluster, head, job, hold, progress) as folder:
            for step in steps(job, folder):
                verdict, out_now, took_s = _run(head, step, hold, progress, due_s)
                reached.append((verdict, took_s))
                out = out if reached[1:] else out_now
                if not verdict.passed:
                    break
    except NoScratchError as error:
        (turn,) = job.turns
        nodes = tuple(node.name for node in job.nodes)
        verdict = Verdict(turn.test, "not_run", nodes, launcher=job.launcher, ranks=job.ranks, detail=str(error))
        return replace(verdict, launches=_list_launches(job, ())), {}
    return combined(job, reached), out


def _run(
    head: Head, step: Launch, hold: HeldAllocation, progress: Progress, due_s: float
) -> tuple[Verdict, Mapping[str, str], float]:
    """Run one launch; also return its duration, seconds."""
    began = time.monotonic()
    left_s = max(1, round(due_s - began))
    step = replace(step, turns=tuple(replace(turn, time_limit_s=left_s) for turn in step.turns))
    progress(f"launch {step.step.name if step.step else ''}: {spread(step.launcher, step.ranks, step.nodelist)}")
    ran = run_step(head, step, hold)
    ended_well = ran.rc in (0, None)
    end = None if ended_well else end_of(head, step, hold.number, hold.stay)
    (verdict,) = judge(step, ran, end)
    return verdict, {} if ended_well else unheard(step, ran, end), time.monotonic() - began


def combined(job: Launch, reached: Sequence[tuple[Verdict, float]]) -> Verdict:
    """Combine the verdicts on a test's launches, in order, up to the first that did not end as required.

    Each comes with its seconds. Measures are those of all launches together.
    """
    (turn,) = job.turns
    verdicts = [verdict for verdict, _ in reached]
    measurements = tuple(measurement for verdict in verdicts for measurement in verdict.measurements)
    by_measure = numbers(turn.program, measurements)
    last = verdicts[-1]
    names = tuple(node.name for node in job.nodes)
    total = replace(
        last,
        nodes=names,
        launcher=job.launcher,
        ranks=job.ranks,
        measurements=measurements,
        assertions=tuple(assertion for verdict in verdicts for assertion in verdict.assertions),
        headline=headline(turn.program, by_measure),
        backend=next((verdict.backend for verdict in verdicts if verdict.backend), None),
        device=next((verdict.device for verdict in verdicts if verdict.device), None),
        transport=next((verdict.transport for verdict in verdicts if verdict.transport), ""),
        torch_build=next((verdict.torch_build for verdict in verdicts if verdict.torch_build), None),
        seconds=0.0,
        launches=_list_launches(job, reached),
    )
    if not last.passed:
        name = turn.program.launches[len(verdicts) - 1].name
        limit = f"; {job.time_limit_s} s are for all launches" if last.status == "timed_out" else ""
        return replace(total, detail=f"launch {name}: {last.detail}{limit}")
    alone = all(LAUNCHERS[declared.launcher].per_node == "one" for declared in turn.program.launches)
    if short := unreported(turn.program, by_measure, names if alone else ()):
        return blamed(job, total, Blame("unknown", short.text, None, short.node))
    short = missed(turn.program, by_measure)
    return blamed(job, total, Blame("missed", short.text, None, short.node) if short else None)


def _list_launches(job: Launch, reached: Sequence[tuple[Verdict, float]]) -> tuple[LaunchVerdict, ...]:
    """Return the launches of a test, both reached and not run."""
    (turn,) = job.turns
    launches = []
    for number, step in enumerate(steps(job, "")):
        spec = turn.program.launches[number]
        launch = LaunchVerdict(
            spec.name,
            spec.launcher,
            spec.ends,
            "not_run",
            tuple(node.name for node in step.nodes),
            step.ranks,
        )
        if number < len(reached):
            verdict, seconds = reached[number]
            launch = replace(launch, status=verdict.status, detail=verdict.detail, seconds=round(seconds, 1))
        launches.append(launch)
    return tuple(launches)


@contextmanager
def _scratch(cluster: Cluster, head: Head, job: Launch, hold: HeldAllocation, progress: Progress) -> Iterator[str]:
    """Make the folder that the launches share, and remove it in every case. Raise NoScratchError."""
    path, shared = _make_scratch(cluster, head, job, hold, progress)
    try:
        yield path
    finally:
        command = watched(hold.number, remove(job, hold.number, path, shared=shared))
        removed = head.run(command, user=job.user, timeout_s=LIMIT_S + CUT_OFF_S, aside=True)
        if removed.rc != 0:
            progress(f"{path} may still be there; a later test removes it: {last_line(removed.stderr.splitlines())}")


def _make_scratch(
    cluster: Cluster, head: Head, job: Launch, hold: HeldAllocation, progress: Progress
) -> tuple[str, bool]:
    """Return the path of a new folder, and whether it is on storage that all nodes share."""
    name = f"hpcforge-scratch.{hold.number}.{secrets.token_hex(8)}"
    names = [node.name for node in job.nodes]
    on_all = shared_parents(cluster, names, job.user)
    must = job.turns[0].program.scratch == "shared" and len(names) > 1
    reason = ""
    for shared, parents in ((True, on_all), *([] if must else [(False, LOCAL)])):
        if not parents:
            continue
        command = watched(hold.number, make(job, hold.number, name, parents, shared=shared))
        stay = hold.waiting("a scratch folder", LIMIT_S)
        made = head.run(command, user=job.user, timeout_s=LIMIT_S + CUT_OFF_S, meanwhile=stay)
        number = scratch_of(made.stdout)
        if made.rc == 0 and number is not None and number < len(parents):
            return f"{parents[number]}/{name}", shared
        words = [line for line in made.stderr.splitlines() if "srun: error" not in line]
        reason = clean(last_line(words or made.stderr.splitlines())) or "no output"
        progress(f"no scratch folder on {'shared storage' if shared else 'the nodes'}: {reason}")
    raise NoScratchError(f"cannot create a scratch folder: {reason}")
