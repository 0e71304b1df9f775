"""Taking away what is ours, on a real node: what was there before comes back, and nothing else is touched."""

import hashlib
import json
from typing import Any

import pytest

from hpcforge.node import kept_on_removal
from hpcforge.node.kinds import accounts
from tests.support.node_program import KILL, Node, converge, details, of

pytestmark = pytest.mark.lab
SAME = hashlib.sha256(b"same\n").hexdigest()
NAPS = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"
LOOK = r"""
for f in /etc/before /etc/link /etc/new /etc/new/a/b.conf /etc/same /srv/made /etc/kept.d \
    /etc/systemd/system/naps.service
do [ -e $f ] || [ -L $f ] && stat -c '%N %a %U %F' $f && [ -f $f ] && sha256sum < $f; done
systemctl is-active naps munge ssh; systemctl is-enabled naps munge ssh 2>&1
dpkg-query -W -f '${Package} ${db:Status-Status}\n' less munge libmunge2 2>/dev/null
sudo getent shadow guest; getent passwd guest; ls -d /home/guest
sudo find /etc /srv /var/lib/hpcforge -name '.hpcforge-*' -o -path '*/originals/*'
true
"""


@pytest.fixture
def work(wanted) -> list[dict[str, Any]]:
    """Two roles with one of everything, and what was there before them."""
    directory = {**wanted.directory("/srv/made/data"), "owner": "root", "group": "root"}
    return [
        {
            "role": "files",
            "files": [
                wanted.root_file("/etc/before", "ours\n"),
                wanted.root_file("/etc/link", "ours\n"),
                wanted.root_file("/etc/new/a/b.conf", "ours\n"),
                wanted.root_file("/etc/kept.d/x", "ours\n"),
            ],
            "directories": [directory],
            "accounts": [{"name": "guest", "uid": 2345, "home": "/home/guest", "shell": "/bin/sh"}],
            "owns": {"files": ["/etc/same"]},
        },
        {
            "role": "daemons",
            "packages": ["less", "munge"],
            "files": [wanted.root_file("/etc/systemd/system/naps.service", NAPS)],
            "owns": {"units": ["naps.service", "munge.service", "ssh.service"], "on_remove": "purge"},
        },
    ]


@pytest.fixture
def before(node: Node, work) -> str:
    """How the node was before us; nothing of another test is left on it."""
    node.send(converge("remove", [], leave=True))
    node.shell(
        "sudo sh -c 'rm -rf /var/lib/hpcforge /etc/new /srv/made; apt-get purge -qy less munge; userdel -rf guest; "
        "mkdir -p /etc/kept.d; "
        "echo by hand > /etc/kept.d/hand; rm -f /etc/kept.d/x; echo before us > /etc/before; chmod 0640 /etc/before; "
        "chown root:adm /etc/before; ln -sf /etc/hostname /etc/link; echo same > /etc/same'",
        check=False,
    )
    return node.shell(LOOK)


def install(node: Node, work) -> None:
    assert of(node.send(converge("prepare", work, restarts=["naps.service"])), "done")[0]["failed"] == []
    up = {"role": "daemons", "units": [{"name": "naps.service", "actions": ["enable", "start"]}]}
    if len(work) > 1:
        assert node.send(converge("finish", [up]))[-1]["failed"] == []


def surplus(node: Node) -> list[dict[str, Any]]:
    return [{"role": role, **left} for role, left in node.observed()["receipt"]["surplus"].items()]


def strip(text: str) -> list[str]:
    """Without the account, its home, and packages that came as dependencies: those stay. Without /etc/same: it goes."""
    gone = ("guest", "/home/guest", "libmunge2", SAME)
    return [line for line in text.splitlines() if not line.startswith(gone) and "/etc/same" not in line]


def test_what_was_before_comes_back(node, work, before):
    install(node, work)
    asked = surplus(node)
    assert [one["role"] for one in asked] == ["daemons", "files"]
    events = node.send(converge("remove", asked))
    assert events[-1]["failed"] == []
    did = details(events)
    assert (did["/etc/before"], did["/etc/new/a/b.conf"], did["/etc/link"]) == ("restored", "removed", "restored")
    assert (did["naps.service"], did["munge"], did["guest"]) == ("stopped, disabled", "purged", "locked")
    assert (did["/srv/made/data"], did["/etc/new"], did["/etc/same"]) == ("removed", "removed", "removed")
    after = node.shell(LOOK)
    assert strip(after) == strip(before)
    assert "guest:!:" in after
    assert "/home/guest" in after
    assert node.observed()["receipt"]["surplus"] == {}
    login = node.shell("sudo su guest -c 'echo in' 2>&1; sudo -u guest sh -c 'echo in' 2>&1", check=False)
    assert "expired" in login

    install(node, work)  # back again: the account, too, and it is still ours
    assert details(node.send(converge("remove", surplus(node))))["guest"] == "locked"


