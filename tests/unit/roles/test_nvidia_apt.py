"""What apt makes of the source and the pins that nodes get, in folders of its own: stubs from a signed repository."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.plan.desired import Desired
from tests.support.nvidia_repository import DCGM, NEW, NEWER_DCGM, NEWER_TOOLKIT, OLD, TOOLKIT, key, repository, stubs
from tests.support.shipped import ROOT, anywhere

SITE = ROOT / "blueprints" / "dgx-h100-site.yaml"
BROUGHT = 'preinstalled: {driver: "535.261.03", fabric_manager: matched}'
OF_DRIVER = {stub.name for stub in stubs() if stub.version == f"{OLD}-1"}
# of a node: what the stubs need of it, and a package of which the repository has a newer version
NODE = "".join(
    f"Package: {name}\nStatus: install ok installed\nVersion: 12\nArchitecture: all\nMaintainer: x\nDescription: x\n\n"
    for name in ("kmod", "linux-base", "base-files")
)


class Apt:
    """apt with a node's source and pins, in a folder: nothing of this machine's is read or changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.status = folder, folder / "dpkg" / "status"
        for place in ("etc/preferences.d", "etc/sources.list.d", "state/lists/partial", "cache/archives/partial",
                      "dpkg/info", "dpkg/updates"):  # fmt: skip
            (folder / place).mkdir(parents=True)
        self.status.write_text(NODE)

    def have(self, resources: Sequence[Any]) -> None:
        """Write the pins, and the source of NVIDIA's, as a node has them."""
        for resource in resources:
            if resource.kind == "pins":
                text = (
                    f"Package: {' '.join(resource.packages)}\nPin: {resource.pin}\nPin-Priority: {resource.priority}\n"
                )
                (self.folder / "etc/preferences.d" / resource.name).write_text(text)
            elif resource.kind == "sources" and resource.name == "hpcforge-nvidia-repository":
                signed = "".join(f" {line or '.'}\n" for line in resource.signed_by.splitlines())
                text = f"Types: deb\nURIs: {resource.uris[0]}\nSuites: {resource.suites[0]}\nSigned-By:\n{signed}"
                (self.folder / "etc/sources.list.d" / f"{resource.name}.sources").write_text(text)

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run one of apt's programs."""
        places = {"Etc": "etc", "State": "state", "State::status": "dpkg/status", "Cache": "cache"}
        options = [f"Dir::{name}={self.folder}/{place}" for name, place in places.items()]
        words = [word for option in (*options, "APT::Sandbox::User=root") for word in ("-o", option)]
        done = subprocess.run([program, *words, *arguments], capture_output=True, text=True, check=False, timeout=600)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def installed(self, condition: str) -> set[str]:
        """The installed packages of which a condition of awk's is true, by the line that the role has."""
        fields = "${db:Status-Abbrev} ${source:Package} ${source:Upstream-Version} ${Package}\\n"
        argv = ["dpkg-query", f"--admindir={self.status.parent}", "-W", "-f", fields]
        listed = subprocess.run(argv, check=True, capture_output=True, timeout=600).stdout
        argv = ["awk", f"/^.i/ && ({condition}) {{print $4}}"]
        return set(
            subprocess.run(argv, input=listed, check=True, capture_output=True, timeout=600).stdout.decode().split()
        )


def resources(desired: Desired, node: str = "gpu001") -> list[Any]:
    return [resource for role in desired.nodes[node] if role.role.startswith("nvidia_") for resource in role.resources]


