"""Forty controllers at once, one of each kind of wrong answer: each is named, none delays another or lasts too long."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.metal.bmc import https
from hpcforge.metal.bmc.verbs import Wish
from hpcforge.metal.discover import Silent, ask, search
from hpcforge.metal.machine_matching import Machine
from hpcforge.metal.power import Outcome, carried_out, controllers
from hpcforge.run.site import Site
from tests.support.fake_bmc import ROOT, SYSTEM, FakeBmc, Reply, collection, serving
from tests.support.metal_site import metal_site

COUNT = 40
_NET = "127.78.40"
_ODD = {
    "Boot": ["Pxe"], "PowerState": 7, "MemorySummary": "much", "ProcessorSummary": {"Count": "two"},
    "EthernetInterfaces": [], "Processors": 3, "SerialNumber": {"a": 1}, "Actions": None,
}  # fmt: skip
_LICENCE = b'{"error": {"@Message.ExtendedInfo": [{"MessageId": "SMC.1.0.OemLicenseNotPassed"}]}}'


def _garbage(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n" * 20)


def _hosts() -> dict[str, object]:
    """Two systems that could each be the machine."""
    boot = {"Boot": {"BootSourceOverrideEnabled": "Disabled"}, "PowerState": "On"}
    return {f"{ROOT}/Systems": collection(SYSTEM, f"{ROOT}/Systems/2"), f"{ROOT}/Systems/2": boot}


def wrong(release: threading.Event) -> dict[str, tuple[FakeBmc, str, str]]:
    """By kind: a controller, and what discovery and the power state say of it; "": it is read as any other."""

    def silent(_connection: socket.socket) -> None:
        release.wait(60)

    def root(**reply: object) -> dict[str, Reply]:
        return {SYSTEM: Reply(**reply)}  # type: ignore[arg-type]

    several = {"Location": f"https://192.0.2.1{SYSTEM}"}
    return {
        "HTML": (FakeBmc(replies=root(raw=b"<html>login</html>")), "a web page", "a web page"),
        "cut off": (FakeBmc(replies=root(raw=b'{"PowerState"', length=500)), "cut off after 13", "cut off after 13"),
        "endless": (FakeBmc(replies=root(raw=b" " * 65536, length=-1)), "without an end", "without an end"),
        "50 MB": (FakeBmc(replies=root(raw=b"{", length=50_000_000)), "50000000 bytes", "50000000 bytes"),
        "503": (FakeBmc(replies=root(status=503, headers={"Retry-After": "3600"})), "before 3600 s", "before 3600 s"),
        "silent": (FakeBmc(talk=silent), "no connection", "no connection"),
        "no answer": (FakeBmc(does=("holds",), release=release), "closed the connection", "closed the connection"),
        "trickles": (FakeBmc(does=("trickles",), release=release), "not an HTTP answer", "not an HTTP answer"),
        "no TLS": (FakeBmc(talk=_garbage), "not TLS", "not TLS"),
        "401": (FakeBmc(does=("refused-login",)), "refuses user admin", "refuses user admin"),
        "licence": (FakeBmc(replies={f"{SYSTEM}/EthernetInterfaces": Reply(403, _LICENCE)}), "", ""),
        "circle": (FakeBmc(replies=root(status=301, headers={"Location": f"{SYSTEM}/"})), "in a circle", "in a circle"),
        "elsewhere": (FakeBmc(replies=root(status=302, headers=several)), "another host", "another host"),
        "odd types": (FakeBmc(resources={SYSTEM: _ODD}), "", "no power state"),
        "two machines": (FakeBmc(resources=_hosts()), "2 of its systems", "2 of its systems"),
        "off": (FakeBmc(memory_gib=0), "", ""),
        "slash": (FakeBmc(does=("redirects",)), "", ""),
        "no members": (FakeBmc(resources={f"{ROOT}/Systems": collection()}), "", "lists no system"),
        "many members": (
            FakeBmc(resources={f"{SYSTEM}/EthernetInterfaces": collection(*(f"{ROOT}/no/{n}" for n in range(9000)))}),
            "",
            "",
        ),
        "too deep": (FakeBmc(replies=root(raw=b"[" * 500_000)), "not JSON|cut off", "not JSON|cut off"),
        "breaks off": (FakeBmc(does=("breaks-off",)), "closed the connection", "closed the connection"),
        "500": (FakeBmc(replies=root(status=500)), "HTTP 500", "HTTP 500"),
    }


SLOW = ("silent", "no answer", "trickles")
KINDS = tuple(wrong(threading.Event()))


@dataclass(frozen=True)
class Forty:
    """The site; kinds and the expected words by address and by node; what lets the slow ones go."""

    site: Site
    kinds: dict[str, tuple[str, str, str]]  # by address
    release: threading.Event
    bmcs: list[FakeBmc]

    def address(self, node: str) -> str:
        """Where a node's controller is."""
        bmc = self.site.cluster.by_name[node].bmc
        assert bmc is not None and bmc.address is not None
        return bmc.address


