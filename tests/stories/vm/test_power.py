"""Power that is lost in the midst of an apply, with a disk whose write cache goes with it: `make test-vm`.

Containers that are killed keep what the kernel has yet to write. Here that is lost, and so is what the drive was not
told to keep: only what was synced is there after a start. The machine's kernel is told to write nothing of its own
accord, as it may for as long as it likes by any standard; by default it does within 5 s (ext4's commit) to 30 s.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hpcforge.host import processes
from hpcforge.lab import lab as labs
from hpcforge.lab.vm import disks, qemu
from tests.stories.vm.cached_disk import CachedDisk, cached
from tests.support.vm_rehearsal import REPOSITORY, STEP_S, Rehearsal

pytestmark = pytest.mark.vm

NAME = f"test-vm-power-{os.getpid()}"
BLUEPRINT = """\
schema: 1
name: power
domain: power.example.org
inventory: {lab: vm}
access: {user: ops, become: sudo}
nodes:
  head: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.77.0.10}
networks:
  cluster: {cidr: 10.77.0.0/24}
services:
  dns:  {external: [192.0.2.2]}
  time: {external: [192.0.2.3]}
software:
  os: {name: debian, release: "12"}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  partitions:
    main: {nodes: head, default: true}
"""
ROLES = Path(__file__).parent / "power_roles"
# What an image is built for: no packages, so that dpkg has something to do in an apply.
BARE = """\
description: None.
on: "true"
files:
  - {path: /etc/power/bare, content: "bare\\n"}
"""
WITH_ROLES = REPOSITORY / "tests" / "support" / "with_roles.py"
# hpcforge with the disk of its machines elsewhere, and `tests/support/with_roles.py` run as its file is.
BEHIND_A_CACHE = f"""
import runpy, sys
from hpcforge.lab.vm import qemu
plain = qemu.argv
def behind(machine, accelerator):
    words = plain(machine, accelerator)
    (at,) = (at for at, word in enumerate(words) if word.startswith("file=") and ",if=virtio," in word)
    words[at] = %r
    return words
