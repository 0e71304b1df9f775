"""Which number of a cluster slurmctld 24.11 is left with, before it asks slurmdbd: the program among stand-ins."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

BLUEPRINTS = Path(__file__).parent / "blueprints"
PROGRAM = "/usr/sbin/hpcforge-cluster-number"
DROP_IN = "/etc/systemd/system/slurmctld.service.d/hpcforge-cluster-number.conf"
STATE = "/var/lib/slurm/slurmctld"
OURS = {"accounting": "accounted", "accounting_of_the_site": "counted"}
Compiled = Callable[[Cluster], Desired]
SACCTMGR = """#!/bin/sh
[ "$1 $2 $3" = "-nP show cluster" ] || exit 3
case $* in *"cluster={name} format=cluster,controlhost") ;; *) exit 3 ;; esac
cat {folder}/answer
"""


def of_release(blueprint: str, release: str, compiled: Compiled) -> tuple[Cluster, Desired]:
    path = BLUEPRINTS / f"{blueprint}.yaml"
    text = path.read_text()
    assert text.count('release: "13"') == 1
    text = text.replace('release: "13"', f'release: "{release}"')
    cluster = load(path, instead={path: text}).cluster
    return cluster, compiled(cluster)


def controller_files(cluster: Cluster, desired: Desired) -> dict[str, str]:
    roles = desired.nodes[cluster.slurm.controller]
    return {
        file.path: desired.texts[file.digest]
        for role in roles
        for file in role.of(File)
        if file.digest in desired.texts
    }


class Controller:
    """A controller's state below `folder`, a slurmdbd that says `answer`, and addresses of its own."""

    def __init__(self, folder: Path, program: str, name: str) -> None:
        self.folder, self.name, self.kept = folder, name, folder / "clustername"
        assert STATE in program
        self.program = program.replace(STATE, str(folder))
        self.stands_in("sacctmgr", SACCTMGR.format(name=name, folder=folder))
        self.stands_in("hostname", "#!/bin/sh\necho '10.0.0.5 192.168.7.5 fe80::5 '\n")
        self.stands_in("scontrol", "#!/bin/sh\nexit 1\n")
        self.stands_in("id", "#!/bin/sh\necho 64030\n")

    def stands_in(self, program: str, text: str) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "bin" / program).write_text(text)
        (self.folder / "bin" / program).chmod(0o755)

    def run(self, answer: str | None, complaint: str = "") -> bytes | None:
        """What the file has afterwards; `answer`: None where slurmdbd has none; `complaint`: why it has to fail."""
        (self.folder / "answer").unlink(missing_ok=True)
        if answer is not None:
            (self.folder / "answer").write_text(answer)
        (self.folder / "program").write_text(self.program)
        done = subprocess.run(
            ["sh", self.folder / "program"],
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1 if complaint else 0, ""), done.stderr
        assert (complaint in done.stderr) if complaint else done.stderr == ""
        assert sorted(path.name for path in self.folder.iterdir() if path.name.startswith("clustername.")) == []
        return self.kept.read_bytes() if self.kept.exists() else None


@pytest.fixture(params=OURS)
def controller(request: pytest.FixtureRequest, tmp_path: Path, compiled: Compiled) -> Controller:
    """One with a slurmdbd of ours, and one with the site's."""
    files = controller_files(*of_release(request.param, "13", compiled))
    assert PROGRAM in files[DROP_IN]
    return Controller(tmp_path, files[PROGRAM], OURS[request.param])


@pytest.mark.parametrize("there", ["", "NAME|\n", "NAME|10.0.0.5\n", "NAME|192.168.7.5\n"])
def test_the_number_is_forgotten_where_slurmdbd_answers(controller: Controller, there: str) -> None:
    """Not known there, made known by hand, or by this controller, on whichever network."""
    name = controller.name
    controller.kept.write_text(f"{name}|1234")
    # Without a line break: Slurm compares all of it.
    assert controller.run(there.replace("NAME", name)) == name.encode()
    assert controller.run(there.replace("NAME", name)) == name.encode()


OTHERS = ["10.0.0.50", "0.0.0.5", "10.0.0.5 192", "10.0", "*", "-v", "$(id)"]


@pytest.mark.parametrize("other", OTHERS)
def test_another_controllers_cluster_of_the_same_name_is_an_error(controller: Controller, other: str) -> None:
    """A slurmdbd of ours has no other clusters: there a controller whose address changed is the same one."""
    name = controller.name
    kept = f"{name}|1234".encode()
    controller.kept.write_bytes(kept)
    site = name == OURS["accounting_of_the_site"]
    complaint = f"a cluster {name} already, of the controller at {other}: " if site else ""
    assert controller.run(f"{name}|{other}\n", complaint) == (kept if site else name.encode())


WORKS = {"dbd1.example.org": True, "dbd1.example.orgs": False, "dbd1xexample.org": False, "(null)": False, "": False}


@pytest.mark.parametrize("controller", ["accounting_of_the_site"], indirect=True)
@pytest.mark.parametrize("host", WORKS)
def test_unless_slurmctld_works_with_it_already(controller: Controller, host: str) -> None:
    """It may reach slurmdbd by an address that is none of its own, through NAT."""
    controller.stands_in("scontrol", f"#!/bin/sh\necho 'AccountingStorageHost   = {host}'\n")
    kept = f"{controller.name}|1234".encode()
    controller.kept.write_bytes(kept)
    complaint = "" if WORKS[host] else "one of the two needs another name"
    assert controller.run(f"{controller.name}|10.9.9.9\n", complaint) == kept


def test_where_slurmdbd_does_not_answer_all_stays(controller: Controller) -> None:
    controller.kept.write_text(f"{controller.name}|1234")
    assert controller.run(None) == f"{controller.name}|1234".encode()


@pytest.mark.parametrize(
    "kept",
    [
        None, b"", b"NAME", b"NAME|", b"NAME|12x", b"NAME|-1", b"NAME|1\n2", b"other|1234", b"NAME2|1234", b"|1234",
        b"1234", b"NAME|12|34", b"x" * 5000, b"NAME|1\0", b"\xff\xfe|12", b"NAME|$(reboot)", b"NAME|`id`;id",
    ],
)  # fmt: skip
def test_anything_else_is_slurmctlds_to_judge(controller: Controller, kept: bytes | None) -> None:
    if kept is not None:
        controller.kept.write_bytes(kept.replace(b"NAME", controller.name.encode()))
    before = controller.kept.read_bytes() if kept is not None else None
    assert controller.run("") == before


def test_root_leaves_it_to_the_account_that_owns_the_state(controller: Controller) -> None:
    controller.kept.write_text(f"{controller.name}|1234")
    controller.stands_in("id", "#!/bin/sh\necho 0\n")
    controller.stands_in("runuser", f'#!/bin/sh\necho "$*" >{controller.folder}/called\n')
    assert controller.run("") == f"{controller.name}|1234".encode()
    assert (controller.folder / "called").read_text() == f"-u slurm -- {controller.folder}/program\n"


@pytest.mark.parametrize("blueprint", OURS)
def test_slurm_before_24_11_has_no_numbers(blueprint: str, compiled: Compiled) -> None:
    assert not {PROGRAM, DROP_IN} & set(controller_files(*of_release(blueprint, "12", compiled)))