def test_an_account_of_before_stays_open_and_is_named(node, work, before):
    """Also one that we made and whose receipt was lost: it is not taken from somebody by mistake."""
    node.shell("sudo useradd --uid 2345 --home-dir /home/guest --create-home --shell /bin/sh guest")
    shadow = node.shell("sudo getent shadow guest")
    users = [{"role": "files", "accounts": work[0]["accounts"]}]
    install(node, users)
    asked = surplus(node)
    stays = {"kind": "account", "names": ["guest"], "why": accounts.OPEN}
    assert asked == [{"role": "files", "accounts": ["guest"], "on_remove": "stop", "stays": [stays]}]
    events = node.send(converge("remove", asked))
    (said,) = of(events, "warning")
    assert "not locked, since they existed before hpcforge: guest; to lock an account: usermod" in said["detail"]
    assert of(events, "remains") == [{"event": "remains", "stays": [stays]}]
    assert node.shell("sudo getent shadow guest") == shadow
    assert node.observed()["receipt"]["surplus"] == {}
    node.shell("sudo usermod --lock --expiredate 1 guest")  # as it says
    login = node.shell("sudo su guest -c 'echo in' 2>&1", check=False)
    assert "expired" in login


def test_cut_off_at_every_step_it_ends_the_same(node, work, before):
    install(node, work)
    asked = surplus(node)
    uncut = None
    for events in (0, 3, 6, 9, 11):
        install(node, work)
        with node.started(converge("remove", asked)) as program:
            for _ in range(events):
                program.stdout.readline()
            node.shell(KILL, check=False)
            program.stdout.read()
        node.send({"verb": "wait", "timeout_s": 120})
        ended = node.send(converge("remove", asked))
        assert ended[-1]["failed"] == [], events
        found = strip(node.shell(LOOK))
        uncut = uncut or found
        assert found == uncut, events
        assert node.observed()["receipt"]["surplus"] == {}


def test_leaving_takes_everything_and_the_receipt(node, work, before):
    install(node, work)
    node.send(converge("prepare", [{"role": "third", "files": []}]))
    events = node.send(converge("remove", [], leave=True))
    assert events[-1]["failed"] == []
    assert details(events)["naps.service"] == "stopped, disabled"
    assert node.shell("sudo ls /var/lib/hpcforge", check=False) == ""
    assert node.observed()["receipt"] == {
        **{"run": 0, "who": "", "since_s": 0.0, "cluster": None, "hpcforge": None},
        **{"trouble": None, "surplus": {}, "unowned": []},
    }
    assert node.send(converge("remove", [], leave=True))[-1]["failed"] == []


def test_a_node_with_a_damaged_receipt_does_not_leave_in_silence(node, work, before):
    node.send(converge("prepare", [work[0]]))
    node.shell("sudo truncate -s -9 /var/lib/hpcforge/receipt.json")
    [failed] = of(node.send(converge("remove", [], leave=True)), "failed")
    assert "is damaged" in failed["error"]
    assert "add the node to the blueprint again" in failed["error"]
    assert node.shell("cat /etc/new/a/b.conf") == "ours\n"


def test_what_is_not_ours_is_left_alone(node, work, before):
    install(node, work[:1])
    node.shell("echo edited | sudo tee /etc/same /etc/new/a/b.conf; sudo touch /srv/made/data/precious")
    asked = [{"role": "files", **surplus(node)[0], "units": ["ssh.service"]}]
    asked[0]["files"] += ["/etc/passwd"]
    asked += [{"role": "never", "files": ["/etc/hostname"], "packages": ["bash"], "accounts": ["ops"]}]
    events = node.send(converge("remove", asked))
    assert events[-1]["failed"] == []
    warnings = " ".join(one["detail"] for one in of(events, "warning"))
    assert "files: /etc/passwd, ssh.service: not in this node's record" in warnings
    assert "never: ops, /etc/hostname, bash: not in this node's record" in warnings
    assert "/etc/same was changed since hpcforge wrote it" in warnings
    assert node.shell("cat /etc/same; ls /srv/made/data; test -s /etc/passwd; systemctl is-active ssh").split() == [
        "edited",
        "precious",
        "active",
    ]
    assert details(events)["/etc/new/a/b.conf"] == "removed; it was changed by hand before"


