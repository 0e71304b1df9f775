"""apt's and dpkg's words, as recorded on Debian 12, and service starts held back."""

import subprocess

import pytest

from hpcforge.node import apt, apt_simulation, dpkg, packages, service_starts
from hpcforge.node.events import NodeError

DPKG_QUERY = """\
bash\tinstall ok installed
munge\tinstall ok half-configured
slurmd\tdeinstall ok config-files
chrony\thold ok installed
jq\tunknown ok not-installed
"""

RECORDED = {
    "unknown": [
        "Reading package lists...",
        "Building dependency tree...",
        "Reading state information...",
        "E: Unable to locate package nonexistent-foo",
        "E: Package 'slurm-llnl' has no installation candidate",
    ],
    "lock": [
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 255 (python3)",
        "N: Be aware that removing the lock file is not a solution and may break your system.",
        "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
    ],
    "signature": [
        "Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]",
        "Err:1 http://deb.debian.org/debian bookworm InRelease",
        "  The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 0E98404D38",
        "W: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  The following signatures couldn't",
        "E: The repository 'http://deb.debian.org/debian bookworm InRelease' is not signed.",
    ],
    "stale": [
        "Err:1 http://deb.debian.org/debian bookworm/main amd64 jq amd64 1.6-2.1",
        "  404  Not Found [IP: 10.0.0.1 3142]",
        "E: Failed to fetch http://deb.debian.org/debian/pool/main/j/jq/jq_1.6-2.1_amd64.deb  404  Not Found",
        "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?",
    ],
    "network": [
        "Err:1 http://deb.debian.org/debian bookworm/main amd64 jq amd64 1.6-2.1",
        "E: Failed to fetch http://deb.debian.org/debian/pool/main/j/jq/jq_1.6-2.1_amd64.deb  503  Service Unavailable",
    ],
    "other": [
        "dpkg: error processing package slurmd (--configure):",
        " installed slurmd package post-installation script subprocess returned error exit status 1",
        "E: Sub-process /usr/bin/dpkg returned an error code (1)",
    ],
}


def test_installed_means_configured():
    assert dpkg.installed(DPKG_QUERY) == {"bash", "chrony"}


@pytest.mark.parametrize("name", ["-o", "slurmd-", "Munge", "a b", "a;b", "", "../x", "x\n"])
def test_what_is_no_package_name_is_refused(name):
    with pytest.raises(NodeError, match="not a package name"):
        dpkg.missing([name])


@pytest.mark.parametrize("kind", RECORDED)
def test_kinds_of_failure(kind):
    assert apt.kind(RECORDED[kind]) == kind


def test_a_lock_is_waited_for_and_who_holds_it_is_said_once(monkeypatch, report, heard):
    ends = iter([*[apt.AptResult(100, tuple(RECORDED["lock"]))] * 3, apt.AptResult(100, tuple(RECORDED["network"]))])
    monkeypatch.setattr(apt, "_once", lambda argv, report: next(ends))
    monkeypatch.setattr(apt.time, "sleep", lambda seconds: None)
    assert apt.kind(apt.run("install", ["munge"], report).output) == "network"
    assert [event["detail"] for event in heard] == ["waiting: " + apt.lock_holder(RECORDED["lock"][0])]


