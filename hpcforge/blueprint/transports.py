"""The transport that the ranks of a smoke test must use, as its `test.yaml` names it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.validate import Finding
from hpcforge.launchers import LAUNCHERS

NODES = "nodes"  # the network with the addresses of nodes

_Network = Annotated[str, v.Matches(r"[a-z][a-z0-9_-]{0,39}", "`nodes`, or the name of a network", NODES)]
_Name = Annotated[
    str,
    v.Matches(
        r"[A-Za-z0-9_-]{1,30}(?:/[A-Za-z0-9_-]{1,30}){0,3}", "a transport as NCCL's log spells it", "NET/IB"
    ),
]  # fmt: skip


class GlooSection(Section):
    """What gloo must use."""

    network: _Network = Field(
        NODES,
        description="Each connection of a rank has its node's address on this network; nodes: the network of the "
        "nodes' addresses.",
    )


class NcclSection(Section):
    """What NCCL must use."""

    where: Literal["always", "rdma"] = Field(
        "always", description="rdma: only if there are several nodes, and all are on one InfiniBand or RoCE fabric."
    )
    must: tuple[_Name, ...] = Field(
        (), description="Transports that some rank of each node must use, as in NCCL's log: NET/IB, P2P, NVLS, GDRDMA."
    )
    must_not: tuple[_Name, ...] = Field((), description="Transports that no rank may use, such as NET/Socket.")


class TransportSection(Section):
    """The transport that ranks must use, by the library that they use. Asserted before a number is judged."""

    gloo: GlooSection | None = Field(None, description="On CPUs.")
    nccl: NcclSection | None = Field(None, description="On GPUs.")


def transport_findings(launchers: set[str], section: TransportSection | None) -> Iterator[Finding]:
    """Yield errors of a transport: only ranks of PyTorch report theirs. `launchers` are all of the test."""
    if section is None:
        return
    others = sorted(name for name in launchers if name in LAUNCHERS and not LAUNCHERS[name].ranked)
    if others:
        hint = f"`{others[0]}` starts no ranks of torch.distributed"
        yield Finding(("transport",), "processes of this test report no transport", hint, key=True)
    if section.gloo is None and section.nccl is None:
        yield Finding(("transport",), "no transport is named", "gloo: {network: nodes}", key=True)
    if section.nccl is not None and not (section.nccl.must or section.nccl.must_not):
        yield Finding(("transport", "nccl"), "no transport is named", "must_not: [NET/Socket]", key=True)