qemu.argv = behind
sys.argv[0] = {str(WITH_ROLES)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LAZY = "mount -o remount,commit=3600 / && sysctl -qw vm.dirty_writeback_centisecs=0 vm.dirty_expire_centisecs=360000"
CODED = "/etc/power/coded.conf"
# No power cut may make this otherwise: what others write, and what hpcforge remembers.
SOUND = r"""
pwck -r -q; echo "passwd $?"
grpck -r; echo "group $?"
python3 - <<'END'
import hashlib, json, os
os.chdir("/var/lib/hpcforge") if os.path.isdir("/var/lib/hpcforge") else None
if os.path.exists("receipt.json"):
    document = json.load(open("receipt.json"))
    told = document.pop("checksum")
    assert told == hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(), "receipt"
if os.path.exists("history.jsonl"):
    assert all(isinstance(json.loads(line), dict) for line in open("history.jsonl")), "history"
END
echo "receipt and history $?"
"""
UNHARMED = "passwd 0\ngroup 0\nreceipt and history 0\n"
# What the roles are to make of a machine.
MADE = r"""
dpkg --audit
dpkg --verify bc ssl-cert
dpkg-query -W -f '${Package} ${Status}\n' bc ssl-cert
openssl rsa -in /etc/ssl/private/ssl-cert-snakeoil.key -check -noout 2>&1
openssl x509 -in /etc/ssl/certs/ssl-cert-snakeoil.pem -noout 2>&1
getent passwd fora
diff -r /etc/skel /home/fora && echo home whole
stat -c '%a %U:%G %n' /home/fora /var/lib/power /etc/power/key /etc/power/large
stat -c '%s' /etc/power/key
systemctl is-enabled power.service
timeout 300 sh -c 'until systemctl is-active --quiet power.service; do sleep 1; done'
systemctl is-active power.service
python3 - <<'END'
import json
receipt = json.load(open("/var/lib/hpcforge/receipt.json"))
print(*receipt["opaque"], *sorted(receipt["roles"]["ground"]["packages"]))
print("exit", json.loads(open("/var/lib/hpcforge/history.jsonl").readlines()[-1])["exit"])
END
"""
WANTED = """\
bc install ok installed
ssl-cert install ok installed
RSA key ok
fora:x:3001:3001::/home/fora:/bin/bash
home whole
750 fora:fora /home/fora
750 fora:fora /var/lib/power
400 root:root /etc/power/key
644 root:root /etc/power/large
1024
enabled
active
coded bc ssl-cert
exit 0
"""


@dataclass
class Apply:
    """`hpcforge apply --json` under way."""

    process: subprocess.Popen[str]
    began_s: float = field(default_factory=time.monotonic)
    events: list[dict[str, Any]] = field(default_factory=list)

    def until(self, kind: str, /, **parts: str) -> None:
        """Read on to an event of a kind with these in its values."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            values = self.events[-1]
            if values["event"] == kind and all(part in str(values.get(key)) for key, part in parts.items()):
                return
        assert self.process.stderr is not None
        raise AssertionError(f"no {kind} {parts} came: {self.events[-3:]}\n{self.process.stderr.read()}")

    def end(self) -> tuple[int, str]:
        """Its exit status and what it said, once it has ended by itself."""
        assert self.process.stdout is not None and self.process.stderr is not None
        late = threading.Timer(STEP_S, self.process.kill)
        late.start()
        try:
            self.events += [json.loads(line) for line in self.process.stdout]
            said = self.process.stderr.read()
        finally:
            late.cancel()
        return self.process.wait(STEP_S), said

    def done(self) -> set[str]:
        """Roles that were told to be done."""
        return {event["role"] for event in self.events if event["event"] == "settled" and event["status"] == "done"}


@dataclass
class Site:
    """A machine on such a disk, and roles for it."""

    making: Rehearsal  # with the role that its image was built for
    rehearsal: Rehearsal
    disk: CachedDisk
    roles: Path
    began_s: float = field(default_factory=time.monotonic)
    applies: list[Apply] = field(default_factory=list)

    def say(self, text: str) -> None:
        """A line of progress."""
        print(f"[{time.monotonic() - self.began_s:6.0f} s] {text}", flush=True)

    def power_on(self) -> None:
        """Start the machine, and have its kernel write nothing of its own accord."""
        self.disk.begin()
        behind = ("-P", "-c", BEHIND_A_CACHE % self.disk.drive, *self.making.program[2:])
        replace(self.making, program=behind).run("rehearse", "up", self.making.blueprint)
        self.on(LAZY)

    def power_off(self, why: str) -> None:
        """The plug is pulled."""
        lab = labs.load(NAME)
        assert lab is not None
        (machine,) = processes.find(lambda argv: qemu.name_in(argv) == lab.machine("head"))
        self.disk.lose_power(machine)
        assert processes.wait_until(lambda: not labs.runs(lab, "head"), timeout_s=60)
        self.say(f"power lost {why}")

    def on(self, script: str) -> str:
        """What a script of root's prints on the machine."""
        lab = labs.load(NAME)
        assert lab is not None
        argv = labs.ssh_argv(lab, "head", ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=STEP_S)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def apply(self) -> Apply:
        """Begin one."""
        if not self.disk.serving:  # a test before failed
            self.power_on()
        self.applies.append(Apply(self.rehearsal.start("apply", self.rehearsal.blueprint, "--yes", "--json")))
        return self.applies[-1]

    def applied(self) -> Apply:
        """One that ends well."""
        apply = self.apply()
        code, said = apply.end()
        assert code == 0, said
        self.say(f"apply ended after {time.monotonic() - apply.began_s:.0f} s")
        return apply

    def edition(self, number: int) -> None:
        """Have every file say another one."""
        for path in (path for path in self.roles.rglob("*") if path.is_file()):
            path.write_text(path.read_text().replace(f"edition {number - 1}", f"edition {number}"))

    def wanted(self) -> dict[str, str]:
        """The content of each file whose content is known here."""
        named = {
            f"/{path.relative_to(files)}": path for files in self.roles.glob("*/files") for path in files.rglob("*")
        }
        texts = {name: path.read_text() for name, path in named.items() if path.is_file()}
        number = texts["/etc/power/ground.conf"].splitlines()[0]
        return {**texts, CODED: f"{number}\nend\n"}

    def found(self, names: Mapping[str, object]) -> dict[str, str]:
        """The SHA-256 of each of these files that is there."""
        lines = self.on(f"sha256sum {' '.join(names)} 2>/dev/null || :").splitlines()
        return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}

    def assert_whole(self, before: Mapping[str, str]) -> None:
        """Every file is as it was before, if it was there, or as it is wanted; and what others keep there is sound."""
        wanted = self.wanted()
        allowed = {name: {digest(text), digest(before[name]) if before else None} for name, text in wanted.items()}
        found = self.found(wanted)
        torn = {name for name in wanted if found.get(name) not in allowed[name]}
        assert not torn, f"neither the old nor the new content: {torn}"
        assert self.on(SOUND) == UNHARMED

    def assert_made(self) -> None:
        """All that an apply says it has done is there, and a plan finds nothing else to do."""
        assert self.found(self.wanted()) == {name: digest(text) for name, text in self.wanted().items()}
        assert self.on(MADE) == WANTED
        assert "Nothing to do" in self.rehearsal.run("plan", self.rehearsal.blueprint)
        self.say("all is there, and a plan finds nothing to do")

    def assert_kept(self, apply: Apply) -> None:
        """Of a role that was told to be done there is nothing left to do."""
        process = self.rehearsal.start("plan", self.rehearsal.blueprint, "--json")
        out, said = process.communicate(timeout=STEP_S)
        assert process.returncode in (0, 2), said
        again = {step["role"] for step in json.loads(out)["steps"]} & apply.done()
        assert not again, f"told to be done, and not so after the start: {again}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A machine that was not configured yet."""
    folder = tmp_path_factory.mktemp("site")
    bare, roles = folder / "bare", folder / "roles"
    (bare / "bare").mkdir(parents=True)
    (bare / "bare" / "role.yaml").write_text(BARE)
    shutil.copytree(ROLES, roles)
    blueprint = folder / "power.yaml"
    blueprint.write_text(BLUEPRINT)
    making = Rehearsal(NAME, blueprint, ("-P", str(WITH_ROLES), str(bare)))
    print()
    try:
        making.run("image", "build", "--disk", blueprint)
        making.run("rehearse", "up", "--no-start", blueprint)
        lab = labs.load(NAME)
        assert lab is not None
        with cached(disks.written(lab, lab.node("head")), folder) as disk:
            try:
                made = Site(making, replace(making, program=(*making.program[:2], str(roles))), disk, roles)
                made.power_on()
                yield made
                for apply in made.applies:
                    with apply.process:  # which closes what it was read by
                        apply.process.kill()
            finally:
                labs.down(NAME, None, print)
    finally:
        labs.down(NAME, None, print)


