"""Certificates that lie on nodes: which they are, whose, until when, and what is said of them."""

from __future__ import annotations

import dataclasses
import json

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster, Service
from hpcforge.kinds.files import File
from hpcforge.plan.desired import DesiredRole, Restart, Unit
from hpcforge.plan.roles.role import load_roles
from hpcforge.report.status import certificates_note, status_json, status_text
from hpcforge.run.records.history import History
from hpcforge.run.site import compile_site
from hpcforge.run.status import NodeStatus, Status
from hpcforge.secrets.certificate_expiry import Certificate, certificate_paths, certificates
from hpcforge.secrets.host_certificates import STEP_S, new_authority, with_derived
from hpcforge.verify.verdict_records import Recorded

STEP = 230
BEGAN = float(STEP * STEP_S)
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
SSH, TLS = "/etc/ssh/certificate.pub", "/etc/directory/server.pem"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    found = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    nodes = tuple(dataclasses.replace(node, host_keys=(HOST_KEY,)) for node in found.nodes)
    services = {**found.services, "directory": Service(on=("head",), certified=True)}
    return dataclasses.replace(found, nodes=nodes, services=services)


@pytest.fixture(scope="module")
def texts(cluster: Cluster) -> dict[str, str | None]:
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster, STEP)
    return {SSH: derived["ssh_host_certificate:head"].decode(), TLS: derived["tls_certificate:head"].decode()}


def file(path: str, secret: str | None) -> File:
    return File(path, "0644", "root", "root", None, secret, early=False)


ROLES = (
    DesiredRole(
        "trust",
        resources=(file(SSH, "ssh_host_certificate:head"), file("/etc/ssh/known", "ssh_known_hosts")),
        units=(Unit("ssh.service", (SSH,)), Unit("other.service", ("/etc/other",))),
    ),
    DesiredRole(
        "directory",
        resources=(file(TLS, "tls_certificate:head"), file("/etc/directory/key", "tls_key:head"), file("/etc/x", None)),
        restarts=(Restart("slapd.service", (TLS,)),),
    ),
)


def test_of_files_that_hold_secrets_certificates_alone_are_read() -> None:
    assert certificate_paths(ROLES) == [SSH, TLS]


@pytest.mark.parametrize(
    ("now_s", "state"),
    [
        (BEGAN - 86401, "not yet valid"),
        (BEGAN, "valid"),
        (BEGAN + STEP_S - 1, "valid"),
        (BEGAN + STEP_S, "due"),  # another step has begun: an apply makes new ones
        (BEGAN + 2 * STEP_S - 1, "due"),
        (BEGAN + 2 * STEP_S, "expired"),
    ],
)
def test_both_kinds_end_together_and_units_are_named(texts: dict[str, str | None], now_s: float, state: str) -> None:
    assert STEP_S == 90 * 86400  # what documents promise: renewed from then on, over after twice that
    assert certificates(ROLES, texts, now_s) == (
        Certificate(SSH, "trust", ("ssh.service",), state, BEGAN - 86400, BEGAN + 2 * STEP_S),  # type: ignore[arg-type]
        Certificate(TLS, "directory", ("slapd.service",), state, BEGAN - 86400, BEGAN + 2 * STEP_S),  # type: ignore[arg-type]
    )


def test_what_is_due_is_what_an_apply_would_make_anew(cluster: Cluster, texts: dict[str, str | None]) -> None:
    """The two rules, by remaining time and by step, are one."""
    authority = {"ssh_host_ca": new_authority()}
    first = with_derived(authority, cluster, STEP)["ssh_host_certificate:head"]
    for now_s in (BEGAN, BEGAN + STEP_S - 1, BEGAN + STEP_S, BEGAN + STEP_S + 1):
        anew = with_derived(authority, cluster, int(now_s) // STEP_S)["ssh_host_certificate:head"] != first
        assert (certificates(ROLES, texts, now_s)[0].state == "due") == anew


NONE = {
    "empty": "",
    "a word": "x",
    "not text": "\udcff",
    "no certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "a key": HOST_KEY,
    "cut": "ssh-ed25519-cert-v01@openssh.com AAAA",
    "odd": "ssh-ed25519-cert-v01@openssh.com " + "AAAAB3" * 50,
    "of a terminal": "\x1b[2J" * 1000,
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_what_is_none_is_said_to_be_unreadable(text: str) -> None:
    found = certificates(ROLES, {SSH: text, TLS: text}, BEGAN)
    assert [one.state for one in found] == ["unreadable", "unreadable"]


def test_what_is_not_there_is_a_matter_of_the_plan() -> None:
    assert certificates(ROLES, {SSH: None}, BEGAN) == ()


def test_the_shipped_roles_name_unit_and_path(cluster: Cluster) -> None:
    desired = compile_site(load_roles(bundled.root() / "roles"), {}, cluster)
    named = {name: certificates(roles, dict.fromkeys(certificate_paths(roles), "x"), BEGAN)
             for name, roles in desired.nodes.items()}  # fmt: skip
    of_ssh = ("/etc/ssh/hpcforge_host_certificate.pub", ("ssh.service",))
    assert {(one.path, one.units) for one in named["w01"]} == {of_ssh}
    assert {(one.path, one.units) for one in named["head"]} == {
        of_ssh,
        ("/etc/ldap/hpcforge_server.pem", ("slapd.service",)),
    }


def shown(texts: dict[str, str | None], now_s: float) -> Status:
    bare = Status("small", "head", (), {}, None, None, History(), Recorded())
    of_head = certificates(ROLES, texts, now_s)
    nodes = (NodeStatus("head", None, "idle", None, 1, ("odd",), certificates=of_head),)
    nodes += tuple(NodeStatus(name, None, "idle", None, 1, certificates=of_head[:1]) for name in ("w1", "w2"))
    return dataclasses.replace(bare, nodes=nodes)


def test_status_names_nodes_units_and_what_to_type(texts: dict[str, str | None]) -> None:
    now_s = BEGAN + 2 * STEP_S + 3 * 86400
    text = status_text(shown(texts, now_s), now_s)
    ended = f"the certificate of ssh.service ({SSH}) expired 3 days ago"
    assert f"odd; {ended}; the certificate of slapd.service ({TLS}) expired 3 days ago" in text
    assert any(line.startswith("w[1-2]") and line.endswith(ended) for line in text.splitlines())
    note = certificates_note(shown(texts, now_s), "hpcforge apply small.yaml")
    assert note == "certificates on head,w[1-2] are renewed by: hpcforge apply small.yaml"
    soon = BEGAN + 2 * STEP_S - 34 * 86400
    assert f"({SSH}) expires in 34 days" in status_text(shown(texts, soon), soon)
    well = shown(texts, BEGAN)
    assert "certificate" not in status_text(well, BEGAN)
    assert certificates_note(well, "x") is None
    early = BEGAN - 3 * 86400
    assert f"({SSH}) is not valid for another 2 days" in status_text(shown(texts, early), early)
    assert f"({SSH}) cannot be read" in status_text(shown({SSH: "x", TLS: "y"}, BEGAN), BEGAN)


def test_programs_are_told_of_all_of_them(texts: dict[str, str | None]) -> None:
    document = json.loads(json.dumps(status_json(shown(texts, BEGAN), None)))
    assert document["nodes"]["w1"]["certificates"] == [
        {
            "path": SSH,
            "role": "trust",
            "units": ["ssh.service"],
            "state": "valid",
            "begins_s": BEGAN - 86400,
            "ends_s": BEGAN + 2 * STEP_S,
        }
    ]
