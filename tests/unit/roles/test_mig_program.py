"""What cuts GPUs into MIG instances on a node, run against a stand-in for nvidia-smi that keeps its state in a file."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.host import processes
from tests.unit.roles.stand_in_smi import BUSES, MINORS, minor_numbers

PROGRAM = bundled.root() / "roles" / "nvidia_mig" / "mig.py"
STAND_IN = Path(__file__).parent / "stand_in_smi.py"
SEVEN = [{"profile": "1g.10gb", "start": start} for start in range(7)]
MIXED = [{"profile": "3g.40gb", "start": 4}, {"profile": "2g.20gb", "start": 0}, {"profile": "1g.10gb", "start": 2}]
PERSISTENCE = "nvidia-persistenced.service"
DCGM = "nvidia-dcgm.service"


@pytest.fixture(scope="module")
def mig() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nvidia_mig", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """A node with two GPUs below `root`, whose device files are the other way round."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("bin", "run", "dev"):
            (root / folder).mkdir()
        for name in ("nvidia-smi", "nvidia-modprobe", "systemctl"):
            (root / "bin" / name).write_text(f"#!{sys.executable} -IS\n{STAND_IN.read_text()}")
            (root / "bin" / name).chmod(0o755)
        minors = root / "proc/driver/nvidia-caps/mig-minors"
        minors.parent.mkdir(parents=True)
        minors.write_text("".join(f"{name} {number}\n" for name, number in minor_numbers(2).items()))
        for bus, minor in zip(BUSES, MINORS, strict=True):
            about = root / "proc/driver/nvidia/gpus" / bus[-12:].lower() / "information"
            about.parent.mkdir(parents=True)
            about.write_text(f"Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n")
            (root / "dev" / f"nvidia{minor}").touch()
        self.says(
            gpus=[{"mode": "Disabled", "pending": "Disabled", "instances": [], "apps": []} for _ in BUSES],
            reset=False, units=[PERSISTENCE], holding=[], hangs="", kills_parent="", log=[],
        )  # fmt: skip

    @property
    def state(self) -> dict[str, Any]:
        """All that the stand-ins keep."""
        state: dict[str, Any] = json.loads((self.root / "state.json").read_text())
        return state

    def says(self, **changed: Any) -> None:
        path = self.root / "state.json"
        path.write_text(json.dumps({**(self.state if path.exists() else {}), **changed}))

    def gpu(self, index: int, **changed: Any) -> None:
        gpus = self.state["gpus"]
        gpus[index] |= changed
        self.says(gpus=gpus)

    def restarts(self, keeps_mode: bool) -> None:
        """What a restart leaves: on an A100 the mode, on an H100 nothing; /dev and /run are empty."""
        for index, gpu in enumerate(self.state["gpus"]):
            mode = gpu["pending"] if keeps_mode else "Disabled"
            self.gpu(index, mode=mode, pending=mode, instances=[])
        for path in [*(self.root / "dev/hpcforge-mig").iterdir(), *(self.root / "dev/nvidia-caps").iterdir()]:
            path.unlink()
        (self.root / "run/hpcforge-mig.set").unlink()
        self.says(log=[])

    def links(self) -> dict[str, str]:
        return {path.name: str(path.readlink()) for path in (self.root / "dev/hpcforge-mig").iterdir()}

    def profiles(self, index: int) -> list[str]:
        return sorted(one["profile"] for one in self.state["gpus"][index]["instances"] if one["computes"])

    @property
    def slurm_may_start(self) -> bool:
        """As slurmd's unit asserts."""
        return (self.root / "run/hpcforge-mig.set").exists()

    def changes(self) -> list[str]:
        return [one for one in self.state["log"] if "modprobe" not in one]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return machine


def ask(mig: ModuleType, machine: Machine, verb: str, *wanted: list[dict[str, Any]]) -> int:
    node = mig.Node(str(machine.root), command_s=600.0, all_s=3600.0)
    status: int = mig.main(verb, node, list(wanted))
    return status


def test_the_numbers_of_device_files_are_those_of_nvidias_guide() -> None:
    assert minor_numbers(32)["gpu31/gi14/ci7/access"] == 4322
    assert minor_numbers(1)["gpu0/gi1/access"] == 12


