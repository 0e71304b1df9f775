"""What isolation knows can be written as JSON and read again."""

from __future__ import annotations

from pydantic import TypeAdapter

from benchmarks.simulated_cluster import Fault, World, fabric_of
from hpcforge.isolation.state import Conclusion, Part, Round, State
from hpcforge.isolation.step import begin, step


def test_a_state_that_was_written_and_read_leads_to_the_same_names() -> None:
    of, fault = fabric_of(40), Fault(Part("cable", 3, 5), 0.5)
    ends: list[Conclusion] = []
    for kept in (False, True):
        world = World(of, 1, [fault], 0.0)
        told: Round | Conclusion
        state, told = begin(of)
        while isinstance(told, Round):
            state, told = step(state, told, world.measure(told))
            if kept:
                state = TypeAdapter(State).validate_json(TypeAdapter(State).dump_json(state))
        ends.append(told)
    assert ends[0] == ends[1]
    assert ends[0].findings[0].parts == (fault.part,)