@contextmanager
def forty(folder: Path) -> Iterator[Forty]:
    release = threading.Event()
    table = wrong(release)
    bmcs = [fake for fake, _, _ in table.values()]
    good = [FakeBmc() for _ in range(COUNT - len(bmcs))]
    # Those that are slow come first, so that they have their threads before any other.
    order = [*sorted(table, key=lambda kind: kind not in SLOW), *(f"good {number}" for number in range(len(good)))]
    fakes = [table[kind][0] if kind in table else good[int(kind.split()[1])] for kind in order]
    for number, fake in enumerate(fakes, 1):
        fake.serial, fake.macs, fake.on = f"SN{number}", (f"02:00:00:00:00:{number:02x}",), True
    try:
        with serving(folder, fakes, _NET) as at:
            found = metal_site(folder, at, workers=COUNT - 2)
            site = open_site(found.blueprint, None, None, folder / "key", needs_lab=False)
            texts = {
                kind: (kind, table[kind][1], table[kind][2]) if kind in table else (kind, "", "") for kind in order
            }
            yield Forty(site, dict(zip(at.addresses, texts.values(), strict=True)), release, fakes)
            release.set()
    finally:
        release.set()


def released(here: Forty, order: list[str], address: str) -> None:
    """Note an answer; once all but the slow ones have answered, these are let go."""
    order.append(here.kinds[address][0])
    if len(order) == COUNT - len(SLOW):
        here.release.set()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit ends a slow controller: only its release does."""
    monkeypatch.setattr(https, "EXCHANGE_S", 50.0)
    monkeypatch.setattr(https, "_CONNECT_S", 50.0)


@pytest.mark.usefixtures("patient")
def test_discovery_names_each_and_waits_for_none_before_the_others(tmp_path: Path) -> None:
    with forty(tmp_path) as here:
        order: list[str] = []
        machines, silent = ask(here.site, search(here.site, ()), False, lambda one: released(here, order, one.address))
        assert set(order[-len(SLOW) :]) == set(SLOW), order
        answers: dict[str, Machine | Silent] = {one.address: one for one in (*machines, *silent)}
        assert len(answers) == COUNT
        for address, (kind, why, _) in here.kinds.items():
            one = answers[address]
            assert re.search(why, one.why) if isinstance(one, Silent) else not why, (kind, one)
        read = {here.kinds[machine.address][0]: machine for machine in machines}
        assert read["good 0"].memory_gib == 64 and read["slash"].memory_gib == 64
        assert not read["licence"].macs and not read["many members"].macs
        assert not read["off"].memory_gib
        assert len(next(fake for fake in here.bmcs if "refused-login" in fake.does).logins) == 1
        lists = [fake for fake in here.bmcs if f"{SYSTEM}/EthernetInterfaces" in fake.resources]
        assert len(lists[0].asked) < 600  # of 9000 members


@pytest.mark.usefixtures("patient")
def test_the_power_state_of_forty_is_there_before_the_slow_ones_end(tmp_path: Path) -> None:
    with forty(tmp_path) as here:
        names = [node.name for node in here.site.cluster.nodes]
        assert len(names) == COUNT
        order: list[str] = []
        outcomes: list[Outcome] = []
        for outcome in carried_out(controllers(here.site, names), names, Wish("status")):
            outcomes.append(outcome)
            released(here, order, here.address(outcome.node))
        assert set(order[-len(SLOW) :]) == set(SLOW), order
        for outcome in outcomes:
            kind, _, why = here.kinds[here.address(outcome.node)]
            assert re.search(why, outcome.why) if why else not outcome.why, (kind, outcome)
            assert outcome.power == ("unknown" if why else "on"), (kind, outcome)


@pytest.mark.parametrize("kind", SLOW)
def test_a_slow_one_ends_at_its_limit(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "EXCHANGE_S", 0.5)
    monkeypatch.setattr(https, "_CONNECT_S", 0.5)
    release = threading.Event()
    try:
        with serving(tmp_path, [wrong(release)[kind][0]], _NET) as at:
            site = open_site(metal_site(tmp_path, at).blueprint, None, None, tmp_path / "key", needs_lab=False)
            began = time.monotonic()
            _, (silent,) = ask(site, search(site, ()), False, lambda _one: None)
            (outcome,) = carried_out(controllers(site, ["store"]), ["store"], Wish("status"))
            assert time.monotonic() - began < 25  # and not the 60 s that it would take
            release.set()
    finally:
        release.set()
    assert silent.reason == outcome.reason == "unreachable"
    assert re.search("within 0.5 s|no connection to port .* timed out", silent.why), silent
    assert outcome.state == "unreachable"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SLOW])
def test_no_kind_of_answer_takes_as_long_as_a_controller_may(tmp_path: Path, kind: str) -> None:
    fake, _, _ = wrong(threading.Event())[kind]
    fake.serial, fake.macs = "SN1", ("02:00:00:00:00:01",)
    with serving(tmp_path, [fake], _NET) as at:
        site = open_site(metal_site(tmp_path, at).blueprint, None, None, tmp_path / "key", needs_lab=False)
        say: Callable[[Machine | Silent], None] = lambda _one: None  # noqa: E731
        began = time.monotonic()
        machines, silent = ask(site, search(site, ()), False, say)
        assert len(machines) + len(silent) == 1
        assert time.monotonic() - began < 25
