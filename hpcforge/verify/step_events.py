"""The events of a step, each with the node of its task, not the name in the event. Pure.

srun labels each line with the number of its task, which no task can change. So a node can report on itself alone:
another host's name is replaced, and an event of another node's rank is dropped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]

_LABELLED = re.compile(r"^ *([0-9]{1,9}): ?(.*)$", re.DOTALL)  # srun --label pads the task number
_MAX_EVENT = 1 << 20
_MAX_RANK = 10**9
_PIECE_BYTES = 1000  # bytes: srun breaks a longer line, into pieces of 1,024
_OF_THE_TEST = ("measurement", "result")  # without a rank they are for the whole test, from rank 0


@dataclass(frozen=True)
class TaskLayout:
    """The nodes of a step's tasks: the same number on each node, in the order of the nodes."""

    nodes: tuple[str, ...]
    tasks: int = 1  # of a node
    ranks: int = 0  # of a task that is a torchrun; 0: a task is a process by itself
    in_order: bool = True  # whether ranks fill the nodes in their order
    nonce: str = ""  # repeated in the first event of each task; "": none

    def has_rank(self, node: str, rank: object) -> bool:
        """Whether a rank can be on a node."""
        if not isinstance(rank, int) or not 0 <= rank < min(_MAX_RANK, self.ranks * len(self.nodes)):
            return False
        return not self.in_order or self.nodes[rank // self.ranks] == node


@dataclass(frozen=True)
class StepEvents:
    """Events in their order with their task, the node of each task, and the tasks that named their node."""

    events: tuple[tuple[int, Event], ...]
    places: Mapping[int, str] = field(default_factory=dict)
    began: frozenset[int] = frozenset()


def lines_of(text: str) -> list[str]:
    """Split into the lines of srun: a task's other separators, such as a carriage return, do not end one."""
    return text.split("\n")


def labelled(line: str) -> tuple[int, str] | None:
    """Return the task of a line, and its text; None for a line of Slurm's own."""
    match = _LABELLED.match(line)
    return (int(match[1]), match[2]) if match else None


def step_events(stdout: str, layout: TaskLayout) -> StepEvents:
    """Return the credible events."""
    events = [*events_of(stdout)]
    claims = _claims(events, layout.nonce)
    if layout.nonce:
        events = [(task, event) for task, event in events if task in claims]
    places = _places(layout, claims)
    placed_events = [
        (task, placed)
        for task, event in events
        if task in places and (placed := _placed(event, task, places[task], layout)) is not None
    ]
    return StepEvents(tuple(placed_events), places, frozenset(claims) & frozenset(places))


def events_of(stdout: str) -> Iterator[tuple[int, Event]]:
    """Yield events with their task. srun breaks long lines: parse at the first piece, and again after the last."""
    pieces: dict[int, list[str]] = {}
    for line in lines_of(stdout):
        parts = labelled(line)
        if parts is None:
            continue
        task, text = parts
        if task in pieces and text.startswith("{") and pieces[task][-1].endswith("}"):
            yield from _parsed(task, pieces.pop(task))  # the last line ended with a full piece
        if task not in pieces:
            if not text.startswith("{"):
                continue
            if text.endswith("}") and (event := _event(text)) is not None:
                yield task, event
                continue
            pieces[task] = [text]
        else:
            pieces[task].append(text)
        if len(text.encode(errors="replace")) < _PIECE_BYTES:
            yield from _parsed(task, pieces.pop(task))
        elif len(pieces[task]) > _MAX_EVENT // _PIECE_BYTES:
            del pieces[task]
    for task, remaining in pieces.items():
        yield from _parsed(task, remaining)


def _parsed(task: int, pieces: list[str]) -> Iterator[tuple[int, Event]]:
    joined = "".join(pieces)
    event = _event(joined) if len(pieces) > 1 and len(joined) <= _MAX_EVENT else None  # one alone was parsed before
    if event is not None:
        yield task, event


def _event(text: str) -> Event | None:
    try:
        event = json.loads(text)
    except (RecursionError, ValueError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _claims(events: Iterable[tuple[int, Event]], nonce: str) -> dict[int, object]:
    """Return the node that each task names in its first event, from its launcher, in this launch."""
    first: dict[int, Event] = {}
    for task, event in events:
        first.setdefault(task, event)
    return {task: event.get("host") for task, event in first.items() if _begins(event, nonce)}


def _begins(event: Event, nonce: str) -> bool:
    return event["event"] == "node" and nonce in ("", event.get("launch"))


def _places(layout: TaskLayout, claims: Mapping[int, object]) -> dict[int, str]:
    """Return the node of each task, by its number, without tasks that name another node.

    Slurm's order may differ: then all tasks together name each node as often as it has tasks. A single false task
    cannot cause that, since it would name a node twice.
    """
    by_number = dict(enumerate(node for node in layout.nodes for _ in range(layout.tasks)))
    names = {task: node for task, node in claims.items() if task in by_number and isinstance(node, str)}
    if Counter(names.values()) == Counter(by_number.values()):
        return names
    return {task: node for task, node in by_number.items() if claims.get(task, node) == node}


def _placed(event: Event, task: int, node: str, layout: TaskLayout) -> Event | None:
    """Return the event with its place; None for another node's rank, or for the whole test and not from rank 0."""
    if not layout.ranks:
        place = {"host": node, "task" if event["event"] == "measurement" else "rank": task}
        return {**place, **{key: value for key, value in event.items() if key not in ("host", "task", "rank")}}
    rest = {key: value for key, value in event.items() if key != "host"}
    if "rank" in event:
        return {"host": node, **rest} if layout.has_rank(node, event["rank"]) else None
    if event["event"] in _OF_THE_TEST:
        return rest if layout.has_rank(node, 0) else None
    return {"host": node, **rest} if "host" in event else rest