def test_kept_is_only_forgotten(node, work, before):
    install(node, work[:1])
    events = node.send(converge("remove", [{**surplus(node)[0], "on_remove": "keep"}]))
    assert (events[-1]["changed"], events[-1]["failed"]) == (0, [])
    assert node.shell("cat /etc/before") == "ours\n"
    assert node.observed()["receipt"]["surplus"] == {}


def test_a_purge_that_would_take_others_along_is_refused(node, wanted, before):
    work = [{"role": "lib", "packages": ["libmunge2"], "owns": {"on_remove": "purge"}}]
    node.shell("sudo apt-get purge -qy libmunge2")
    node.send(converge("prepare", work))
    node.shell("sudo apt-get install -qy munge")
    [failed] = of(node.send(converge("remove", surplus(node))), "failed")
    assert "purging libmunge2 would also remove munge: nothing was purged" in failed["error"]
    assert "libmunge2" in json.dumps(surplus(node))
    assert "installed" in node.shell("dpkg-query -W -f '${db:Status-Status}' munge")


def test_what_code_made_goes_and_the_node_says_what_stays(node, wanted, before):
    """Before it goes by the receipt, afterwards by looking."""
    node.shell("sudo mkdir -p /opt/was-there /var/state && sudo touch /opt/was-there/theirs")
    node.shell("sudo apt-get update -q; sudo rm -rf /opt/ours")
    trees = {"trees": ["/opt/ours/tree", "/opt/was-there"], "leaves": [{"path": "/var/state", "why": "its state"}]}
    name = [wanted.root_file("/etc/kept.d/x", "ours\n")]
    work = [
        {"role": "base", "files": name, "owns": {"on_remove": "keep"}},
        {"role": "coded", "packages": ["less"], "owns": {**trees, "units": ["ssh.service"], "disrupts": "drain"}},
        {"role": "site_ntp", "files": [wanted.root_file("/etc/new/full/f")]},
    ]
    install(node, work[:1])
    assert node.send(converge("prepare", work))[-1]["failed"] == []
    for role in ("coded", "site_ntp"):
        node.send({"verb": "record", "role": role, "digest": "d"})
    node.shell("sudo mkdir -p /opt/ours/tree/a/b && sudo touch /opt/ours/tree/a/b/file /etc/new/full/theirs")

    left = node.observed()["receipt"]["surplus"]
    assert (left["coded"]["trees"], left["coded"]["disrupts"]) == (["/opt/ours/tree"], "drain")
    foretold = [one for role in left.values() for one in role.get("stays", ())]
    events = node.send(converge("remove", [], leave=True))
    assert events[-1]["failed"] == []
    [said] = of(events, "remains")
    stays = {name: one["why"] for one in said["stays"] for name in one["names"]}
    assert stays == {
        "site_ntp": kept_on_removal.CODE,
        "ssh.service": kept_on_removal.RAN,
        "/opt/was-there": kept_on_removal.BEFORE,
        "less": kept_on_removal.PACKAGES.format("apt-get purge"),
        "/var/state": "its state",
        "/etc/kept.d/x": "role base keeps everything",
        "/etc/new/full": kept_on_removal.NOT_EMPTY,
        "/etc/new": kept_on_removal.NOT_EMPTY,
        "/run/hpcforge": stays["/run/hpcforge"],
    }
    assert {name for one in foretold for name in one["names"]} == stays.keys() - {
        "/etc/new/full", "/etc/new", "/run/hpcforge"
    }  # fmt: skip
    assert node.shell(
        "ls -d /opt/ours /opt/was-there/theirs /etc/new/full/theirs 2>/dev/null", check=False
    ).split() == [
        "/etc/new/full/theirs",
        "/opt/was-there/theirs",
    ]
    assert node.shell("systemctl is-active ssh") == "active\n"
    assert of(node.send(converge("remove", [], leave=True)), "remains") == []  # it cannot know any more
    node.shell("sudo rm -rf /opt/was-there /var/state /etc/new /etc/kept.d/x")


def test_what_is_gone_already_does_not_stay(node, wanted, before):
    leaves = [{"path": "/var/nowhere", "why": "its state"}]
    install(node, [{"role": "one", "packages": ["less"], "owns": {"leaves": leaves}, "files": []}])
    node.shell("sudo apt-get purge -qy less")
    [said] = of(node.send(converge("remove", [], leave=True)), "remains")
    assert [name for one in said["stays"] for name in one["names"]] == ["/run/hpcforge"]
