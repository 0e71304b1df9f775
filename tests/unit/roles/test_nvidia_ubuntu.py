"""NVIDIA's repository for Ubuntu: what nodes get from it, and what apt makes of that beside Ubuntu's own archive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from hpcforge.catalog.nvidia import Archive, Packages, load_archives
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.software.solve import within
from tests.support.nvidia_repository import (
    DCGM,
    NEW,
    OLD,
    TOOLKIT,
    Stub,
    key,
    publish,
    ubuntu_stubs,
    ubuntus_own_stubs,
)
from tests.support.shipped import ROOT
from tests.unit.roles.test_nvidia_apt import NODE, Apt, chosen, resources

NOBLE = ROOT / "tests" / "unit" / "roles" / "blueprints" / "nvidia-ubuntu.yaml"
OF_DRIVER = {one.name for one in ubuntu_stubs() if one.version in (f"{OLD}-0ubuntu1", f"{OLD}-1")}
REPOSITORIES = {name: archive for name, archive in load_archives().items() if archive.repository}
DRIVERS = ("570.172.08", "580.82.07", "590.48.01", "610.43.02")  # of each form of names
Compiled = Callable[[Cluster], Desired]
Sites = Callable[[str], Cluster]


def said(archive: str, driver: str, modules: str = "open") -> Cluster:
    """The cluster of the blueprint, with another repository, driver and modules."""
    name, _, release = archive.removeprefix("nvidia-").rpartition("-")
    text = NOBLE.read_text().replace('{name: ubuntu, release: "24.04"}', f'{{name: {name}, release: "{release}"}}')
    text = text.replace(OLD, driver).replace("modules: open", f"modules: {modules}")
    return load(NOBLE, instead={NOBLE: text}).cluster


def templates(archive: Archive) -> Iterator[tuple[str, Packages]]:
    """Every name that the data has, and the versions that it has it for."""
    lists = (archive.driver, archive.driver_held, archive.cuda, archive.fabric_manager, archive.dcgm,
             archive.container_toolkit, *archive.modules.values(), *archive.modules_held.values())  # fmt: skip
    yield from ((name, one) for several in lists for one in several for name in one.packages)


def versionless(name: str) -> str:
    """A name with the numbers of a version put back into the braces that they came from."""
    name = re.sub("^(cuda-toolkit)-[0-9]+-[0-9]+$", r"\1-{major}-{minor}", name)
    name = re.sub("-cuda[0-9]+$", "-cuda{cuda}", name)
    return re.sub("-(570|580|590|610)(?=-|$)", "-{major}", name)


@pytest.mark.parametrize("archive", REPOSITORIES)
def test_every_name_of_the_data_comes_to_nodes_and_is_pinned(archive: str, compiled: Compiled) -> None:
    found = set()
    for driver in DRIVERS:
        for modules in ("open", "closed"):
            roles = of_nvidia(compiled(said(archive, driver, modules)))
            found |= {name for role in roles for name in role.packages if not name.startswith("linux-")}
    known = REPOSITORIES[archive]
    assert {versionless(name) for name in found} == {name for name, _ in templates(known)} | {"nvidia-persistenced"}
    assert all(
        any(within(driver, one.version) for driver in DRIVERS) for _, one in templates(known) if one.version[0] in "<>"
    )
    pinned = [known.pinned, known.pinned_modules, known.pinned_dcgm, known.pinned_container_toolkit]
    by = {name: [one for one in pinned if any(fnmatchcase(name, pattern) for pattern in one)] for name in found}
    assert {name: len(ones) for name, ones in by.items()} == {
        name: 0 if name.startswith("cuda-toolkit") else 1 for name in found
    }


def test_names_lose_their_branch_with_branch_590(compiled: Compiled) -> None:
    names = {
        driver: {name for role in compiled(said("nvidia-ubuntu-24.04", driver)).nodes["g01"] for name in role.packages}
        for driver in ("580.82.07", "590.48.01")
    }
    before, after = names["580.82.07"] - names["590.48.01"], names["590.48.01"] - names["580.82.07"]
    assert before == {"libnvidia-compute-580", "libnvidia-cfg1-580", "nvidia-utils-580", "nvidia-dkms-580-open"}
    assert after == {"libnvidia-compute", "libnvidia-cfg1", "nvidia-dkms-open"}


def test_fabric_manager_is_checked_where_its_role_is_and_not_in_a_rehearsal(compiled: Compiled) -> None:
    cluster = load(NOBLE).cluster
    (rule,) = (rule for rule in RULES if rule.name == "GPUs")
    found = []
    for each in (cluster, rule.change(cluster, None)):  # type: ignore[arg-type]  # it asks nothing of the lab
        desired = compiled(each)
        files = [file for role in desired.nodes["g01"] for file in role.of(File) if file.text]
        texts = {file.path: desired.texts[file.text] for file in files}
        health, metrics = (json.loads(texts[f"/etc/hpcforge/{name}.json"]) for name in ("slurm_health", "gpu_metrics"))
        found.append((health["units"], metrics["fabric_manager"]))
    unit = "nvidia-fabricmanager.service"
    assert found == [(["munge.service", unit], unit), (["munge.service"], None)]


def test_nothing_comes_from_debian(compiled: Compiled) -> None:
    wanted = resources(compiled(load(NOBLE).cluster), "g01")
    assert [one.uris for one in wanted if one.kind == "sources"] == [("https://mirror.example.org/cuda/ubuntu2404/",)]


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    folder = tmp_path_factory.mktemp("noble")
    text, fingerprint = key(folder / "gpg", "nvidia")
    (folder / "mirror.asc").write_text(text)
    publish(folder / "cuda", ubuntu_stubs(), folder / "gpg", "nvidia")
    publish(folder / "ubuntu", ubuntus_own_stubs(), folder / "gpg", "nvidia", "Ubuntu")

    def of(driver: str) -> Cluster:
        written = NOBLE.read_text().replace("https://mirror.example.org/cuda/ubuntu2404/", f"'file://{folder}/cuda/'")
        written = re.sub("fingerprint: .*", f'fingerprint: "{fingerprint}"', written).replace("'", '"')
        (folder / "site.yaml").write_text(written.replace(OLD, driver))
        return load(folder / "site.yaml", judged=True).cluster

    return of


def of_nvidia(desired: Desired) -> list[DesiredRole]:
    """Roles whose packages the catalog names; the exporter's is in its role."""
    return [
        role for role in desired.nodes["g01"] if role.role.startswith("nvidia_") and role.role != "nvidia_dcgm_exporter"
    ]


