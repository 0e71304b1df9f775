"""NVIDIA's repository: what a blueprint has to say before anything comes from it, and what nodes then get."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput
from hpcforge.catalog import load_catalog
from hpcforge.catalog.compatibility import load_compatibility
from hpcforge.catalog.nvidia import load_archives, named
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.plan.desired import Desired
from tests.support.nvidia_repository import key, stubs
from tests.support.shipped import ROOT, anywhere

ROCE = ROOT / "blueprints" / "roce-pair-16.yaml"
SITE = ROOT / "blueprints" / "dgx-h100-site.yaml"  # H100 connected by NVSwitches
BROUGHT = 'preinstalled: {driver: "535.261.03", fabric_manager: matched}'
INSTALLED = 'nvidia: {driver: "580.82.07", modules: open, cuda: ["12.8"], dcgm: "4.4.1", container_toolkit: "1.17.8"}'
ACCEPTED = "licence_accepted: true"


class Key(NamedTuple):
    """A key that a mirror signs with."""

    text: str
    fingerprint: str


@pytest.fixture(name="mirror_key", scope="module")
def _mirror_key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(*key(tmp_path_factory.mktemp("gpg") / "home", "mirror"))


def written(folder: Path, mirror_key: Key, said: str = ACCEPTED, nvidia: str = INSTALLED, more: str = "") -> Path:
    """A blueprint that has NVIDIA's software from a mirror; `said` of it, and `more` lines of `software`."""
    (folder / "mirror.asc").write_text(mirror_key.text)
    source = "url: https://mirror.example.org/cuda, key: mirror.asc"
    source += f", fingerprint: {mirror_key.fingerprint}" if "fingerprint" not in said else ""
    text = anywhere(SITE).replace(BROUGHT, f"{nvidia}\n  sources: {{nvidia: {{{source}, {said}}}}}{more}")
    path = folder / "site.yaml"
    path.write_text(text)
    return path


