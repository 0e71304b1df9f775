"""Host certificates, judged by OpenSSH's own tools."""

from __future__ import annotations

import dataclasses
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster, Network
from hpcforge.secrets.host_certificates import (
    STEP_S,
    address_patterns,
    authority_fingerprint,
    new_authority,
    with_derived,
    with_revoked,
)

STEP = 230  # from 2026-09-03 on


def keygen(*arguments: str | Path) -> str:
    done = subprocess.run(["ssh-keygen", *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def make_key(folder: Path, kind: str) -> str:
    keygen("-q", "-t", kind, "-N", "", "-C", "root@node", "-f", folder / kind)
    return (folder / f"{kind}.pub").read_text().strip()


def cluster_with(keys: dict[str, tuple[str, ...]]) -> Cluster:
    cluster = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    nodes = tuple(dataclasses.replace(node, host_keys=keys.get(node.name, ())) for node in cluster.nodes)
    return dataclasses.replace(cluster, nodes=nodes)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_ssh_keygen_reads_what_we_sign(tmp_path: Path, kind: str) -> None:
    cluster, authority = cluster_with({"w01": (make_key(tmp_path, kind),)}), new_authority()
    derived = with_derived({"ssh_host_ca": authority}, cluster, STEP)
    (tmp_path / "cert.pub").write_bytes(derived["ssh_host_certificate:w01"])
    shown = [line.strip() for line in keygen("-L", "-f", tmp_path / "cert.pub").splitlines()]
    assert shown[1].endswith("host certificate")
    assert keygen("-l", "-f", tmp_path / kind).split()[1] in shown[2]
    assert authority_fingerprint(authority) in shown[3]
    names = shown[shown.index("Principals:") + 1 : shown.index("Critical Options: (none)")]
    assert names == ["w01", "w01.rehearsal.example.org", "10.77.0.11"]
    (valid,) = [line for line in shown if line.startswith("Valid:")]
    began, ended = (datetime.fromisoformat(word).timestamp() for word in valid.split()[2::2])
    assert (began, ended) == (STEP * 90 * 86400 - 86400, (STEP + 2) * 90 * 86400)


def test_the_same_inputs_give_the_same_bytes_and_other_inputs_other_ones(tmp_path: Path) -> None:
    cluster, authority = cluster_with({"w01": (make_key(tmp_path, "ed25519"),)}), new_authority()
    first = with_derived({"ssh_host_ca": authority}, cluster, STEP)
    assert with_derived({"ssh_host_ca": authority}, cluster, STEP) == first
    others = (
        (new_authority(), cluster),
        (authority, dataclasses.replace(cluster, domain="other.example.org")),
        (authority, cluster_with({"w01": (make_key(tmp_path, "ecdsa"),)})),
    )
    assert with_derived({"ssh_host_ca": authority}, cluster, STEP + 1) != first
    for other, changed in others:
        assert with_derived({"ssh_host_ca": other}, changed, STEP)["ssh_host_certificate:w01"] not in first.values()


def test_the_best_of_several_keys_is_certified(tmp_path: Path) -> None:
    cluster = cluster_with({"w01": (make_key(tmp_path, "rsa"), make_key(tmp_path, "ed25519"))})
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster, STEP)
    assert derived["ssh_host_certificate:w01"].startswith(b"ssh-ed25519-cert-v01@openssh.com ")


def test_a_node_more_changes_nothing_for_the_others(tmp_path: Path) -> None:
    authority, one, two = new_authority(), make_key(tmp_path, "ed25519"), make_key(tmp_path, "ecdsa")
    before = with_derived({"ssh_host_ca": authority}, cluster_with({"w01": (one,)}), STEP)
    after = with_derived({"ssh_host_ca": authority}, cluster_with({"w01": (one,), "w02": (two,)}), STEP)
    assert after.keys() - before.keys() == {"ssh_host_certificate:w02"}
    assert {name: after[name] for name in before} == before


def test_at_any_time_those_of_two_steps_are_valid(tmp_path: Path) -> None:
    """So that there are 90 days to bring a new one, even to who got the last on its last day."""
    cluster, authority = cluster_with({"w01": (make_key(tmp_path, "ed25519"),)}), new_authority()
    spans = []
    for step in (STEP, STEP + 1, STEP + 2):
        certificate = with_derived({"ssh_host_ca": authority}, cluster, step)["ssh_host_certificate:w01"]
        (tmp_path / "cert.pub").write_bytes(certificate)
        (valid,) = [line for line in keygen("-L", "-f", tmp_path / "cert.pub").splitlines() if "Valid:" in line]
        spans.append([datetime.fromisoformat(word).timestamp() for word in valid.split()[2::2]])
    first, second, third = spans
    assert first[1] - second[0] >= STEP_S
    assert first[1] - third[0] <= 86400  # the slack for clocks


def test_a_revoked_key_is_refused_in_the_cluster_and_there_alone(tmp_path: Path) -> None:
    cluster, gone = cluster_with({}), make_key(tmp_path, "ed25519")
    secrets = with_revoked({"ssh_host_ca": new_authority()}, [gone])
    assert with_revoked(secrets, [gone]) == secrets
    (tmp_path / "known_hosts").write_bytes(with_derived(secrets, cluster, STEP)["ssh_known_hosts"])

    def revoked(name: str) -> bool:
        argv = ["ssh-keygen", "-F", name, "-f", str(tmp_path / "known_hosts")]
        found = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        return any(line.startswith("@revoked") and gone.split()[1] in line for line in found.splitlines())

    inside = [revoked(name) for name in ("w01", "w01.rehearsal.example.org", "10.77.0.11")]
    assert (inside, revoked("github.com"), revoked("10.78.0.1")) == ([True] * 3, False, False)
    back = with_derived(secrets, cluster_with({"w02": (gone,)}), STEP)["ssh_known_hosts"]
    assert b"@revoked" not in back


def test_nothing_is_derived_without_an_authority(tmp_path: Path) -> None:
    cluster = cluster_with({"w01": (make_key(tmp_path, "ed25519"),)})
    assert with_derived({"munge_key": b"x"}, cluster, STEP) == {"munge_key": b"x"}


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
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster_with({}), STEP)
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
