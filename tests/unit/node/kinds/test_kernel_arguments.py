"""What becomes of words for the kernel, in folders of the test's own and with a program that stands in for update-grub.

That a machine starts with them only one with a boot loader shows, which no lab has.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.kinds.kernel_arguments import KernelArguments
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.kinds import kernel_arguments

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="writes files of root's")

WANTED = KernelArguments("site", "iommu=pt console=ttyS0,115200n8")
TEXT = '# Written by hpcforge.\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt console=ttyS0,115200n8"\n'
# As grub-mkconfig: what is said in /etc/default/grub, then in the folder beside it, becomes lines of every kernel.
UPDATE = """#!/bin/sh
set -e
GRUB_CMDLINE_LINUX="{before}"
for one in {folder}/*.cfg; do test ! -e "$one" || . "$one"; done
{after}
printf 'set default="0"\\nmenuentry Debian {{\\n\\tlinux\\t/boot/vmlinuz-6.1 root=UUID=1 ro %s quiet\\n}}\\n' \
    "$GRUB_CMDLINE_LINUX" > {config}.new
printf 'menuentry Other {{\\n\\tlinux /vmlinuz root=UUID=2\\n}}\\n' >> {config}.new
mv {config}.new {config}
"""


@dataclass(frozen=True)
class Machine:
    """Its boot loader's configuration, and what its kernel was started with."""

    root: Path

    @property
    def file(self) -> Path:
        return self.root / "grub.d" / "zz-hpcforge-site.cfg"

    @property
    def entry(self) -> str:
        """The line of the first kernel."""
        return next(line for line in (self.root / "grub.cfg").read_text().splitlines() if "linux" in line)

    def grub(self, before: str = "", after: str = "") -> None:
        """It starts by GRUB, of whose words others say some before or after the folder is read."""
        program = self.root / "update-grub"
        said = {"before": before, "after": after, "folder": self.root / "grub.d", "config": self.root / "grub.cfg"}
        program.write_text(UPDATE.format(**said))
        program.chmod(0o755)
        if not after.startswith("exit"):
            subprocess.run([program], check=True)

    def started(self, words: str) -> None:
        (self.root / "cmdline").write_text(f"BOOT_IMAGE=/boot/vmlinuz-6.1 root=UUID=1 ro {words}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "grub.d").mkdir()
    monkeypatch.setattr(kernel_arguments, "FOLDER", str(tmp_path / "grub.d"))
    monkeypatch.setattr(kernel_arguments, "CONFIG", str(tmp_path / "grub.cfg"))
    monkeypatch.setattr(kernel_arguments, "RUNNING", str(tmp_path / "cmdline"))
    monkeypatch.setattr(kernel_arguments, "UPDATE", str(tmp_path / "update-grub"))
    made = Machine(tmp_path)
    made.started("quiet")
    return made


@pytest.fixture
def known() -> dict[str, object]:
    return {"before": None}


def test_words_come_and_go(machine: Machine, known: dict[str, object], report: EventReporter) -> None:
    machine.grub(before="splash")
    assert kernel_arguments.compare(WANTED) == {"name": "site", "exists": False}
    assert kernel_arguments.obstacle(WANTED, None) is None
    assert kernel_arguments.own("site", WANTED, set()) == known
    assert kernel_arguments.put(WANTED) == "iommu=pt console=ttyS0,115200n8, from the next start on"
    assert machine.file.read_text() == TEXT
    assert machine.entry.split()[2:] == ["root=UUID=1", "ro", "splash", *WANTED.words.split(), "quiet"]
    assert kernel_arguments.compare(WANTED) is None
    assert kernel_arguments.put(WANTED) is None
    assert kernel_arguments.restore("site", known, report) == "removed"
    assert not machine.file.exists()
    assert machine.entry.split()[2:] == ["root=UUID=1", "ro", "splash", "quiet"]
    assert kernel_arguments.restore("site", known, report) is None


def test_what_others_say_already_is_no_change(machine: Machine) -> None:
    machine.grub(before="console=ttyS0,115200n8 iommu=pt")
    assert kernel_arguments.compare(WANTED) is None
    assert kernel_arguments.put(WANTED) is None
    assert not machine.file.exists()


def test_a_word_counts_as_a_whole_and_on_the_first_kernel_alone(machine: Machine) -> None:
    machine.grub(before="iommu=pt,strict xiommu=pt console=ttyS0,115200n8")
    with (machine.root / "grub.cfg").open("a") as config:
        config.write("menuentry trial {\n\tlinux /boot/vmlinuz-6.1 root=UUID=1 iommu=pt\n}\n")
    assert kernel_arguments.compare(WANTED) is not None


@pytest.mark.parametrize("words", ["iommu=pt", "iommu=pt console=tty0"])
def test_other_words_are_a_change(machine: Machine, words: str) -> None:
    machine.grub()
    kernel_arguments.put(WANTED)
    less = KernelArguments("site", words)
    assert kernel_arguments.compare(less) == {"name": "site", "exists": True}
    kernel_arguments.put(less)
    assert machine.entry.split()[4:] == [*words.split(), "quiet"]


def test_a_file_that_somebody_took_away_is_missed_once_it_counts(machine: Machine) -> None:
    machine.grub()
    kernel_arguments.put(WANTED)
    machine.file.unlink()
    assert kernel_arguments.compare(WANTED) is None  # the next start has them still
    subprocess.run([machine.root / "update-grub"], check=True)  # as with the next kernel
    assert kernel_arguments.compare(WANTED) == {"name": "site", "exists": False}


def test_words_that_something_else_takes_out_are_named(machine: Machine) -> None:
    machine.grub(after='GRUB_CMDLINE_LINUX="console=ttyS0,115200n8"')
    with pytest.raises(NodeError, match="left iommu=pt out of the first entry"):
        kernel_arguments.put(WANTED)
    assert kernel_arguments.compare(WANTED) == {"name": "site", "exists": True}  # so the next apply tries again


def test_a_program_that_fails_is_told_and_leaves_the_old_entries(machine: Machine) -> None:
    machine.grub()
    entry = machine.entry
    machine.grub(after="exit 3")
    with pytest.raises(NodeError, match="exit status 3"):
        kernel_arguments.put(WANTED)
    assert machine.entry == entry
    assert kernel_arguments.compare(WANTED) is not None


def test_taking_away_that_was_cut_off_is_ended(
    machine: Machine, known: dict[str, object], report: EventReporter
) -> None:
    machine.grub()
    kernel_arguments.put(WANTED)
    machine.file.unlink()
    assert kernel_arguments.restore("site", known, report) == "regenerated"
    assert machine.entry.split()[4:] == ["quiet"]


def test_a_node_of_another_boot_loader_is_left_out_and_told_why(machine: Machine) -> None:
    assert kernel_arguments.compare(WANTED) == {"name": "site", "exists": False}
    machine.started("iommu=pt")
    why = kernel_arguments.obstacle(WANTED, None)
    assert why and "does not start by GRUB" in why and "started without console=ttyS0,115200n8:" in why


def test_a_node_of_another_boot_loader_that_says_the_words_is_right(
    machine: Machine, known: dict[str, object], report: EventReporter
) -> None:
    machine.started(WANTED.words)
    assert kernel_arguments.compare(WANTED) is None
    assert kernel_arguments.obstacle(WANTED, None) is None
    assert kernel_arguments.put(WANTED) is None
    assert not machine.file.exists()
    assert kernel_arguments.restore("site", known, report) is None


@pytest.mark.parametrize("word", ['x="y"', "a$(reboot)", "a`id`", "a;b", "-x", "a'b", "a\\b", ""])
def test_nothing_that_means_something_to_a_shell_is_a_word(machine: Machine, word: str) -> None:
    machine.grub()
    why = kernel_arguments.obstacle(KernelArguments("site", word), None)
    assert why and "cannot be a kernel argument" in why


@pytest.mark.parametrize("name", ["../../rc", "a b", "", "A"])
def test_a_name_is_that_of_a_file_in_the_folder(machine: Machine, name: str) -> None:
    machine.grub()
    why = kernel_arguments.obstacle(KernelArguments(name, "iommu=pt"), None)
    assert why and "cannot be the name of kernel arguments" in why


def test_a_line_break_makes_no_line(machine: Machine) -> None:
    machine.grub()
    kernel_arguments.put(KernelArguments("site", "iommu=pt\nquiet"))
    assert machine.file.read_text().splitlines()[1:] == ['GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt quiet"']
