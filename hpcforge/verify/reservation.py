"""A Slurm reservation that holds idle nodes for tests, and drains and resumes of the nodes that were tested.

Slurm itself ends the reservation of a killed run: it is purged after a few minutes without a job, or else at its end.
Only the reservation of a node that must not return untested lasts to its end. It does not have the flag MAINT, since
that takes its nodes out of service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from hpcforge.blueprint.hostlist import fold
from hpcforge.errors import ExpectedError
from hpcforge.slurm.commands import create_reservation, delete_reservation, update_nodes
from hpcforge.verify.head import Completed, Head
from hpcforge.verify.jobs import QUERY_S
from hpcforge.verify.step_output import clean

NAME = "hpcforge-"  # how the names of these reservations begin
PURGE_MIN = 3  # minutes without a job after which Slurm removes one
_REASON = 200  # characters of a drain's reason


class ReservationError(ExpectedError):
    """Slurm refused a request, with Slurm's reason."""


class NotDrainedError(ReservationError):
    """A node that must not return untested is in service: its reservation has to stay."""


@contextmanager
def reserved(
    head: Head,
    nodes: Sequence[str],
    run_as: str,
    minutes: int,
    progress: Callable[[str], None],
    *,
    purge: bool = True,
) -> Iterator[str]:
    """Reserve these nodes for the account of the tests; yield the reservation's name, and remove it in every case.

    Slurm refuses it for a node on which a job runs. `purge`: it ends early if no job uses it. Raise ReservationError.
    """
    name = f"{NAME}{head.owner.run_id[:8]}"
    made, drained = False, True
    try:
        command = create_reservation(name, nodes, run_as, minutes, PURGE_MIN if purge else 0)
        answer = head.run(command, timeout_s=QUERY_S)
        _check_answer(answer, f"reserve {fold(nodes)}")
        made = True
        progress(f"{fold(nodes)} reserved in Slurm as {name}")
        yield name
    except NotDrainedError:
        drained = False
        progress(f"reservation {name} stays: it keeps users' jobs away for {minutes} minutes")
        raise
    finally:
        if drained:
            _remove(head, name, minutes, progress, purge=purge, made=made)


def _remove(head: Head, name: str, minutes: int, progress: Callable[[str], None], *, purge: bool, made: bool) -> None:
    """Remove a reservation; a refused one, or one made too late for an answer, may not exist."""
    removed = head.run(delete_reservation(name), timeout_s=QUERY_S, aside=True)
    if made and removed.rc != 0 and "Requested reservation is invalid" not in removed.stderr:
        ends = f"{PURGE_MIN} minutes after the last job" if purge else f"after {minutes} minutes"
        command = " ".join(delete_reservation(name))
        progress(f"reservation {name} may still be there: Slurm removes it {ends}, or on the head: {command}")


def drain(head: Head, node: str, names: Collection[str], reason: str) -> None:
    """Drain a node, which must be one of `names`. Raise ReservationError."""
    if node not in names:
        raise ReservationError(f"{clean(node, 64)!r} is not drained: it is not a node of the test")
    command = update_nodes(node, "DRAIN", clean(reason, _REASON))
    _check_answer(head.run(command, timeout_s=QUERY_S, aside=True), f"drain {node}")


def resume(head: Head, node: str) -> None:
    """Put a node back into service. Raises ReservationError."""
    _check_answer(head.run(update_nodes(node, "RESUME"), timeout_s=QUERY_S), f"resume {node}")


@contextmanager
def drained_unless_passed(head: Head, node: str, reason: str, limit_s: int) -> Iterator[Callable[[str], None]]:
    """Resume a node while it is tested, and drain it again at the end, unless it passed.

    The caller sets the reason at the end: "" if the node passed; otherwise the old reason stays. If this run is
    killed, a timer on the head drains the node after `limit_s` seconds. Raise ReservationError; NotDrainedError keeps
    that timer.
    """
    unit, final_reason = f"hpcforge-gate-{node}", [reason]
    timer = [
        *("systemd-run", f"--unit={unit}", f"--on-active={limit_s}", "--timer-property=AccuracySec=1s", "--collect"),
        *update_nodes(node, "DRAIN", clean(reason, _REASON)),
    ]
    head.run(["systemctl", "stop", f"{unit}.timer"], timeout_s=QUERY_S)  # of a run that was killed
    _check_answer(head.run(timer, timeout_s=QUERY_S), f"set a timer that drains {node} again")
    try:
        resume(head, node)
        yield lambda text: final_reason.__setitem__(0, text)
    finally:
        if final_reason[0]:
            try:
                drain(head, node, (node,), final_reason[0])
            except BaseException as error:  # a second Ctrl-C, too: the timer and the reservation stay
                raise NotDrainedError(
                    f"{node} is not drained: {error}", f"on the head: {' '.join(update_nodes(node, 'DRAIN'))}"
                ) from error
        stop = ["systemctl", "stop", f"{unit}.timer"]
        if head.run(stop, timeout_s=QUERY_S, aside=True).rc != 0 and not final_reason[0]:
            type_ = f"on the head: {' '.join(stop)}, then hpcforge verify --gate {node} if it is drained"
            raise ReservationError(f"the timer that drains {node} again could not be stopped", type_)


def _check_answer(answer: Completed, action: str) -> None:
    if answer.rc != 0:
        raise ReservationError(f"Slurm did not {action}: {clean(answer.stderr or answer.stdout) or 'no answer'}")
