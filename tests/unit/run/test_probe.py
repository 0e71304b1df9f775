"""Addresses that are asked for machines: what is refused before any is contacted, and what a silent one leaves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hpcforge.errors import UsageError
from hpcforge.plan.observation import Observation
from hpcforge.run.probe import addresses, described, probe
from hpcforge.starter.description import Description, UnixAccount, parsed
from hpcforge.starter.machines import SiteMachine

PLAIN = {"memory_kib": 33_000_000, "os_id": "debian", "os_release": "12"}
BARE = {"os_id": "debian", "os_release": "12", "hostname": "bare", "memory_kib": 33_000_000, "cpus": 8}
USERS = {"ops": UnixAccount(1000, 1000, "/home/ops", "/bin/bash")}


def answer(address: str, hostname: str, **facts: object) -> Observation:
    """The answer of a machine with Python."""
    return Observation(address, {**PLAIN, "hostname": hostname, **facts})


def describing(address: str, **more: object) -> Description:
    """A machine's own description: its account has number 1000."""
    own = {"boot_id": f"boot-{address}", "macs": frozenset({f"mac-{address}"}), "topology": "0,0,0\n"}
    return Description(**{"users": USERS, "groups": {"ops": 1000}, **own, **more})  # type: ignore[arg-type]


def keys(seen: Mapping[str, Observation]) -> dict[str, str]:
    return {address: f"ssh-ed25519 {address}" for address in seen}


def test_addresses_are_expanded_once_each() -> None:
    assert addresses(["10.0.0.[1-3]", "10.0.0.2"]) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


@pytest.mark.parametrize("text", ["gpu01", "10.0.0.[1-300]", "10.0.0.0/24", "::1", "-oProxyCommand=x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        addresses([text])


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 1024 addresses"):
        addresses([f"10.0.{third}.[0-255]" for third in range(5)])


def test_an_address_without_a_machine_is_named() -> None:
    found = probe(["127.77.9.1"], "ops", "sudo", lambda _: None)
    assert found.machines == []
    assert "127.77.9.1" in found.silent


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"memory_kib": 10**18}, "it reports 953674316407 as memory_gib, and 65536 is the most"),
        ({"memory_kib": 0}, "it reports no memory"),
        ({"gpus": {"nvidia": 10**6}}, "it reports 1000000 as gpus, and 16 is the most"),
        ({"topology": "".join(f"{cpu},{cpu},{cpu}\n" for cpu in range(17))}, "it reports 17 as sockets"),
        ({"topology": "".join(f"0,{cpu},{cpu}\n" for cpu in range(513))}, "it reports 513 as cores_per_socket"),
        ({"topology": "".join(f"0,0,{cpu}\n" for cpu in range(9))}, "it reports 9 as threads_per_core"),
    ],
)
def test_a_machine_that_cannot_be_is_left_out_alone(odd: dict[str, object], why: str) -> None:
    topology = str(odd.get("topology", "0,0,0\n"))
    seen = {"10.3.0.6": answer("10.3.0.6", "n6"), "10.3.0.7": answer("10.3.0.7", "n7", **odd)}
    own = {"10.3.0.6": describing("10.3.0.6"), "10.3.0.7": describing("10.3.0.7", topology=topology)}
    found = described(seen, keys(seen), own, "ops")
    assert [machine.name for machine in found.machines] == ["n6"]
    assert list(found.silent) == ["10.3.0.7"]
    assert found.silent["10.3.0.7"].startswith(why)


def test_a_machine_cannot_take_the_name_of_another_address() -> None:
    names = {"10.3.0.6": "debian", "10.3.0.7": "debian", "10.3.0.8": "node-10-3-0-6"}
    seen = {address: answer(address, name) for address, name in names.items()}
    found = described(seen, keys(seen), {address: describing(address) for address in seen}, "ops")
    assert [machine.name for machine in found.machines] == [f"node-10-3-0-{host}" for host in (6, 7, 8)]