def test_gpus_are_cut_and_each_instance_has_its_links(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(mig, machine, "check", MIXED, SEVEN) == 1
    said = capsys.readouterr().out
    assert (
        said
        == "GPU 0: MIG is off, wanted 1 x 3g.40gb, 1 x 2g.20gb, 1 x 1g.10gb\nGPU 1: MIG is off, wanted 7 x 1g.10gb\n"
    )
    assert ask(mig, machine, "set", MIXED, SEVEN) == 0
    assert machine.profiles(0) == ["1g.10gb", "2g.20gb", "3g.40gb"] and machine.profiles(1) == ["1g.10gb"] * 7
    links, number = machine.links(), minor_numbers(2)
    assert links["gpu0"] == "../nvidia1" and links["gpu1"] == "../nvidia0"
    assert (
        links["gpu0.0.gi"] == f"../nvidia-caps/nvidia-cap{number['gpu1/gi1/access']}"
    )  # the 3g, by its device's number
    assert links["gpu0.0.ci"] == f"../nvidia-caps/nvidia-cap{number['gpu1/gi1/ci0/access']}"
    assert links["gpu0.1.gi"] == f"../nvidia-caps/nvidia-cap{number['gpu1/gi3/access']}"  # the 2g
    assert len(links) == 2 + 2 * (3 + 7) and len(set(links.values())) == len(links)
    assert all((machine.root / "dev/hpcforge-mig" / name).exists() for name in links)
    assert machine.slurm_may_start and machine.state["units"] == [PERSISTENCE]
    assert ask(mig, machine, "check", MIXED, SEVEN) == 0


def test_what_is_as_wanted_is_not_touched(mig: ModuleType, machine: Machine) -> None:
    assert ask(mig, machine, "set", MIXED, []) == 0
    before = machine.links()
    machine.says(log=[])
    assert ask(mig, machine, "set", MIXED, []) == 0
    assert machine.state["log"] == [] and machine.links() == before and machine.slurm_may_start


@pytest.mark.parametrize("keeps_mode", [True, False], ids=["the mode outlives it", "nothing outlives it"])
def test_a_layout_comes_back_after_a_restart(mig: ModuleType, machine: Machine, keeps_mode: bool) -> None:
    assert ask(mig, machine, "set", SEVEN, []) == 0
    machine.restarts(keeps_mode)
    assert not machine.slurm_may_start
    assert ask(mig, machine, "set", SEVEN, []) == 0
    assert machine.profiles(0) == ["1g.10gb"] * 7 and machine.slurm_may_start
    assert any("-mig 1" in change for change in machine.changes()) != keeps_mode
    assert not any("-i 1" in change for change in machine.changes())


def test_what_is_missing_and_what_is_too_much_is_named_by_gpu(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(mig, machine, "set", MIXED, SEVEN)
    gpus = machine.state["gpus"]
    machine.gpu(0, instances=[one for one in gpus[0]["instances"] if one["profile"] != "2g.20gb"])
    machine.gpu(1, instances=[*gpus[1]["instances"][:5], gpus[1]["instances"][5] | {"computes": False}])
    capsys.readouterr()
    assert ask(mig, machine, "check", MIXED, SEVEN) == 1
    assert capsys.readouterr().out == "GPU 0: missing 1 x 2g.20gb\nGPU 1: missing 2 x 1g.10gb\n"
    assert ask(mig, machine, "check", SEVEN, []) == 1
    assert capsys.readouterr().out == (
        "GPU 0: missing 6 x 1g.10gb; 1 x 3g.40gb not wanted\nGPU 1: MIG is on, wanted whole\n"
    )
    assert ask(mig, machine, "set", MIXED, SEVEN) == 0
    assert machine.profiles(0) == ["1g.10gb", "2g.20gb", "3g.40gb"] and machine.profiles(1) == ["1g.10gb"] * 7


def test_another_layout_takes_the_place_of_one_and_leaves_no_link_of_it(mig: ModuleType, machine: Machine) -> None:
    ask(mig, machine, "set", SEVEN, SEVEN)
    assert ask(mig, machine, "set", MIXED, []) == 0
    assert machine.profiles(0) == ["1g.10gb", "2g.20gb", "3g.40gb"]
    assert machine.state["gpus"][1]["mode"] == "Disabled" and machine.profiles(1) == []
    assert sorted(machine.links()) == [
        "gpu0",
        *(f"gpu0.{at}.{kind}" for at in range(3) for kind in ("ci", "gi")),
        "gpu1",
    ]


def test_a_link_that_leads_elsewhere_is_found(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(mig, machine, "set", MIXED, [])
    (machine.root / "dev/hpcforge-mig/gpu0.0.gi").unlink()
    (machine.root / "dev/hpcforge-mig/gpu0.0.gi").symlink_to("../nvidia-caps/nvidia-cap3")
    (machine.root / "dev/nvidia-caps" / f"nvidia-cap{minor_numbers(2)['gpu1/gi3/access']}").unlink()
    capsys.readouterr()
    assert ask(mig, machine, "check", MIXED, []) == 1
    wrong, gone = capsys.readouterr().out.splitlines()
    assert (
        wrong == "/dev/hpcforge-mig/gpu0.0.gi leads to ../nvidia-caps/nvidia-cap3, not to ../nvidia-caps/nvidia-cap147"
    )
    assert gone == "/dev/hpcforge-mig/gpu0.1.gi: there is no ../nvidia-caps/nvidia-cap165"


@pytest.mark.parametrize("by_hand", [False, True], ids=["nvidia-smi resets it", "it has to be reset"])
def test_clients_that_hold_a_gpu_are_stopped_for_it_and_started_again(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str], by_hand: bool
) -> None:
    machine.says(reset="by hand" if by_hand else True, units=[PERSISTENCE, DCGM], holding=[PERSISTENCE, DCGM])
    assert ask(mig, machine, "set", SEVEN, []) == 0
    assert machine.profiles(0) == ["1g.10gb"] * 7 and machine.slurm_may_start
    assert sorted(machine.state["units"]) == sorted([PERSISTENCE, DCGM])
    changes = machine.changes()
    assert changes[0] == "nvidia-smi -i 0 -mig 1"
    assert changes[1:4] == [f"systemctl stop {PERSISTENCE}", f"systemctl stop {DCGM}", "nvidia-smi -i 0 -mig 1"]
    assert ("nvidia-smi --gpu-reset -i 0" in changes) == by_hand
    # At the start of a node they wait for this unit: to wait for them would be for ever.
    assert changes[-2:] == [f"systemctl start --no-block {DCGM}", f"systemctl start --no-block {PERSISTENCE}"]
    assert f"stopped {PERSISTENCE}, which has GPUs open" in capsys.readouterr().out


def test_clients_are_left_alone_where_they_hold_nothing_up(mig: ModuleType, machine: Machine) -> None:
    machine.says(units=[PERSISTENCE, DCGM])
    assert ask(mig, machine, "set", SEVEN, SEVEN) == 0
    assert not any("systemctl" in change for change in machine.changes())


def test_a_client_that_nobody_knows_ends_in_a_reason_and_no_slurmd(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.says(reset=True, holding=["somebody"])
    assert ask(mig, machine, "set", SEVEN, []) == 1
    said = capsys.readouterr().err
    assert "In use by another client" in said and "`fuser -v /dev/nvidia*` names who has it open" in said
    assert f"stopped: {PERSISTENCE}" in said and "slurmd is not started" in said
    assert machine.state["units"] == [PERSISTENCE] and not machine.slurm_may_start
    assert ask(mig, machine, "check", SEVEN, []) == 1
    wrong, why = capsys.readouterr().out.splitlines()
    assert wrong == "GPU 0: MIG is off, wanted 7 x 1g.10gb"
    assert why.startswith("when it was last set: ") and "In use by another client" in why


def test_nothing_is_done_to_a_gpu_on_which_a_process_computes(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(mig, machine, "set", SEVEN, [])
    machine.says(log=[])
    machine.gpu(0, apps=["4711, python3"])
    assert ask(mig, machine, "set", MIXED, []) == 1
    assert "GPU 0 is left alone, a process computes on it: 4711, python3" in capsys.readouterr().err
    assert machine.changes() == [] and machine.profiles(0) == ["1g.10gb"] * 7
    assert not machine.slurm_may_start


def test_with_a_gpu_that_is_gone_none_is_taken_for_another(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.says(gpus=machine.state["gpus"][:1])
    assert ask(mig, machine, "set", MIXED, SEVEN) == 1
    assert "GPUs 1, declared 2: which of them is which cannot be known" in capsys.readouterr().err
    assert machine.changes() == []


def test_a_gpu_without_mig_and_a_layout_that_it_refuses_are_said_in_its_words(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.gpu(0, mode="[N/A]")
    assert ask(mig, machine, "set", SEVEN, []) == 1
    assert "GPU 0 knows no MIG: its mode is [N/A]" in capsys.readouterr().err
    machine.gpu(0, mode="Disabled")
    overlapping = [{"profile": "3g.40gb", "start": 0}, {"profile": "1g.10gb", "start": 2}]
    assert ask(mig, machine, "set", overlapping, []) == 1
    assert "using profile 1g.10gb: Insufficient Resources" in capsys.readouterr().err


def test_a_table_that_is_not_as_it_was_known_is_not_guessed_at(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(mig, machine, "set", SEVEN, [])
    instances = machine.state["gpus"][0]["instances"]
    machine.gpu(0, instances=[instances[0] | {"profile": "1g.10gb and more"}, *instances[1:]])
    machine.says(log=[])
    assert ask(mig, machine, "set", SEVEN, []) == 1
    assert "not understood" in capsys.readouterr().err
    assert machine.changes() == []


def test_a_driver_that_hangs_ends_in_a_reason(
    mig: ModuleType, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.says(hangs="--format=csv,noheader")
    assert mig.main("set", mig.Node(str(machine.root), command_s=1.0), [SEVEN, []]) == 1
    assert "gave no answer within 1 s: look at the kernel's log for NVRM and Xid" in capsys.readouterr().err
    assert not machine.slurm_may_start


def test_clients_are_started_again_after_a_command_that_hangs(mig: ModuleType, machine: Machine) -> None:
    class Impatient(mig.Node):  # type: ignore[name-defined, misc]
        """Waits for one command alone no longer than a second."""

        def run(self, *argv: str) -> tuple[int, str]:
            self.command_s = 1.0 if "-cgi" in argv else 600.0
            said: tuple[int, str] = super().run(*argv)
            return said

    machine.says(reset=True, holding=[PERSISTENCE], hangs="-cgi")
    assert mig.main("set", Impatient(str(machine.root), all_s=3600.0), [SEVEN, []]) == 1
    assert machine.state["units"] == [PERSISTENCE] and not machine.slurm_may_start
    assert "gave no answer" in (machine.root / "run/hpcforge-mig.failed").read_text()


DRIVER = """
import importlib.util, json, signal, sys
spec = importlib.util.spec_from_file_location("nvidia_mig", sys.argv[1])
mig = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mig)
signal.signal(signal.SIGTERM, mig.told_to_stop)
sys.exit(mig.main("set", mig.Node(sys.argv[2], 600.0, 3600.0), json.loads(sys.argv[3])))
"""


def test_clients_are_started_again_where_systemd_ends_it(machine: Machine) -> None:
    machine.says(reset=True, holding=[PERSISTENCE], kills_parent="-cgi")
    argv = [sys.executable, "-c", DRIVER, str(PROGRAM), str(machine.root), json.dumps([SEVEN, []])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "told to stop")
    assert machine.state["units"] == [PERSISTENCE] and not machine.slurm_may_start
    until = time.monotonic() + 60
    while list(processes.find(lambda argv: any(str(machine.root) in word for word in argv))):
        assert time.monotonic() < until, "the command that it waited for is still there"
        time.sleep(0.1)


def test_the_program_runs_as_units_call_it() -> None:
    """By its first line, and with another word than it knows."""
    done = subprocess.run([sys.executable, "-IS", str(PROGRAM), "destroy"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: hpcforge-mig set|check\n")