def chosen(apt: Apt, command: str, *options: str, names: Sequence[str] = ()) -> dict[str, str]:
    """What apt would install, with versions."""
    said = apt.run("apt-get", "-s", *options, command, "--", *names)
    return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", said, re.MULTILINE))


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Cluster]:
    folder = tmp_path_factory.mktemp("site")
    prints = {}
    for name in ("right", "wrong"):
        text, prints[name] = key(folder / "gpg", name)
        (folder / f"{name}.asc").write_text(text)
    with tarfile.open(fileobj=io.BytesIO(repository(folder, folder / "gpg", "right"))) as archive:
        archive.extractall(folder, filter="data")

    def of(driver: str, signer: str = "right") -> Cluster:
        said = f'driver: "{driver}", modules: open, cuda: ["12.8"], dcgm: "{DCGM}", container_toolkit: "{TOOLKIT}"'
        source = f"url: 'file://{folder}/nvidia/', key: {signer}.asc, fingerprint: {prints[signer]}".replace("'", '"')
        asked = f"nvidia: {{{said}}}\n  sources: {{nvidia: {{{source}, licence_accepted: true}}}}"
        (folder / "site.yaml").write_text(anywhere(SITE).replace(BROUGHT, asked))
        return load(folder / "site.yaml", judged=True).cluster

    return of


Sites = Callable[..., Cluster]
Compiled = Callable[[Cluster], Desired]


def test_a_repository_that_another_key_signs_is_not_believed(tmp_path: Path, site: Sites, compiled: Compiled) -> None:
    apt = Apt(tmp_path)
    apt.have(resources(compiled(site(OLD, "wrong"))))
    assert "is not signed" in apt.run("apt-get", "update", code=100)
    assert "Unable to locate package nvidia-smi" in apt.run("apt-get", "-s", "install", "nvidia-smi", code=100)


def test_a_newer_version_is_there_and_never_chosen(tmp_path: Path, site: Sites, compiled: Compiled) -> None:
    apt, desired = Apt(tmp_path), compiled(site(OLD))
    apt.have(resources(desired))
    apt.run("apt-get", "update")
    roles = [role for role in desired.nodes["gpu001"] if role.role.startswith("nvidia_")]
    names = sorted({name for role in roles for name in role.packages if not name.startswith("linux-")})
    found = chosen(apt, "install", "--no-install-recommends", names=names)
    versions = {f"{OLD}-1", f"1:{DCGM}-1", f"{TOOLKIT}-1"}
    assert {name for name, version in found.items() if version == f"{OLD}-1"} == OF_DRIVER
    assert set(found.values()) == {*versions, "12.8.1-1"}
    shown = apt.run("apt-cache", "policy", "libcuda1", "datacenter-gpu-manager-4-core", "nvidia-container-toolkit")
    for version in (f"{NEW}-1", f"1:{NEWER_DCGM}-1", f"{NEWER_TOOLKIT}-1"):
        assert f" {version} -1\n" in shown
    assert chosen(apt, "full-upgrade") == {}  # nor what the distribution has, too


def test_another_driver_is_put_in_place_whole(tmp_path: Path, site: Sites, compiled: Compiled) -> None:
    apt = Apt(tmp_path)
    held = {f"{OLD}-1", f"1:{DCGM}-1", f"{TOOLKIT}-1"}
    entries = (
        f"Package: {stub.name}\nStatus: hold ok installed\nVersion: {stub.version}\nArchitecture: all\n"
        f"Maintainer: x\nDescription: x\n{f'Depends: {stub.depends}' if stub.depends else 'Section: x'}\n\n"
        for stub in stubs()
        if stub.version in held
    )
    apt.status.write_text(NODE + "".join(entries))
    cluster = site(NEW)
    apt.have(resources(compiled(cluster)))
    apt.run("apt-get", "update")
    assert cluster.nvidia is not None
    others = apt.installed(cluster.nvidia.packages.other)
    assert others == OF_DRIVER
    options = ("--allow-change-held-packages", "--allow-downgrades", "--no-remove", "--no-install-recommends")
    assert chosen(apt, "install", *options, names=sorted(others)) == dict.fromkeys(OF_DRIVER, f"{NEW}-1")
    back = site(OLD).nvidia
    assert back is not None
    assert apt.installed(back.packages.other) == set()
