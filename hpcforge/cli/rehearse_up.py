"""`hpcforge rehearse up`: the nodes of a blueprint on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import lab_kind, open_site, package_origins, real_networks, say_not_rehearsed, stood_in
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.people import number_of
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.image import store
from hpcforge.image.build import found_for
from hpcforge.image.disk import disk_of
from hpcforge.image.manifest import Manifest
from hpcforge.image.tree import tree_of
from hpcforge.lab import lab as labs
from hpcforge.lab.facts import subnet_for
from hpcforge.lab.kinds import KINDS
from hpcforge.lab.names import default_lab_name
from hpcforge.rehearsal.node_choice import cards, chosen, drives
from hpcforge.rehearsal.package_sources import every
from hpcforge.rehearsal.stand_in_rules import login_user
from hpcforge.report import printing
from hpcforge.report.progress import Progress
from hpcforge.report.rehearsal_text import rehearsal_text
from hpcforge.report.text import phases_line
from hpcforge.run.site import bootable, image_request
from hpcforge.secrets.secrets import default_identity_path


def up(blueprint: Path, lab: str | None, nodes: str | None, on: str | None, *, image: bool, start: bool) -> Exit:
    """Start the nodes, and print them. Returns the exit status."""
    loaded = load(blueprint, None, judged=True)
    real, cluster = not loaded.wants_lab, loaded.cluster
    if nodes is not None and not real:
        raise UsageError("a lab's blueprint is always rehearsed as a whole", "leave out --nodes")
    names = chosen(cluster, nodes) if real else tuple(cluster.by_name)
    name = lab or default_lab_name(blueprint)
    kind = _kind(loaded, name, on)
    KINDS[kind].check_distribution(cluster.os.name)
    identity = default_identity_path()
    planned = stood_in(loaded, None, name, identity, nodes).cluster if real else cluster
    sources = every(package_origins(loaded, planned))
    boots = KINDS[kind].BOOTS
    made_from = _image(loaded, boots=boots) if image and store.names() else None
    with Progress() as progress, progress.phase("nodes at ssh"):
        if made_from:
            progress.say(f"new nodes use image {made_from.name}")
        made = labs.up(
            _request(loaded, blueprint, name, kind, _nodes(loaded, names, boots=boots, bare=made_from is None)),
            progress.say,
            tallies=progress.tally,
            image=(disk_of if boots else tree_of)(made_from, progress.say) if made_from else None,
            start=start,
            sources=sources,
        )
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    printing.result(rehearsal_text(labs.status(made.name)))
    if real:
        say_not_rehearsed(stood_in(loaded, made, made.name, identity))
    elif sources and start:
        say_not_rehearsed(open_site(blueprint, None, made.name, None))
    if start:
        printing.note(f"Next: {command_line('apply', blueprint, lab=made.name if real else lab)}\n")
    return Exit.DONE


def _kind(loaded: Loaded, name: str, on: str | None) -> LabKind:
    """Return the kind of the nodes: that of --on, else of the present nodes, else of the blueprint."""
    if on is not None:
        if on not in KINDS:
            raise UsageError(f"{on!r} is not a kind of rehearsal", f"--on takes {' or '.join(KINDS)}")
        return next(kind for kind in KINDS if kind == on)
    running = labs.load(name)
    return lab_kind(loaded) if running is None else running.kind


def _request(
    loaded: Loaded, blueprint: Path, name: str, kind: LabKind, nodes: Sequence[labs.LabNode]
) -> labs.UpRequest:
    """Return the lab that stands in for the cluster; a real site's has a subnet away from its networks."""
    real, cluster = not loaded.wants_lab, loaded.cluster
    return labs.UpRequest(
        name=name,
        nodes=tuple(nodes),
        cidr=subnet_for(len(nodes)) if real else cluster.network.cidr,
        login_user=login_user(cluster),
        release=cluster.os.release,
        blueprint=blueprint.resolve(),
        network=cluster.network.name,
        kind=kind,
        login_uid=number_of(cluster.users, login_user(cluster)),
        avoid=tuple(real_networks(cluster)) if real else (),
    )


def _image(loaded: Loaded, *, boots: bool) -> Manifest | None:
    """Return the image for new nodes. Nodes that boot no kernel can also use an image with one."""
    request = image_request(loaded)
    return (None if boots else found_for(request)) or found_for(bootable(loaded, request))


def _nodes(loaded: Loaded, names: Sequence[str], *, boots: bool, bare: bool) -> list[labs.LabNode]:
    """Return these nodes, with their addresses (None: the lab chooses), and cards and drives if they boot.

    With `bare` the last worker lacks Python 3, as some machines do: bootstrap installs it.
    A real site's stand-ins have one plain network.
    """
    cluster, servers = loaded.cluster, loaded.catalog.servers
    nodes = [cluster.by_name[name] for name in names]
    without = [node.name for node in nodes if bare and "worker" in node.functions][-1:]
    return [
        labs.LabNode(
            node.name,
            node.address if loaded.wants_lab else None,
            python=node.name not in without,
            cards=cards(cluster, node) if boots and loaded.wants_lab else (),
            drives=drives(servers[node.hardware]) if boots else 0,
            release=cluster.os_of(node.name).release if node.platform else None,
        )
        for node in nodes
    ]
