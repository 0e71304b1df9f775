"""Launches in a test.yaml, and what a stranger may write there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.smoke_tests import MOST_LAUNCHES, SmokeTestSpec, load_smoke_tests

TWO = """\
description: "What a launch saves, another loads."
launcher: torchrun
needs: {nodes: 1, ranks: {per_node: 2, multiple_of: 4, at_most: 8}, modules: [numpy], scratch: shared}
launches:
  save: {ends: killed, kill_after: 30s, environment: {TORCH_DISABLE_SHARE_RDZV_TCP_STORE: "1"}}
  load: {ranks_divided_by: 2}
measures: {loss: {unit: 1}}
headline: "loss {loss}"
thresholds: none
options: {steps: {type: whole, default: 4, description: "Steps."}}
"""


def read(folder: Path, text: str) -> SmokeTestSpec:
    test = folder / "save_load"
    test.mkdir(exist_ok=True)
    (test / "test.yaml").write_text(text)
    (test / "save_load.py").touch()
    return load_smoke_tests(folder)["save_load"].spec


def test_launches_keep_their_order_and_have_the_launcher_of_the_test(tmp_path: Path) -> None:
    spec = read(tmp_path, TWO)
    assert [(name, launch.launcher, launch.ends) for name, launch in spec.launches.items()] == [
        ("save", None, "killed"),
        ("load", None, "done"),
    ]
    assert (spec.needs.ranks.per_node, spec.needs.ranks.multiple_of, spec.needs.ranks.at_most) == (2, 4, 8)


def test_without_launches_a_test_is_as_before(tmp_path: Path) -> None:
    short = TWO.partition("launches:")[0].replace(", scratch: shared", "") + "measures: {a: {unit: 1}}\nheadline: a\n"
    assert read(tmp_path, short).launches == {}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ends: killed, kill", "ends: dead, kill", "`dead` is not accepted here"),
        ("ends: killed, kill", "ends: done, kill", "hpcforge kills no launch that ends on its own"),
        ("kill_after: 30s", "kill_after: 10min", "`save` is killed after the test's time_limit"),
        ("kill_after: 30s", "kill_after: 30s; reboot", "is not a time such as"),
        ("load: {", "load: {launcher: ssh, ", "`ssh` is not accepted here"),
        ("load: {", "load: {lanucher: srun, ", "did you mean `launcher`?"),
        ("load: {ranks_divided_by: 2", "load: {ranks_divided_by: 3", "the ranks cannot be divided by 3"),
        ("load: {ranks_divided_by: 2", "load: {ranks_divided_by: 0", "must be"),
        ("load: {", "load: {launcher: plain, ", "`load` has no ranks to divide"),
        ("  load:", "  ../load:", "is not the name of a launch"),
        ("  load:", "  load --scratch=/etc:", "is not the name of a launch"),
        ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "LD_PRELOAD", "`LD_PRELOAD` is set by hpcforge or Slurm"),
        ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "PYTHONPATH", "`PYTHONPATH` is set by hpcforge or Slurm"),
        ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "A=b", "is not an environment variable"),
        ('"1"', '"1,LD_PRELOAD=/tmp/a.so"', "is not a value of up to 200"),
        ('"1"', '"$(reboot)"', "is not a value of up to 200"),
        ("multiple_of: 4", "multiple_of: 16", "no number of ranks is a multiple of 16 and at most 8"),
        ("multiple_of: 4", "multiple_of: 99999999999", "must be at most"),
        ("per_node: 2", "per_node: 2000", "must be at most"),
        ("per_node: 2", "per_node: all", "is not a whole number"),
        ("[numpy]", '["numpy; import os"]', "is not a module as Python imports it"),
        ("[numpy]", '["--index-url=http://x"]', "is not a module as Python imports it"),
        ("scratch: shared", "scratch: /etc", "`/etc` is not accepted here"),
        ("scratch: shared", "container: '--privileged'", "`--privileged` is not accepted here"),
        ("steps: {", "scratch: {", "`scratch` is a reserved name in a test with launches"),
        ("steps: {", "launch: {", "`launch` is a reserved name in a test with launches"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TWO
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, TWO.replace(old, new, 1))
    assert said in raised.value.shown()


def test_what_needs_launches_or_ranks_is_refused_without(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="only a test with `launches` has a scratch folder"):
        read(tmp_path, TWO.replace(TWO[TWO.index("launches:") : TWO.index("measures:")], ""))
    plain = TWO.replace("torchrun", "plain").replace(", scratch: shared", "")
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, plain)
    assert "this test has no ranks to count" in raised.value.shown()


def test_there_are_only_so_many_launches(tmp_path: Path) -> None:
    lines = "".join(f"  again_{number}: {{}}\n" for number in range(MOST_LAUNCHES))
    with pytest.raises(InvalidInput, match="at most 16 fit in a test"):
        read(tmp_path, TWO.replace("  load:", f"{lines}  load:"))


def test_no_median_where_any_launch_has_ranks(tmp_path: Path) -> None:
    apart = TWO.replace("torchrun", "srun").replace("thresholds: none", "thresholds: {loss: {at_most_of_median: 2}}")
    assert read(tmp_path, apart).thresholds
    with pytest.raises(InvalidInput, match="a median needs a report"):
        read(tmp_path, apart.replace("load: {", "load: {launcher: torchrun, "))