def test_the_cache_is_lost_and_what_was_flushed_is_not(tmp_path: Path) -> None:
    image = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "64M"], check=True)
    with cached(image, tmp_path) as disk:
        disk.begin()
        steps = ("write -P 1 0 64k", "flush", "write -P 2 1M 64k", "sleep 600000")
        words = ["stdbuf", "-oL", "qemu-io", "-t", "writeback", "-f", "raw", *(f"-c{step}" for step in steps)]
        with subprocess.Popen([*words, disk.address], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert len(list(islice((line for line in client.stdout if line.startswith("wrote")), 2))) == 2
            disk.lose_power(client.pid)
    reads = ("-cread -P 1 0 64k", "-cread -P 0 1M 64k")
    seen = subprocess.run(["qemu-io", "-f", "qcow2", *reads, image], capture_output=True, text=True, check=True).stdout
    assert seen.count("read 65536/65536") == 2 and "verification failed" not in seen, seen


def test_a_machine_loses_what_it_did_not_sync(site: Site) -> None:
    """Or nothing else that is seen here proves anything."""
    site.on("cd /var/tmp && printf empty >half && printf kept >synced && sync synced . && printf lost >unsynced")
    assert site.on("cd /var/tmp && cat half synced unsynced") == "emptykeptlost"
    site.power_off("after a file was written and not synced")
    site.power_on()
    seen = site.on("cd /var/tmp && for name in half synced unsynced; do echo $name $(cat $name 2>&1); done")
    assert "synced kept\n" in seen
    assert "half empty" not in seen and "unsynced lost" not in seen, seen
    site.say(f"found: {'; '.join(seen.splitlines())}")


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("changed", {"kind": "account", "name": "fora"}),
        ("progress", {"detail": "% installed"}),
        ("changed", {"kind": "file", "name": "/etc/power/large"}),
        ("changed", {"kind": "unit", "name": "power.service"}),
    ],
    ids=["account", "dpkg", "file", "unit"],
)
def test_power_is_lost_in_the_midst_of_a_first_apply(site: Site, kind: str, parts: Mapping[str, str]) -> None:
    apply = site.apply()
    apply.until(kind, **parts)
    site.power_off(f"at {kind} {' '.join(parts.values())}, {time.monotonic() - apply.began_s:.0f} s into the apply")
    if parts.get("kind") == "account":  # the power stays away
        code, said = apply.end()
        site.power_on()
    else:
        site.power_on()
        code, said = apply.end()
    site.say(f"the apply ended with {code}: {' / '.join(line for line in said.splitlines() if 'head' in line)[:600]}")
    assert code in (4, 5) and "head" in said, said
    site.assert_whole({})
    site.assert_kept(apply)


def test_the_next_apply_goes_on_and_what_it_says_is_so_outlasts_the_power(site: Site) -> None:
    site.applied()
    site.power_off("as soon as the apply had ended")
    site.power_on()
    site.assert_made()
    assert site.on(SOUND) == UNHARMED


def test_power_is_lost_while_files_are_replaced(site: Site) -> None:
    before = site.wanted()
    site.edition(2)
    apply = site.apply()
    apply.until("changed", kind="file", name="/etc/power/large")
    site.power_off("when a file had been replaced")
    site.power_on()
    code, said = apply.end()
    assert code in (4, 5) and "head" in said, said
    site.assert_whole(before)
    site.assert_kept(apply)
    site.applied()
    site.power_off("as soon as the apply had ended")
    site.power_on()
    site.assert_made()
    assert site.on(SOUND) == UNHARMED
