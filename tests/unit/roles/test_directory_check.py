"""Whether a directory may be relied on: which certificates are refused, in which words, and who clashes with whom."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Service
from hpcforge.secrets.host_certificates import current_step, new_authority, with_derived

PROGRAM = bundled.root() / "roles" / "ldap_client" / "directory_check.py"


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("directory_check", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def server(program: ModuleType, folder: Path, address: str, step: int) -> Iterator[str]:
    """A server with a certificate for an address that was made in a step, once; the file of its authority."""
    cluster = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    nodes = tuple(dataclasses.replace(node, address=address) for node in cluster.nodes if node.name == "head")
    services = {"any": Service(on=("head",), certified=True)}
    cluster = dataclasses.replace(cluster, nodes=nodes, services=services)
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster, step)
    (folder / "server.pem").write_bytes(derived["tls_certificate:head"] + derived["tls_key:head"])
    (folder / "ca.pem").write_bytes(derived["tls_authority"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    listening = socket.create_server(("127.0.0.1", 0))
    program.PORT = listening.getsockname()[1]

    def serve() -> None:
        with listening:
            plain, _ = listening.accept()
        with plain, contextlib.suppress(OSError):  # who refuses the certificate goes
            context.wrap_socket(plain, server_side=True).close()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield str(folder / "ca.pem")
    serving.join(30)
    assert not serving.is_alive()


def directory(program: ModuleType, ca: str) -> tuple[object, ...]:
    made: tuple[object, ...] = program.Directory(["127.0.0.1"], "dc=example,dc=org", ca, "", 1000)
    return made


def state(program: ModuleType, ca: str, *entries: dict[str, list[str]]) -> list[str]:
    """What it says of a directory that answers every search with these entries."""
    program.search = lambda *_: list(entries)
    return list(program.state(directory(program, ca)))


def test_a_valid_certificate_is_taken(program: ModuleType, tmp_path: Path) -> None:
    with server(program, tmp_path, "127.0.0.1", current_step()) as ca:
        assert state(program, ca, {"dn": ["dc=example,dc=org"]}) == ["answers: yes", "lasts: yes", "clashes: none"]


def test_where_there_is_no_such_base_nobody_is_looked_for(program: ModuleType, tmp_path: Path) -> None:
    with server(program, tmp_path, "127.0.0.1", current_step()) as ca:
        answers = "answers: 127.0.0.1: there is no 'dc=example,dc=org' in it"
        assert state(program, ca) == [answers, "lasts: yes", "clashes: nobody was asked"]


def test_who_is_here_and_there_is_named_and_can_say_nothing_by_it(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "local", lambda file: [program.Entry("bob", 2002, file)] if "passwd" in file else [])
    bob = {"dn": ["uid=bob\nclashes: none\n"], "uid": ["bob"], "uidnumber": ["2500"]}
    with server(program, tmp_path, "127.0.0.1", current_step()) as ca:
        assert state(program, ca, bob)[2] == (
            "clashes: user bob (2002) of /etc/passwd and user bob (2500) of uid=bob clashes: none : "
            "give one of each pair another name and number"
        )


def test_a_certificate_that_ends_soon_is_told(program: ModuleType, tmp_path: Path) -> None:
    program.LASTS_DAYS = 365
    with server(program, tmp_path, "127.0.0.1", current_step()) as ca:
        answers, lasts, _ = state(program, ca, {"dn": ["dc=example,dc=org"]})
    assert answers == "answers: yes"
    assert re.fullmatch(r"lasts: 127\.0\.0\.1: its certificate is good for \d+ days more", lasts)


@pytest.mark.parametrize(
    ("address", "earlier", "other", "words"),
    [
        ("127.0.0.1", 3, False, "certificate has expired"),
        ("10.0.0.1", 0, False, "IP address mismatch"),
        ("127.0.0.1", 0, True, "unable to get local issuer certificate"),
    ],
)
def test_another_is_refused_in_words(
    program: ModuleType, tmp_path: Path, address: str, earlier: int, other: bool, words: str
) -> None:
    with server(program, tmp_path, address, current_step() - earlier) as ca:
        trusted = "/etc/ssl/certs/ca-certificates.crt" if other else ca
        answers, lasts, clashes = state(program, trusted)
    assert re.fullmatch(f"answers: 127.0.0.1: its certificate is refused: .*{words}.*", answers)
    assert lasts == "lasts: yes"  # what cannot be seen is another question's
    assert clashes == "clashes: nobody was asked"


def test_a_server_that_is_away_is_named_with_the_reason(program: ModuleType, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program.PORT = listening.getsockname()[1]
    answers = state(program, "/etc/ssl/certs/ca-certificates.crt")[0]
    assert answers == f"answers: 127.0.0.1: no answer on port {program.PORT}: Connection refused"


LDIF = """dn: uid=ada,ou=people,dc=example,dc=org
uid: ada
uid:: YmFiYmFnZQ==
uidNumber: 2001

dn: uid=toor,dc=example,dc=org
uid: toor
uidNumber: 0

"""


def test_who_is_there_goes_by_each_name_and_not_below_the_least_number(program: ModuleType) -> None:
    found = list(program.remote(program.entries(LDIF), "uid", "uidNumber", 1000))
    assert [(one.name, one.number) for one in found] == [("ada", 2001), ("babbage", 2001)]


def test_who_is_here_are_no_system_accounts(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nada:x:2001:2001::/home/ada:/bin/sh\nslurm:x:64030:64030::/:/bin/false\n"
        "nobody:x:65534:65534::/:/bin/false\n+::::::\n"
    )
    assert [one.name for one in program.local(str(tmp_path / "passwd"))] == ["ada", "slurm"]


def test_a_name_is_no_filter(program: ModuleType) -> None:
    assert program.escaped("a*)(uid=\\") == r"a\2a\29\28uid=\5c"


def test_numbers_are_those_of_people_and_groups(program: ModuleType) -> None:
    asked: list[tuple[str, ...]] = []

    def search(_: object, __: str, *words: str) -> list[dict[str, list[str]]]:
        asked.append(words)
        group = "dn: cn=lab,dc=example,dc=org\ncn: lab\ngidNumber: 3001\n\n"
        return list(program.entries(LDIF if "(objectClass=posixAccount)" in words else group))

    program.search = search
    directory = program.Directory(["ldap"], "dc=example,dc=org", "", "", 1000)
    assert program.numbers(directory, "ldap") == ["2001 ada", "2001 babbage", "3001 lab"]
    assert all(words[:2] == ("-E", "pr=500/noprompt") for words in asked)
