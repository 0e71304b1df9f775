"""Host certificates, judged by OpenSSH's own tools."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from hpcforge import shipped
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster, Network
from hpcforge.run.host_certificates import (
    address_patterns,
    authority_fingerprint,
    new_authority,
    with_derived,
)


def keygen(*arguments: str | Path) -> str:
    done = subprocess.run(["ssh-keygen", *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def make_key(folder: Path, kind: str) -> str:
    keygen("-q", "-t", kind, "-N", "", "-C", "root@node", "-f", folder / kind)
    return (folder / f"{kind}.pub").read_text().strip()


def cluster_with(keys: dict[str, tuple[str, ...]]) -> Cluster:
    cluster = load(shipped.root() / "blueprints" / "rehearsal.yaml").cluster
    nodes = tuple(dataclasses.replace(node, host_keys=keys.get(node.name, ())) for node in cluster.nodes)
    return dataclasses.replace(cluster, nodes=nodes)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_ssh_keygen_reads_what_we_sign(tmp_path: Path, kind: str) -> None:
    cluster, authority = cluster_with({"w01": (make_key(tmp_path, kind),)}), new_authority()
    derived = with_derived({"ssh_host_ca": authority}, cluster)
    (tmp_path / "cert.pub").write_bytes(derived["ssh_host_certificate:w01"])
    shown = [line.strip() for line in keygen("-L", "-f", tmp_path / "cert.pub").splitlines()]
    assert shown[1].endswith("host certificate")
    assert keygen("-l", "-f", tmp_path / kind).split()[1] in shown[2]
    assert authority_fingerprint(authority) in shown[3]
    names = shown[shown.index("Principals:") + 1 : shown.index("Critical Options: (none)")]
    assert names == ["w01", "w01.rehearsal.example.org", "10.77.0.11"]
    assert "Valid: forever" in shown


def test_the_same_inputs_give_the_same_bytes_and_other_inputs_other_ones(tmp_path: Path) -> None:
    cluster, authority = cluster_with({"w01": (make_key(tmp_path, "ed25519"),)}), new_authority()
    first = with_derived({"ssh_host_ca": authority}, cluster)
    assert with_derived({"ssh_host_ca": authority}, cluster) == first
    others = (
        (new_authority(), cluster),
        (authority, dataclasses.replace(cluster, domain="other.example.org")),
        (authority, cluster_with({"w01": (make_key(tmp_path, "ecdsa"),)})),
    )
    for other, changed in others:
        assert with_derived({"ssh_host_ca": other}, changed)["ssh_host_certificate:w01"] not in first.values()


def test_the_best_of_several_keys_is_certified(tmp_path: Path) -> None:
    cluster = cluster_with({"w01": (make_key(tmp_path, "rsa"), make_key(tmp_path, "ed25519"))})
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster)
    assert derived["ssh_host_certificate:w01"].startswith(b"ssh-ed25519-cert-v01@openssh.com ")


def test_a_node_more_changes_nothing_for_the_others(tmp_path: Path) -> None:
    authority, one, two = new_authority(), make_key(tmp_path, "ed25519"), make_key(tmp_path, "ecdsa")
    before = with_derived({"ssh_host_ca": authority}, cluster_with({"w01": (one,)}))
    after = with_derived({"ssh_host_ca": authority}, cluster_with({"w01": (one,), "w02": (two,)}))
    assert after.keys() - before.keys() == {"ssh_host_certificate:w02"}
    assert {name: after[name] for name in before} == before


def test_nothing_is_derived_without_an_authority(tmp_path: Path) -> None:
    cluster = cluster_with({"w01": (make_key(tmp_path, "ed25519"),)})
    assert with_derived({"munge_key": b"x"}, cluster) == {"munge_key": b"x"}


@pytest.mark.parametrize(
    ("name", "vouched"),
    [
        ("w01", True),
        ("anything", True),
        ("w01.rehearsal.example.org", True),
        ("10.77.0.11", True),
        ("10.77.1.11", False),
        ("github.com", False),
        ("rehearsal.example.org.evil.com", False),
        ("fe80::1", False),
    ],
)
def test_whom_the_authority_may_vouch_for(tmp_path: Path, name: str, vouched: bool) -> None:
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster_with({}))
    (tmp_path / "known_hosts").write_bytes(derived["ssh_known_hosts"])
    done = subprocess.run(["ssh-keygen", "-F", name, "-f", tmp_path / "known_hosts"], capture_output=True, check=False)
    assert (done.returncode == 0) == vouched


@pytest.mark.parametrize(
    ("cidr", "first", "count"),
    [
        ("10.0.0.0/8", "10.*", 1),
        ("10.0.0.0/9", "10.0.*", 128),
        ("10.20.0.0/22", "10.20.0.*", 4),
        ("10.20.4.0/24", "10.20.4.*", 1),
        ("10.20.4.128/26", "10.20.4.128", 64),
    ],
)
def test_subnets_as_patterns(cidr: str, first: str, count: int) -> None:
    patterns = list(address_patterns(Network("cluster", cidr).cidr))
    assert (patterns[0], len(patterns)) == (first, count)
