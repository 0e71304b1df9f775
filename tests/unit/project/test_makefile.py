"""The Makefile installs what the code asks for, the same wherever it runs."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hpcforge.blueprint.lab_kinds import DEFAULT
from hpcforge.downloads.artifacts import FetchError
from hpcforge.frameworks import PinnedWheel
from hpcforge.lab.kinds import KINDS, host_packages
from tests.conftest import ON_DEMAND
from tests.support import install_torch
from tests.support.locks import DEVELOPMENT, FOLDER, differing, pins

ROOT = Path(__file__).parents[3]
MAKEFILE = ROOT / "Makefile"
LOCKS = sorted(FOLDER.glob("*.txt"))
USERS = FOLDER / "users.txt"


def test_every_package_that_a_lab_needs_is_installed() -> None:
    """By `make host`, or, of a kind of lab that not everybody starts, by a target of its own."""
    of_all = named("HOST_PACKAGES")
    for name, kind in KINDS.items():
        its_own = set() if name == DEFAULT else named(f"{name.upper()}_PACKAGES")
        assert host_packages(kind).keys() - of_all == its_own


def named(variable: str) -> set[str]:
    found = re.search(rf"^{variable} := ((?:.*\\\n)*.*)$", MAKEFILE.read_text(), re.MULTILINE)
    assert found is not None, variable
    return set(found[1].replace("\\", " ").split())


def test_a_new_environment_gets_the_pinned_pip_first_and_all_else_by_digest(tmp_path: Path) -> None:
    """Of `make test`, whose other targets install parts of it."""
    made = subprocess.run(
        ["make", "-n", "test", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    installs = [line.partition(" -m pip install -q ")[2] for line in made.stdout.splitlines() if "pip install" in line]
    assert installs == [
        "--require-hashes -r locks/installer.txt",
        "--require-hashes -r locks/users.txt",
        "--no-deps --no-build-isolation -e .",
        "--require-hashes -r locks/development.txt",
    ]


def test_each_target_runs_more_than_the_one_before() -> None:
    """`make test` has one story, `make test-stories` all but those on demand, `make test-all` each of these as well."""
    test, stories, everything = map(pytest_runs, ("test", "test-stories", "test-all"))
    assert [[word for word in run if word.startswith("tests/")] for run in test] == [
        ["tests/stories/main_job", "tests/fuzz", "tests/unit"]
    ]
    assert [[word for word in run if word.startswith("tests/")] for run in stories] == [["tests/stories"]]
    words = {word for run in everything for word in run}
    assert {"--every-boundary", *(f"--{mark}" for mark in ON_DEMAND)} <= words
    assert all(run in everything for run in [*test, *stories])


def pytest_runs(target: str) -> list[list[str]]:
    """The words of each pytest that a target starts, behind `-m pytest`."""
    made = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.findall(r" -m pytest (.*)", made.stdout)
    return [line.partition(";")[0].split() for line in found]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_exact_versions_with_digests_and_nothing_of_the_machine_that_made_it(lock: Path) -> None:
    text = "".join(line for line in lock.read_text().splitlines(True) if not line.lstrip().startswith("#"))
    entries = text.replace("\\\n", "").splitlines()
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9][^ ]* (; [^\\]*)?( *--hash=sha256:[0-9a-f]{64})+", entry), entry


def test_the_locks_have_what_pyproject_asks_for_and_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    users, development = ({canonicalize_name(pin.name): pin for pin in pins(lock)} for lock in (USERS, DEVELOPMENT))
    for locked, asked in (
        (users, project["dependencies"]),
        (development, project["dependencies"] + project["optional-dependencies"]["dev"]),
    ):
        for requirement in map(Requirement, asked):
            version = str(locked[canonicalize_name(requirement.name)].specifier).removeprefix("==")
            assert requirement.specifier.contains(version), requirement
    assert {name: development[name].specifier for name in users} == {name: pin.specifier for name, pin in users.items()}
    assert "torch" not in development


def test_what_differs_from_a_lock_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(
        "# a comment\n"
        f"pytest=={pytest.__version__} \\\n    --hash=sha256:{'0' * 64}\n    # via something\n"
        "pyyaml==1.0 ; python_version >= '3.11' \\\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n"
        "no-such-package==3 \\\n"
    )
    named, missing = differing(lock)
    assert re.fullmatch(r"pyyaml [0-9.]+ \(locked: 1\.0\)", named)
    assert missing == "no-such-package not installed (locked: 3)"


def test_torch_is_the_build_that_the_catalog_pins_and_what_is_installed_stays() -> None:
    wheels = install_torch.pinned("3.11", "x86_64")
    assert wheels[0].file.startswith("torch-")
    assert "+cpu" in wheels[0].file
    assert install_torch.pinned("3.11", "riscv64") == ()
    other = PinnedWheel(file="pytest-1.0-py3-none-any.whl", sha256="0" * 64)
    absent = PinnedWheel(file="no_such_package-1.0-py3-none-any.whl", sha256="0" * 64)
    assert install_torch.missing([other, absent]) == [other, absent], "the first is torch: by its exact version"
    assert install_torch.missing([absent, other]) == [absent], "of the others any version will do"


def test_a_torch_of_another_digest_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = PinnedWheel(file="hpcforge_no_torch-1.0-py3-none-any.whl", sha256="0" * 64)
    (tmp_path / wheel.file).write_bytes(b"something else")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FetchError, match="DO NOT MATCH THE HASHES"):
        install_torch.install([wheel])
    assert install_torch.installed(wheel) is None