def refused(path: Path) -> list[Diagnostic]:
    with pytest.raises(InvalidInput) as caught:
        load(path, judged=True)
    return [diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error"]


def test_nothing_is_installed_unless_its_licences_are_accepted(tmp_path: Path, mirror_key: Key) -> None:
    path = written(tmp_path, mirror_key, "licence_accepted: false")
    (one,) = refused(path)
    assert one.mark is not None
    line = path.read_text().splitlines()[one.mark.line - 1]
    assert line.startswith("  sources: {nvidia: ")
    assert "of the driver the License For Customer Use of NVIDIA Software (nvidia.com/" in one.message
    assert "of CUDA the End User License Agreement (docs.nvidia.com/cuda/eula)" in one.message
    assert one.hint == "read them, and write `licence_accepted: true` here"
    (one,) = refused(
        written(tmp_path, mirror_key, "licence_accepted: false", 'nvidia: {driver: "580.82.07", modules: open}')
    )
    assert "of CUDA" not in one.message


NO_KEY = "`mirror.asc` is not exactly one OpenPGP public key in ASCII armour"
KEYS: dict[str, tuple[str | None, str]] = {
    "none there": (None, "the file `mirror.asc` does not exist"),
    "a private one": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabcd\n", NO_KEY),
    "damaged": ("KEY", NO_KEY),
}


@pytest.mark.parametrize("case", KEYS)
def test_a_file_that_is_no_public_key_is_refused(case: str, tmp_path: Path, mirror_key: Key) -> None:
    text, message = KEYS[case]
    path = written(tmp_path, mirror_key)
    (tmp_path / "mirror.asc").unlink()
    if text is not None:
        lines = mirror_key.text.splitlines(keepends=True)
        (tmp_path / "mirror.asc").write_text("".join(lines[:2] + lines[-1:]) if text == "KEY" else text)
    (one,) = refused(path)
    assert one.message.startswith(message)


def test_a_key_is_held_to_its_fingerprint(tmp_path: Path, mirror_key: Key) -> None:
    """To the one that is said; else to NVIDIA's for the release, which no mirror's own key has."""
    other = "0" * 40
    (one,) = refused(written(tmp_path, mirror_key, f"{ACCEPTED}, fingerprint: {other!r}".replace("'", '"')))
    assert one.message == f"the key in `mirror.asc` is {mirror_key.fingerprint}, not {other}"
    path = written(tmp_path, mirror_key)
    path.write_text(path.read_text().replace(f", fingerprint: {mirror_key.fingerprint}", ""))
    (one,) = refused(path)
    assert one.message.endswith(", not EB693B3035CD5710E231E123A4B469963BF863CC")
    assert one.hint is not None and "your mirror signs with its own key" in one.hint


def test_what_is_installed_is_not_brought_too(tmp_path: Path, mirror_key: Key) -> None:
    more = '\n  preinstalled: {fabric_manager: matched, dcgm: "4.4.1"}'
    said = sorted(one.message for one in refused(written(tmp_path, mirror_key, more=more)))
    assert said == [
        "NVIDIA's repository installs Fabric Manager too, at the driver's version",
        "`software.nvidia` already installs the dcgm",
    ]


RULES = {
    "an older driver": ('driver: "550.163.01"', "SOFTWARE-096", "driver: 570.172.08"),
    "an older CUDA": ('cuda: ["11.8"]', "SOFTWARE-098", "cuda: 12.4"),
    "an older DCGM": ('dcgm: "3.3.9"', "SOFTWARE-101", "dcgm: 4.5.3"),
}


@pytest.mark.parametrize("case", RULES)
def test_what_the_repository_has_not_is_refused_with_the_nearest_set(
    case: str, tmp_path: Path, mirror_key: Key
) -> None:
    asked, code, hint = RULES[case]
    kept = [part for part in INSTALLED[9:-1].split(", ") if not part.startswith(asked.partition(":")[0])]
    found = refused(written(tmp_path, mirror_key, nvidia=f"nvidia: {{{', '.join([*kept, asked])}}}"))
    (one,) = (one for one in found if one.message.startswith(code))
    assert one.hint is not None and hint in one.hint


def test_what_the_distribution_has_not_is_refused(tmp_path: Path) -> None:
    text = anywhere(SITE).replace(
        BROUGHT,
        'nvidia: {driver: "535.261.03", modules: open, dcgm: "4.4.1"}\n  preinstalled: {fabric_manager: matched}',
    )
    (tmp_path / "site.yaml").write_text(text)
    (one,) = refused(tmp_path / "site.yaml")
    assert one.message.startswith("SOFTWARE-100: ")
    assert "name NVIDIA's repository under `software.sources`" in one.message


def roles_of(desired: Desired, node: str) -> dict[str, Any]:
    return {one.role: one for one in desired.nodes[node] if one.role.startswith("nvidia_")}


def test_nodes_get_all_of_it_at_its_version(
    tmp_path: Path, mirror_key: Key, compiled: Callable[[Cluster], Desired]
) -> None:
    desired = compiled(load(written(tmp_path, mirror_key), judged=True).cluster)
    roles = roles_of(desired, "gpu001")
    assert set(roles) == {
        "nvidia_driver",
        "nvidia_modules",
        "nvidia_fabric_manager",
        "nvidia_dcgm",
        "nvidia_containers",
    }
    assert roles_of(desired, "head01") == {}
    wanted = {name for role in roles.values() for name in role.packages}
    assert {"nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager", "cuda-toolkit-12-8"} <= wanted
    resources = [resource for role in roles.values() for resource in role.resources]
    held = {resource.name for resource in resources if type(resource).kind == "holds"}
    assert wanted == held
    pins = {resource.name: (resource.pin, resource.priority) for resource in resources if type(resource).kind == "pins"}
    assert pins["hpcforge-nvidia-1"] == ("version 580.82.07-*", 1001)
    assert pins["hpcforge-nvidia-dcgm-1"] == ("version 1:4.4.1-*", 1001)
    assert pins["hpcforge-nvidia-rest"] == ('origin "mirror.example.org"', 90)
    sources = {resource.name: resource for resource in resources if type(resource).kind == "sources"}
    assert set(sources) == {"hpcforge-nvidia-repository", "hpcforge-nvidia-contrib"}
    ours = sources["hpcforge-nvidia-repository"]
    assert (ours.uris, ours.suites, ours.signed_by) == (("https://mirror.example.org/cuda/",), ("./",), mirror_key.text)


def test_fabric_manager_follows_the_machine_and_its_name_the_branch(
    tmp_path: Path, mirror_key: Key, compiled: Callable[[Cluster], Desired]
) -> None:
    older = INSTALLED.replace("580.82.07", "570.172.08")
    desired = compiled(load(written(tmp_path, mirror_key, nvidia=older), judged=True).cluster)
    roles = roles_of(desired, "gpu001")
    assert roles["nvidia_fabric_manager"].packages == ("nvidia-fabricmanager-570",)
    assert "datacenter-gpu-manager-4-cuda12" in roles["nvidia_dcgm"].packages
    path = written(tmp_path, mirror_key)
    path.write_text(re.sub("nvidia: {.*}", line_of(path), anywhere(ROCE)))
    roles = roles_of(compiled(load(path, judged=True).cluster), "g01")
    assert "nvidia_dcgm" in roles
    assert "nvidia_fabric_manager" not in roles  # of L40S, that no switches connect


def line_of(path: Path) -> str:
    """What a blueprint says of `software.nvidia`, and of where it comes from."""
    lines = path.read_text().splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("  nvidia: "))
    return "\n".join(lines[first : first + 2]).strip()


def test_every_archive_is_one_that_rules_know() -> None:
    (rule,) = (rule for rule in load_compatibility().rules if rule.code == "SOFTWARE-090")
    assert rule.needs["source"].split(" | ") == list(load_archives())
    assert {name.removeprefix("nvidia-") for name in load_archives()} <= {
        "-".join(distribution) for distribution in load_catalog().distributions
    }


def test_the_pattern_of_the_driver_has_its_packages_and_no_others() -> None:
    archive = load_archives()["nvidia-debian-12"]
    patterns = (*archive.pinned, *archive.pinned_modules)

    def of_driver(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    of_driver_said = {stub.name for stub in stubs() if stub.version.startswith("580.")}
    assert {stub.name for stub in stubs() if of_driver(stub.name)} == of_driver_said
    contribs = ("nvidia-kernel-common", "nvidia-support", "nvidia-legacy-check", "nvidia-installer-cleanup")
    others = (
        "nvidia-container-toolkit",
        "libnvidia-container1",
        "nvidia-driver-pinning-580",
        "nvidia-driver-assistant",
    )
    assert not any(map(of_driver, (*contribs, *others)))
    assert all(map(of_driver, ("nvidia-driver", "nvidia-driver-cuda", "nvidia-driver-libs")))

    # What is moved to another version on a node is what apt takes in one version there.
    names = {*(stub.name for stub in stubs()), *contribs, *others, "nvidia-driver", "libnvidia-c.fg1"}
    listed = "".join(f"ii source 1 {name}\n" for name in sorted(names))
    argv = ["awk", f"{named(patterns)} {{print $4}}"]
    picked = subprocess.run(argv, input=listed, capture_output=True, text=True, check=True, timeout=60).stdout
    assert set(picked.split()) == set(filter(of_driver, names))