# Forms that machines of sites have: hostname, facts and description; then what is said, and the machine or None.
FORMS = {
    "capitals": ("GPU07", {}, {}, "", SiteMachine("gpu07")),
    "a domain": ("gpu07.eu.internal", {}, {}, "", SiteMachine("gpu07")),
    "an underscore": ("gpu_07", {}, {}, "10.3.0.7 calls itself gpu_07: it is gpu-07 here", SiteMachine("gpu-07")),
    "localhost": ("localhost.localdomain", {}, {}, "calls itself localhost: it is", SiteMachine("node-10-3-0-7")),
    "a reserved name": ("all", {}, {}, "10.3.0.7 calls itself all: it is", SiteMachine("node-10-3-0-7")),
    "no hostname": ("(none)", {}, {}, "10.3.0.7 calls itself ?none?: it is", SiteMachine("node-10-3-0-7")),
    "digits first": ("7gpu", {}, {}, "10.3.0.7 calls itself 7gpu: it is", SiteMachine("node-10-3-0-7")),
    "several networks": (
        "n7",
        {},
        {"networks": {"192.0.2.7": "192.0.2.0/24", "10.3.0.7": "10.3.0.0/22"}},
        "",
        SiteMachine("n7", network="10.3.0.0/22"),
    ),
    "an address of a gateway": ("n7", {}, {"networks": {"10.9.0.7": "10.9.0.0/22"}}, "", SiteMachine("n7")),
    "another distribution": (
        "n7",
        {"os_id": "fedora", "os_release": "40"},
        {},
        "n7: hpcforge does not configure fedora 40, but ",
        SiteMachine("n7"),
    ),
    "another release": (
        "n7",
        {"os_release": "13"},
        {},
        'n7: debian 13, others debian 12; write for each: overrides: {NODE: {release: "13", reason: ...}}',
        SiteMachine("n7"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_machines_have_is_taken_or_named(form: str) -> None:
    hostname, facts, more, note, machine = FORMS[form]
    seen = {"10.3.0.7": answer("10.3.0.7", hostname, **facts)}
    seen |= {f"10.3.0.{host}": answer(f"10.3.0.{host}", f"w{host}") for host in (8, 9)}
    own = {address: describing(address) for address in seen} | {"10.3.0.7": describing("10.3.0.7", **more)}
    found = described(seen, keys(seen), own, "ops")
    assert (found.machines[0].name, found.machines[0].network) == (machine.name, machine.network)
    assert note in " ".join(found.notes) if note else found.notes == ()
    assert found.accounts.login == "ops: {uid: 1000, admin: true}"


def test_a_machine_without_python_is_taken_where_apply_installs_it() -> None:
    own = {"10.3.0.6": describing("10.3.0.6", gpus={"nvidia": 4, "amd": 0}, topology="0,0,0\n0,1,1\n")}
    own |= {"10.3.0.7": describing("10.3.0.7")}
    seen = {
        "10.3.0.6": Observation("10.3.0.6", BARE, python=False),
        "10.3.0.7": Observation("10.3.0.7", {**BARE, "os_id": "alpine", "os_release": "3.19"}, python=False),
    }
    found = described(seen, keys(seen), own, "ops")
    [machine] = found.machines
    assert (machine.name, machine.gpus, machine.cores_per_socket) == ("bare", 4, 2)
    assert "10.3.0.6 has no Python 3: `apply` installs it" in found.notes
    assert found.silent == {
        "10.3.0.7": "it has no Python 3, and hpcforge does not configure alpine 3.19: install python3"
    }


def test_a_machine_that_does_not_describe_itself_is_named() -> None:
    why = "sudo: a password is required (on 10.3.0.7: allow ops sudo without a password)"
    seen = {"10.3.0.6": answer("10.3.0.6", "n6"), "10.3.0.7": answer("10.3.0.7", "n7")}
    found = described(seen, keys(seen), {"10.3.0.6": describing("10.3.0.6"), "10.3.0.7": why}, "ops")
    assert ([machine.name for machine in found.machines], found.silent) == (["n6"], {"10.3.0.7": why})


def test_one_machine_is_listed_once_and_clones_are_named() -> None:
    seen = {f"10.3.0.{host}": answer(f"10.3.0.{host}", "debian") for host in (6, 7, 8)}
    first = describing("10.3.0.6", machine_id="d1")
    own = {"10.3.0.6": first, "10.3.0.7": describing("10.3.0.7", machine_id="d1"), "10.3.0.8": first}
    found = described(seen, dict.fromkeys(seen, "ssh-ed25519 SAME"), own, "ops")
    assert [machine.address for machine in found.machines] == ["10.3.0.6", "10.3.0.7"]
    assert "10.3.0.8 and 10.3.0.6 are one machine: it is listed once, at 10.3.0.6" in found.notes
    shared = "the same host key and machine-id"
    assert any(
        note.startswith(f"10.3.0.6, 10.3.0.7 are clones: different machines with {shared}") for note in found.notes
    )
    assert found.machines[0].remarks == ("also at 10.3.0.8", f"a clone: 2 machines have {shared}")


def test_numbers_are_not_known_of_machines_without_a_database_of_accounts() -> None:
    seen = {"10.3.0.6": answer("10.3.0.6", "n6")}
    assert described(seen, keys(seen), {"10.3.0.6": parsed("")}, "ops").accounts.guess.startswith("guess: the number")