def test_a_lock_is_waited_for_with_an_end(monkeypatch, report):
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr(apt, "_once", lambda argv, report: apt.AptResult(100, tuple(RECORDED["lock"])))
    monkeypatch.setattr(apt.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(apt.time, "sleep", lambda seconds: None)
    assert "process 255 (python3)" in apt.essence(apt.run("install", ["munge"], report).output)
    assert next(now) == 500  # asked for the time at the beginning and four times after that


def test_the_holder_of_a_lock_is_named_with_command_and_unit(tmp_path):
    (tmp_path / "255").mkdir()
    (tmp_path / "255/cmdline").write_bytes(b"/usr/bin/python3\0/usr/bin/unattended-upgrade\0")
    (tmp_path / "255/cgroup").write_text("0::/system.slice/apt-daily-upgrade.service\n")
    line = RECORDED["lock"][0]
    named = apt.lock_holder(line, tmp_path)
    assert named == f"{line}: /usr/bin/python3 /usr/bin/unattended-upgrade (unit apt-daily-upgrade.service)"
    other = "dpkg: error: dpkg frontend lock was locked by another process with pid 255"
    assert apt.lock_holder(other, tmp_path).endswith("(unit apt-daily-upgrade.service)")
    assert apt.lock_holder(line.replace("255", "256"), tmp_path) == line.replace("255", "256")


def test_a_long_command_leaves_room_for_the_lock_and_the_unit(tmp_path, report, heard):
    (tmp_path / "255").mkdir()
    (tmp_path / "255/cmdline").write_bytes(b"apt-get\0install\0" + b"linux-image-amd64\0" * 200)
    (tmp_path / "255/cgroup").write_text("0::/system.slice/apt-daily-upgrade.service\n")
    report.progress(None, f"waiting: {apt.lock_holder(RECORDED['lock'][0], tmp_path)}")
    [detail] = [event["detail"] for event in heard]
    assert detail.startswith(f"waiting: {RECORDED['lock'][0]}: apt-get install linux-image-amd64 ")
    assert detail.endswith("... (unit apt-daily-upgrade.service)")


@pytest.mark.parametrize(
    "line",
    [
        "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)",
        "E: Could not get lock /var/cache/apt/archives/lock. It is held by process 7 (apt)",
        "dpkg: error: dpkg frontend lock was locked by another process with pid 7",
        "dpkg: error: dpkg database lock was locked by another process with pid 7",
    ],
)
def test_each_lock_is_waited_for(line):
    assert apt.kind([line]) == "lock"


@pytest.mark.parametrize(("kind", "error"), [("other", None), ("lock", "dpkg --configure -a: E: Could not get lock")])
def test_a_package_that_cannot_be_configured_stops_no_other(monkeypatch, tmp_path, report, kind, error):
    (tmp_path / "0001").touch()
    monkeypatch.setattr(packages, "_JOURNAL", tmp_path)
    monkeypatch.setattr(packages.dpkg, "half_unpacked", list)
    monkeypatch.setattr(apt, "configure", lambda _: apt.AptResult(1, tuple(RECORDED[kind])))
    found = packages._mend(report)
    assert found is None if error is None else found.startswith(error)


def test_names_of_unknown_packages():
    assert apt_simulation.unknown(RECORDED["unknown"]) == {"nonexistent-foo", "slurm-llnl"}


def test_essence_is_what_says_why():
    assert apt.essence(RECORDED["unknown"]).splitlines() == RECORDED["unknown"][3:]
    assert "process 255 (python3)" in apt.essence(RECORDED["lock"])
    assert apt.essence(["just", "words"]) == "just\nwords"
    assert apt.essence([]) == "it said nothing"


def test_progress_of_the_status_descriptor():
    assert apt.progress_text("dlstatus:2:13.5022:Retrieving file 2 of 5 (2s remaining)") == "13 % downloaded"
    assert (
        apt.progress_text("pmstatus:munge:58.3333:Installed munge (amd64)") == "58 % installed: Installed munge (amd64)"
    )
    assert apt.progress_text("media-change: x") is None


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def policy_says(policy, *arguments):
    return subprocess.run([policy, *arguments], check=False).returncode


def test_starts_are_held_and_let_go(tmp_path):
    policy = tmp_path / "policy-rc.d"
    with service_starts.held(policy):
        assert policy_says(policy, "munge.service", "start") == 101
        assert policy_says(policy, "--quiet", "munge", "start") == 101
        assert policy_says(policy, "munge.service", "stop") == 0
        assert policy_says(policy, "no-such-unit-here.service", "restart") == 101
    assert names(tmp_path) == []


@pytest.mark.parametrize("link", [False, True])
def test_a_sites_own_policy_comes_back(tmp_path, link):
    policy = tmp_path / "policy-rc.d"
    if link:
        policy.symlink_to("/nowhere/policy")
    else:
        policy.write_text("#!/bin/sh\nexit 104\n")
    before = str(policy.readlink()) if link else policy.read_text()
    with pytest.raises(RuntimeError, match="within"), service_starts.held(policy):
        assert service_starts.MARK in policy.read_text()
        raise RuntimeError("within")
    assert (str(policy.readlink()) if link else policy.read_text()) == before
    assert names(tmp_path) == ["policy-rc.d"]


@pytest.mark.parametrize("own", [False, True])
def test_what_a_killed_run_left_is_found(tmp_path, own):
    policy = tmp_path / "policy-rc.d"
    if own:
        policy.write_text("#!/bin/sh\nexit 104\n")
    left = service_starts.held(policy)
    left.__enter__()  # and never left
    with service_starts.held(policy):
        assert service_starts.MARK in policy.read_text()
    assert policy.exists() == own
    if own:
        assert "104" in policy.read_text()
    service_starts.release(policy)
    assert policy.exists() == own
    left.__exit__(None, None, None)
    assert names(tmp_path) == (["policy-rc.d"] if own else [])


def test_of_what_no_source_has_the_reason_is_kept_though_all_else_is_installed(monkeypatch):
    answers = [
        (100, RECORDED["unknown"]),
        (100, RECORDED["signature"]),
        (100, RECORDED["unknown"]),
        (0, []),
    ]
    asked = []

    def run(verb, arguments, report):
        asked.append((verb, *arguments))
        rc, output = answers[len(asked) - 1]
        return apt.AptResult(rc, tuple(output))

    monkeypatch.setattr(apt, "run", run)
    monkeypatch.setattr(packages.disk_space, "check_packages", lambda names: None)
    monkeypatch.setattr(packages.package_lists, "damaged", lambda *_: iter(()))
    found = packages._install(["nonexistent-foo", "tree"], False, frozenset(), None)
    assert [words[0] for words in asked] == ["install", "update", "install", "install"]
    assert asked[-1][-1] == "tree"
    assert found.unknown == {"nonexistent-foo"}
    assert found.error.endswith("is not signed.")  # as apt-get update said it