def noble(folder: Path, cluster: Cluster, compiled: Compiled, have: str = "") -> tuple[Apt, set[str]]:
    """apt of a node that has Ubuntu's archive, too, and what the node is to install of NVIDIA's."""
    desired = compiled(cluster)
    apt, wanted = Apt(folder), resources(desired, "g01")
    apt.status.write_text(NODE + have)
    apt.have(wanted)
    (source,) = (one for one in wanted if one.kind == "sources")
    theirs = source.uris[0].replace("/cuda/", "/ubuntu/")
    (folder / "etc/sources.list.d/ubuntu.sources").write_text(f"Types: deb\nURIs: {theirs}\nSuites: ./\nTrusted: yes\n")
    apt.run("apt-get", "update")
    return apt, {name for role in of_nvidia(desired) for name in role.packages if not name.startswith("linux-")}


def test_ubuntus_own_packages_of_the_same_names_are_never_chosen(
    tmp_path: Path, site: Sites, compiled: Compiled
) -> None:
    apt, names = noble(tmp_path, site(OLD), compiled)
    found = chosen(apt, "install", "--no-install-recommends", names=sorted(names))
    of_driver = {name: version for name, version in found.items() if version.startswith("580.")}
    assert set(of_driver) == OF_DRIVER
    assert set(of_driver.values()) == {f"{OLD}-0ubuntu1", f"{OLD}-1"}
    assert set(found.values()) - set(of_driver.values()) == {f"1:{DCGM}-1", f"{TOOLKIT}-1", "12.8.1-1", "13.0.1-1"}
    shown = apt.run("apt-cache", "policy", "libnvidia-compute-580")
    assert f" {OLD}-9ubuntu0.24.04.1 -1\n" in shown  # there, newer by its revision, and kept out
    (tmp_path / "etc/preferences.d/hpcforge-nvidia-0").unlink()  # which does it
    assert chosen(apt, "install", names=["libnvidia-compute-580"])["libnvidia-compute-580"].endswith("24.04.1")


def installed(stub: Stub) -> str:
    depends = f"Depends: {stub.depends}" if stub.depends else "Section: x"
    return (
        f"Package: {stub.name}\nStatus: hold ok installed\nVersion: {stub.version}\nArchitecture: all\n"
        f"Maintainer: x\nDescription: x\n{depends}\n\n"
    )


def test_another_driver_is_put_in_place_whole(tmp_path: Path, site: Sites, compiled: Compiled) -> None:
    """And what has a version of its own, though it is called like the driver, is left as it is."""
    own = [
        one for one in ubuntu_stubs() if one.version in (f"{OLD}-0ubuntu1", f"{OLD}-1", f"1:{DCGM}-1", f"{TOOLKIT}-1")
    ]
    other = [one for one in ubuntu_stubs() if one.name in ("nvidia-driver-pinning-580", "nvidia-driver-assistant")]
    cluster = site(NEW)
    apt, _ = noble(tmp_path, cluster, compiled, "".join(map(installed, [*own, *other])))
    assert cluster.nvidia is not None
    others = apt.installed(cluster.nvidia.packages.other)
    assert others == OF_DRIVER
    options = ("--allow-change-held-packages", "--allow-downgrades", "--no-remove", "--no-install-recommends")
    found = chosen(apt, "install", *options, names=sorted(others))
    assert set(found) == OF_DRIVER
    assert set(found.values()) == {f"{NEW}-0ubuntu1", f"{NEW}-1"}
