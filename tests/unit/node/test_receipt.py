"""What a node remembers, and that damage to it is never taken for an empty memory."""

import hashlib
import json
from pathlib import Path

import pytest

from hpcforge.node import ownership, receipt
from hpcforge.node.events import NodeError

FULL = receipt.Receipt(frozenset({"munge.service", "slurmd.service"}), {"pytorch": "ab" * 32})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "hpcforge"


def flipped(data: bytes) -> bytes:
    place = data.index(b"abab")
    return data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :]


def test_it_comes_back_private_to_root(folder):
    assert receipt.load(folder) == receipt.EMPTY
    folder.parent.joinpath("hpcforge").mkdir(mode=0o755)
    receipt.save(FULL, folder)
    assert receipt.load(folder) == FULL
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "receipt.json").stat().st_mode & 0o777 == 0o600
    assert FULL.restart_due("munge.service")
    assert not FULL.restart_due("chrony.service")


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-3],
        lambda _: b"",
        lambda data: bytes(len(data)),
        flipped,
        lambda data: data.replace(b"munge", b"chron"),
        lambda _: b"[]",
        lambda _: b"\xff",
    ],
    ids=["truncated", "end lost", "empty", "zeros", "bit flipped", "edited", "another shape", "not UTF-8"],
)
def test_damage_is_trouble(folder, harm):
    receipt.save(FULL, folder)
    path = folder / "receipt.json"
    path.write_bytes(harm(path.read_bytes()))
    found = receipt.load(folder)
    assert "damaged" in found.trouble
    assert found.restart_due("any.service")
    assert not found.opaque
    damaged = path.read_bytes()
    assert receipt.load_for_change(folder).trouble
    assert (folder / "receipt.json.damaged").read_bytes() == damaged  # for a person to look at
    receipt.save(FULL, folder)
    assert receipt.load(folder) == FULL


def test_a_reboot_is_due_until_the_node_has_another_boot(folder, monkeypatch):
    receipt.save(FULL.with_reboots(["driver"]), folder)
    found = receipt.load(folder)
    assert found.reboot_due("driver")
    assert not found.reboot_due("munge")
    monkeypatch.setattr(receipt, "boot_id", lambda: "another")
    assert not found.reboot_due("driver")
    later = found.with_reboots(["kernel"])
    assert (later.reboot_due("driver"), later.reboot_due("kernel")) == (False, True)
    assert list(later.reboots) == ["kernel"]


def test_a_damaged_receipt_restarts_no_node(folder):
    receipt.save(FULL.with_reboots(["driver"]), folder)
    (folder / "receipt.json").write_text("{")
    assert not receipt.load(folder).reboot_due("driver")


def test_newer_is_left_alone(folder):
    receipt.save(FULL, folder)
    path = folder / "receipt.json"
    path.write_text(json.dumps({"schema": receipt.SCHEMA + 1, "else": "entirely"}))
    assert "newer hpcforge" in receipt.load(folder).trouble
    with pytest.raises(NodeError, match=r"use (that|the newer) one"):
        receipt.load_for_change(folder)
    assert "entirely" in path.read_text()


def asks(**more):
    run = {"number": 7, "id": "b", "who": "ann@one", "cluster": "alpha", "hpcforge": "0.1.0", "commit": None}
    return {"run": {**run, **more}}


def test_what_schema_1_knew_is_taken_over(folder):
    folder.mkdir()
    old = {"schema": 1, "restarts": ["munge.service"], "opaque": {"pytorch": "ab"}}
    old["checksum"] = hashlib.sha256(json.dumps(old, sort_keys=True).encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps(old))
    found = receipt.load(folder)
    assert (found.restarts, found.opaque, found.trouble) == ({"munge.service"}, {"pytorch": "ab"}, None)
    receipt.save(found._replace(cluster="alpha"), folder)
    assert [path.name for path in folder.iterdir()] == ["receipt.json"]
    assert receipt.load(folder).opaque == {"pytorch": "ab"}


