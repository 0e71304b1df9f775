"""`hpcforge show`: a page that folds what is alike, and with --full or --json every value."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hpcforge.cli.show import ShowOptions, show
from hpcforge.cluster import load
from hpcforge.report.show_text import show_text

BLUEPRINTS = Path(__file__).parents[3] / "blueprints"


@pytest.mark.parametrize("name", ["dgx-h100-site", "dgx-h100-32", "full-lab", "rehearsal", "two-node-lab"])
def test_it_is_a_page_and_names_every_node(name: str) -> None:
    """32 nodes were 1,378 lines."""
    cluster = load(BLUEPRINTS / f"{name}.yaml").cluster
    text = show_text(cluster, "hpcforge show --full")
    assert len(text.splitlines()) <= 50
    assert text.endswith("all of it, a value a line: hpcforge show --full\n")
    for word in (
        cluster.name,
        *cluster.services["dns"].on,
        *(partition.name for partition in cluster.slurm.partitions),
    ):
        assert word in text


def test_nodes_that_are_alike_are_one_row_and_one_that_differs_has_its_own() -> None:
    text = show_text(load(BLUEPRINTS / "dgx-h100-site.yaml").cluster, "more")
    rows = {line.split()[0]: line for line in text.splitlines() if line}
    assert "10.20.1.[1-16,18-32]  g[01-08]" in rows["gpu[001-016,018-032]"]
    assert "2 x 56 (224 CPUs)  2048 GiB  8 h100-sxm" in rows["gpu[001-016,018-032]"]
    assert "1536 GiB" in rows["gpu017"]
    assert "RMA 4711" in rows["gpu017"]
    assert rows["time"].endswith("outside: ntp1.example.org, ntp2.example.org")
    assert "535.261.03, brought by the nodes" in text


def test_a_partition_is_shown_with_its_settings() -> None:
    cluster = load(BLUEPRINTS / "rehearsal.yaml").cluster
    [main] = cluster.slurm.partitions
    main = replace(main, settings=(("PriorityTier", "10"), ("Hidden", "YES")))
    text = show_text(replace(cluster, slurm=replace(cluster.slurm, partitions=(main,))), "more")
    assert "default, PriorityTier=10, Hidden=YES" in text


def test_on_a_narrow_terminal_no_line_is_longer() -> None:
    text = show_text(load(BLUEPRINTS / "dgx-h100-32.yaml").cluster, "more", columns=100)
    assert max(map(len, text.splitlines())) <= 100


def test_full_and_json_are_every_value(capsys: pytest.CaptureFixture[str]) -> None:
    blueprint = BLUEPRINTS / "dgx-h100-site.yaml"
    assert show(ShowOptions(blueprint=blueprint, full=True)) == 0
    full = yaml.safe_load(capsys.readouterr().out)
    assert show(ShowOptions(blueprint=blueprint, as_json=True)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"schema_version": 1, "cluster": full}
    assert len(full["nodes"]) == 36
    assert show(ShowOptions(blueprint=blueprint)) == 0
    assert len(capsys.readouterr().out.splitlines()) < 50
