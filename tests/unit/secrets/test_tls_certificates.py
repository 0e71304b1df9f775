"""Certificates for TLS: taken by OpenSSL as a client takes them, and the same for the same blueprint."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster, Service
from hpcforge.plan.secrets import is_public
from hpcforge.secrets.host_certificates import STEP_S, current_step, new_authority, with_derived


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    found = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    return dataclasses.replace(found, services={"any": Service(on=("head",), certified=True)})


def test_only_nodes_of_services_that_want_one_have_a_certificate(cluster: Cluster) -> None:
    authority = {"ssh_host_ca": new_authority()}
    derived = with_derived(authority, cluster, 230)
    names = {name for name in derived if name.startswith("tls_")}
    assert names == {"tls_authority", "tls_certificate:head", "tls_key:head"}
    assert {name for name in names if not is_public(name)} == {"tls_key:head"}
    for services in ({}, {"any": Service(on=("head",))}, {"any": Service(external=("a",), certified=True)}):
        without = with_derived(authority, dataclasses.replace(cluster, services=services), 230)
        assert not [name for name in without if name.startswith("tls_")]


def test_the_same_inputs_give_the_same_bytes_and_a_step_another_certificate(cluster: Cluster) -> None:
    authority = {"ssh_host_ca": new_authority()}
    first, next_ = with_derived(authority, cluster, 230), with_derived(authority, cluster, 231)
    assert with_derived(authority, cluster, 230) == first
    changed = {name for name in first if name.startswith("tls_") and first[name] != next_[name]}
    assert changed == {"tls_certificate:head"}
    other = with_derived({"ssh_host_ca": new_authority()}, cluster, 230)
    assert not [name for name in first if name.startswith("tls_") and first[name] == other[name]]
    seen = x509.load_pem_x509_certificate(first["tls_certificate:head"])
    assert (seen.not_valid_before_utc.timestamp(), seen.not_valid_after_utc.timestamp()) == (
        230 * STEP_S - 86400,
        232 * STEP_S,
    )


def served(folder: Path, derived: dict[str, bytes]) -> tuple[threading.Thread, int]:
    """A server that shows the certificate to the first who comes; its port."""
    pem = folder / "server.pem"
    pem.write_bytes(derived["tls_certificate:head"] + derived["tls_key:head"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening:
            plain, _ = listening.accept()
        with plain, contextlib.suppress(OSError):  # who refuses the certificate goes
            context.wrap_socket(plain, server_side=True).close()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    return serving, listening.getsockname()[1]


@pytest.mark.parametrize(
    ("name", "taken"), [("10.77.0.10", True), ("head", True), ("head.rehearsal.example.org", True), ("w01", False)]
)
def test_openssl_takes_it_for_the_nodes_own_names(tmp_path: Path, cluster: Cluster, name: str, taken: bool) -> None:
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster, current_step())
    serving, port = served(tmp_path, derived)
    client = ssl.create_default_context(cadata=derived["tls_authority"].decode())
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        if taken:
            with client.wrap_socket(plain, server_hostname=name) as tls:
                end = ssl.cert_time_to_seconds(str((tls.getpeercert() or {})["notAfter"]))
                assert end > time.time() + STEP_S
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
                client.wrap_socket(plain, server_hostname=name)
    serving.join(30)
    assert not serving.is_alive()
