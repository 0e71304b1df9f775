"""What Slurm is told of fabrics."""

from __future__ import annotations

from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.graph import Fabric, Topology
from hpcforge.design.fabric.spec import Ask, Model, OtherEnd
from hpcforge.design.fabric.topology_conf import (
    Block,
    SlurmSwitch,
    compute_fabric,
    further_fabrics,
    parts,
    shrunk,
    topologies,
    topology,
    tops,
)
from tests.support.as_plugged import names, pair, rails


def made(kind: Topology, nodes: int, ports: int = 8, **more: object) -> Fabric:
    switch = Model("small", ports, ports)
    return build(
        Ask("net", "roce", kind, 100.0, 100.0, names("n", nodes), switch, switch, **more)  # type: ignore[arg-type]
    )


def among(name: str, nodes: tuple[str, ...]) -> Fabric:
    switch = Model("small", 8, 8)
    return build(Ask(name, "roce", "single-switch", 100.0, 100.0, nodes, switch, switch))


def tree(fabric: Fabric, workers: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {switch.name: switch.nodes or switch.switches for switch in topology(fabric, workers).switches}


def test_the_rails_of_a_unit_are_one_switch() -> None:
    fabric = rails(nodes=12)  # units of 8, four leaves each
    assert fabric.count("leaf") == 8
    gpus = names("gpu", 12)
    assert tree(fabric, gpus) == {
        "compute-unit-001": gpus[:8],
        "compute-unit-002": gpus[8:],
        "compute-spine": ("compute-unit-001", "compute-unit-002"),
    }


def test_of_some_workers_what_is_above_them_is_left() -> None:
    fabric, gpus = rails(nodes=12), names("gpu", 12)
    left = shrunk(topology(fabric, gpus), (gpus[0], gpus[3]))
    assert left.switches == (
        SlurmSwitch("compute-unit-001", nodes=(gpus[0], gpus[3])),
        SlurmSwitch("compute-spine", switches=("compute-unit-001",)),
    )
    blocks = shrunk(topology(fabric, gpus, "block"), (gpus[0], gpus[3], gpus[9]))
    assert [block.nodes for block in blocks.blocks] == [(gpus[0], gpus[3]), (gpus[9],)]
    assert blocks.block_sizes == (1, 2)


def test_three_tiers_are_three_levels() -> None:
    fabric = made("fat-tree", 64)  # 8-port switches: 32 ends in two tiers, 128 in three
    assert fabric.tiers == 3
    found = tree(fabric, names("n", 64))
    leaves = [name for name in found if "-leaf-" in name]
    groups = [name for name in found if "-spine-group-" in name]
    assert len(leaves) == 16 and all(len(found[name]) == 4 for name in leaves)
    assert [leaf for name in groups for leaf in found[name]] == leaves
    assert found["net-core"] == tuple(groups)


def test_three_tiers_with_rails() -> None:
    """Leaves form groups rail by rail; to Slurm, the units that share spines on their rails are one group."""
    fabric = rails(nodes=64, ports=8, rails=2)
    assert fabric.tiers == 3
    gpus = names("gpu", 64)
    found = tree(fabric, gpus)
    units = [name for name in found if "-unit-" in name]
    assert [node for name in units for node in found[name]] == list(gpus)
    assert all(len(found[name]) == 4 for name in units)
    assert [unit for name in found if "-spine-group-" in name for unit in found[name]] == units
    assert list(found)[-1] == "compute-core"


def test_a_leaf_pair_is_one_switch() -> None:
    assert tree(pair(nodes=4), names("gpu", 4)) == {"inband-unit-001": names("gpu", 4)}


def test_a_single_switch_has_its_own_name() -> None:
    assert tree(made("single-switch", 4), names("n", 4)) == {"net-leaf-001": names("n", 4)}


def test_dragonflies_are_leaves_in_groups() -> None:
    kinds: tuple[Topology, ...] = ("dragonfly", "dragonfly+")
    for kind in kinds:
        fabric = made(kind, 160, ports=16)
        told = topology(fabric, names("n", 160))
        assert told.dragonfly
        by_name = {switch.name: switch for switch in told.switches}
        groups = [name for name in by_name if name.startswith("net-group-0")]
        assert len(groups) > 1
        assert by_name["net-whole"].switches == tuple(groups)
        leaves = [leaf for name in groups for leaf in by_name[name].switches]
        assert sorted(node for leaf in leaves for node in by_name[leaf].nodes) == sorted(names("n", 160))


def test_other_ends_join_nothing() -> None:
    """Storage on leaves of two units does not make one unit of them, and is no node of Slurm's."""
    fabric = rails(nodes=12, endpoints=(OtherEnd("stor01", 8),))
    assert list(tree(fabric, names("gpu", 12))) == ["compute-unit-001", "compute-unit-002", "compute-spine"]


def test_a_switch_above_joins_workers_that_have_no_such_fabric() -> None:
    told = topology(rails(nodes=12), (*names("gpu", 12), "cpu01", "cpu02"))
    assert told.switches[-3:] == (
        SlurmSwitch("compute-spine", switches=("compute-unit-001", "compute-unit-002")),
        SlurmSwitch("compute-elsewhere", nodes=("cpu01", "cpu02")),
        SlurmSwitch("compute-and-others", switches=("compute-spine", "compute-elsewhere")),
    )
    small = topology(rails(nodes=4), (*names("gpu", 4), "cpu01"))  # of one switch
    assert small.switches[-1].switches == ("compute-leaf-001", "compute-elsewhere")


def test_fabrics_with_nothing_between_them_have_a_tree_each() -> None:
    """The Topology Guide of Slurm has such a file: no job spans leaf switches without a common parent."""
    gpu, second = rails(nodes=12), made("fat-tree", 12)
    workers = (*names("n", 12), *names("gpu", 12), "cpu01")
    told = topology(gpu, workers, further=further_fabrics([second, gpu], gpu))
    assert [switch.name for switch in tops(told.switches)] == ["net-spine", "compute-and-others"]
    assert parts(told, workers) == (names("n", 12), workers[12:])
    assert parts(told, names("gpu", 12)) == (names("gpu", 12),)


def test_a_fabric_that_has_workers_of_two_others_joins_them() -> None:
    gpu, second = rails(nodes=4), made("single-switch", 4)
    files = pair(nodes=4, name="files")  # has the workers of `gpu`, and no other
    workers = (*names("gpu", 4), *names("n", 4))
    assert len(parts(topology(gpu, workers, further=(second, files)), workers)) == 2
    both = among("files", ("gpu001", "n001"))
    assert len(parts(topology(gpu, workers, further=(second, both)), workers)) == 1
    assert len(parts(topology(gpu, workers, further=(both, second)), workers)) == 1
    told = topology(gpu, (*workers, "m001"), further=(second, both, among("others", ("m001",))))
    assert ("m001",) in parts(told, (*workers, "m001")) and len(parts(told, workers)) == 1


def test_blocks_keep_small_jobs_in_one_of_them() -> None:
    told = topology(rails(nodes=28), names("gpu", 28), "block")  # blocks of 8, 8, 8 and 4: BlockSizes 4, 8, 16
    gpus = names("gpu", 28)
    assert parts(told, gpus[6:9]) == (gpus[6:8], gpus[8:9])
    assert parts(told, gpus[4:12]) == (gpus[4:12],)  # of 8: two blocks in a row
    assert parts(told, gpus[12:20]) == (gpus[12:16], gpus[16:20])
    assert parts(told, gpus) == (gpus,)


def test_nodes_that_are_no_workers_are_left_out() -> None:
    assert tree(rails(nodes=12), names("gpu", 8)) == {"compute-unit-001": names("gpu", 8)}


def test_blocks() -> None:
    told = topology(rails(nodes=28), names("gpu", 28), "block")
    assert told.switches == ()
    assert told.blocks[0] == Block("compute-unit-001", names("gpu", 8))
    assert [len(block.nodes) for block in told.blocks] == [8, 8, 8, 4]
    assert told.block_sizes == (4, 8, 16)  # the smallest, and up to as many of it as there are blocks


def test_a_topology_beside_the_default_has_the_workers_that_are_to_use_it() -> None:
    workers = (*names("gpu", 28), "cpu01", "cpu02")
    first, second = topologies(rails(nodes=28), workers, "tree", {"block": workers[8:24]})
    assert (first.plugin, first.switches[-2]) == ("tree", SlurmSwitch("compute-elsewhere", nodes=("cpu01", "cpu02")))
    assert [(block.name, len(block.nodes)) for block in second.blocks] == [
        ("compute-unit-002", 8),  # called as in the tree
        ("compute-unit-003", 8),
    ]
    assert second.block_sizes == (8, 16)
    assert [one.plugin for one in topologies(rails(nodes=28), workers, "flat", {"tree": workers[:8]})] == [
        "flat",
        "tree",
    ]
    assert [one.plugin for one in topologies(rails(nodes=28), workers, "tree", {"tree": workers[:8]})] == ["tree"]


def test_without_a_fabric_there_is_nothing_to_write() -> None:
    for plugin in ("tree", "block", "flat"):
        assert topologies(None, names("gpu", 4), plugin, {"tree": names("gpu", 2), "block": names("gpu", 2)}) == ()


def test_nvlink_domains_are_blocks() -> None:
    workers = (*names("gpu", 12), "cpu01")
    domains = {name: f"r{number // 3}" for number, name in enumerate(workers[:6])}
    [tree, block] = topologies(rails(nodes=12), workers, "tree", {}, domains)
    assert tree == topology(rails(nodes=12), workers)
    assert block.blocks == (Block("nvlink-r0", workers[:3]), Block("nvlink-r1", workers[3:6]))
    assert block.block_sizes == (3, 6)
    [whole] = topologies(rails(nodes=12), workers, "block", {}, domains)
    assert [(block.name, len(block.nodes)) for block in whole.blocks] == [
        ("nvlink-r0", 3),
        ("nvlink-r1", 3),
        ("compute-unit-001", 2),
        ("compute-unit-002", 4),
        ("compute-elsewhere", 1),
    ]
    flat, alone = topologies(None, workers, "tree", {}, domains)
    assert (flat.plugin, flat.empty, alone.blocks, alone.fabric) == ("flat", False, block.blocks, None)
    assert shrunk(block, ["cpu01"]).empty


def test_which_fabric() -> None:
    fast, slow, plain = rails(nodes=12), made("fat-tree", 12), pair(nodes=12)
    workers = names("gpu", 12)
    assert compute_fabric([plain, slow, fast], workers) is fast
    assert compute_fabric([plain, slow], workers) is None  # n001 and so on are no workers
    assert compute_fabric([plain], workers) is None  # plain Ethernet only if it is named
    assert compute_fabric([plain, fast], workers, "inband") is plain