def test_a_run_is_taken_down(folder, report):
    receipt.save(FULL, folder)
    found = receipt.begin(asks(), report, folder)
    assert (found.cluster, found.run.number, found.run.who, found.hpcforge) == ("alpha", 7, "ann@one", "0.1.0")
    receipt.save(found, folder)
    again = receipt.begin(asks(), report, folder)
    assert again == found  # also the time since when it is here
    later = receipt.begin(asks(number=8, id="c", who="bob@two"), report, folder)
    assert (later.run.number, later.restarts) == (8, FULL.restarts)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            {"number": 6, "id": "a", "who": "bob@two"},
            r"run 6 of bob@two is older than .* \(run 7 of ann@one, here since",
        ),
        (
            {"id": "a", "who": "bob@two"},
            r"run 7 of bob@two has the same number as another run, which reached this node first "
            r"\(run 7 of ann@one, here since",
        ),
        ({"number": 8, "id": "c", "cluster": "beta"}, "belongs to cluster 'alpha', not to 'beta'"),
    ],
    ids=["older", "same number", "other cluster"],
)
def test_what_must_not_change_this_node_is_refused(folder, report, run, why):
    receipt.save(receipt.begin(asks(), report, folder), folder)
    before = (folder / "receipt.json").read_bytes()
    with pytest.raises(NodeError, match=why):
        receipt.begin(asks(**run), report, folder)
    assert (folder / "receipt.json").read_bytes() == before


def test_nothing_is_written_where_nothing_is_new(folder):
    receipt.save(FULL, folder)
    inode = (folder / "receipt.json").stat().st_ino
    receipt.save(FULL, folder)
    assert (folder / "receipt.json").stat().st_ino == inode


WRITTEN_BEFORE = (Path(__file__).parent / "receipts/schema_2.json").read_bytes()  # by hpcforge before kinds had a table


def test_what_an_earlier_hpcforge_wrote_is_read_and_written_as_it_was(folder):
    folder.mkdir()
    (folder / "receipt.json").write_bytes(WRITTEN_BEFORE)
    found = receipt.load(folder)
    assert found.trouble is None
    assert found.run.number == 7
    assert found.roles["users"]["accounts"] == {"ada": True, "ops": False}
    assert found.roles["time"]["files"]["/etc/chrony/chrony.conf"]["was"] == "ef" * 32
    left = ownership.surplus(found, [])
    assert {role: {key: one[key] for key in one if key != "stays"} for role, one in left.items()} == {
        "time": {"files": ["/etc/chrony/chrony.conf"], "units": ["chrony.service"], "on_remove": "purge"},
        "users": {
            "accounts": ["ada", "ops"],
            "directories": ["/srv/data"],
            "files": ["/etc/sudoers.d/admins"],
            "on_remove": "stop",
        },
    }
    receipt.save(found._replace(restarts=frozenset()), folder)
    receipt.save(found, folder)
    assert (folder / "receipt.json").read_bytes() == WRITTEN_BEFORE


def test_kinds_that_are_not_known_here_are_left_to_who_knows_them(folder):
    folder.mkdir()
    document = json.loads(WRITTEN_BEFORE)
    document["roles"]["users"]["quotas"] = {"ada": {"before": None}}
    document["checksum"] = receipt._checksum(document)
    (folder / "receipt.json").write_text(json.dumps(document))
    with pytest.raises(NodeError, match="another hpcforge, which added quotas"):
        receipt.load_for_change(folder)


RECORDED = Path(__file__).parent / "receipts/schema_3.json"  # by hpcforge before package managers had a seam
OF_APT = {
    "role": "driver",
    "packages": ["munge", "jq"],
    "sources": [
        {
            "name": "hpcforge-record",
            "uris": ["https://repo.example.org/debian"],
            "suites": ["bookworm"],
            "components": ["main"],
            "architectures": ["amd64"],
            "signed_by": "/usr/share/keyrings/example.gpg",
        }
    ],
    "pins": [{"name": "hpcforge-record", "packages": ["munge"], "pin": "version 0.5*", "priority": 600}],
    "holds": [{"name": "munge"}],
    "files": [],
    "owns": {"on_remove": "purge"},
}


def test_a_receipt_of_packages_sources_pins_and_holds_is_the_same_as_before(folder):
    folder.mkdir()
    (folder / "receipt.json").write_bytes(RECORDED.read_bytes())
    before = receipt.load(folder)
    assert before.trouble is None
    owned = ownership.written(ownership.intend(receipt.EMPTY, [OF_APT], ["munge", "jq"]), [OF_APT])
    assert owned.roles == before.roles
    again = folder.with_name("again")
    receipt.save(owned, again)
    assert (again / "receipt.json").read_bytes() == RECORDED.read_bytes()
