"""Lines by the fleet's median, and how many low values it takes."""

from __future__ import annotations

import pytest

from hpcforge.isolation.lines import higher_line, line_of, median, needed, surprise, tail
from hpcforge.isolation.state import Counts, FleetLine


def test_a_line_is_a_part_of_the_median_or_wider_than_the_spread() -> None:
    assert line_of("node", [[1.0], [1.0], [1.01], [0.99]]).at_least == pytest.approx(0.95, abs=0.02)
    assert line_of("node", [[1.0], [0.7], [1.3], [0.8], [1.2]]).at_least == pytest.approx(0.3, abs=0.2)
    assert line_of("pair", [[1.0], [0.1], [2.0], [5.0]]).at_least == pytest.approx(0.3)


def test_the_median_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_where_low_values_pass_often_more_must_agree() -> None:
    assert needed(Counts(8, 0)) == 3
    assert needed(Counts(5000, 10)) == 4
    assert needed(Counts(5000, 100)) == 6


def test_chance_explains_two_low_values_of_many_and_not_five() -> None:
    counts = Counts(5000, 10)
    assert surprise(counts, 2, 6) > 0.05
    assert surprise(counts, 5, 8) < 1e-5


def test_the_tail_is_the_chance_of_so_many_or_more() -> None:
    assert tail(0.5, 1, 1) == pytest.approx(0.75)
    assert tail(0.0, 1, 0) == pytest.approx(1e-3)
    assert tail(2.0, 3, 5) == pytest.approx(1.0)


def test_what_one_node_reports_does_not_make_the_others_low() -> None:
    assert line_of("pair", [[1e5] * 20, [40.0, 41.0], [40.0]]).median == 40.0
    assert line_of("node", [[1e8], [100.0]]).median == 100.0
    with pytest.raises(ValueError, match="no values"):
        line_of("node", [[], []])


def test_most_values_may_be_low_where_a_quarter_of_the_nodes_reach_more() -> None:
    line = FleetLine(0.45, 0.5)
    assert higher_line(line, [1.0] * 4 + [0.5] * 6, [1.0] * 4 + [0.5] * 6) == FleetLine(0.9, 1.0)
    assert higher_line(line, [1.0] * 3 + [0.5] * 7, [1.0] * 3 + [0.5] * 7) == line
    spread = [0.5, 0.6, 0.7, 0.82, 0.84, 0.86, 0.88, 1.0, 1.0, 1.0, 1.0]
    assert higher_line(line, spread, spread) == line
