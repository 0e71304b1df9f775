"""apt's and dpkg's words, as recorded on Debian 12."""

import pytest

from hpcforge.node.package_manager.apt import transactions

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


@pytest.mark.parametrize("kind", RECORDED)
def test_kinds_of_failure(kind):
    assert transactions.kind(RECORDED[kind]) == kind


def test_a_lock_is_waited_for_and_who_holds_it_is_said_once(monkeypatch, report, heard):
    ends = iter(
        [
            *[transactions.AptResult(100, tuple(RECORDED["lock"]))] * 3,
            transactions.AptResult(100, tuple(RECORDED["network"])),
        ]
    )
    monkeypatch.setattr(transactions, "_once", lambda argv, report: next(ends))
    monkeypatch.setattr(transactions.time, "sleep", lambda seconds: None)
    assert transactions.kind(transactions.run("install", ["munge"], report).output) == "network"
    assert [event["detail"] for event in heard] == ["waiting: " + transactions.lock_holder(RECORDED["lock"][0])]


def test_a_lock_is_waited_for_with_an_end(monkeypatch, report):
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr(
        transactions, "_once", lambda argv, report: transactions.AptResult(100, tuple(RECORDED["lock"]))
    )
    monkeypatch.setattr(transactions.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(transactions.time, "sleep", lambda seconds: None)
    assert "process 255 (python3)" in transactions.essence(transactions.run("install", ["munge"], report).output)
    assert next(now) == 500  # asked for the time at the beginning and four times after that


def test_the_holder_of_a_lock_is_named_with_command_and_unit(tmp_path):
    (tmp_path / "255").mkdir()
    (tmp_path / "255/cmdline").write_bytes(b"/usr/bin/python3\0/usr/bin/unattended-upgrade\0")
    (tmp_path / "255/cgroup").write_text("0::/system.slice/apt-daily-upgrade.service\n")
    line = RECORDED["lock"][0]
    named = transactions.lock_holder(line, tmp_path)
    assert named == f"{line}: /usr/bin/python3 /usr/bin/unattended-upgrade (unit apt-daily-upgrade.service)"
    other = "dpkg: error: dpkg frontend lock was locked by another process with pid 255"
    assert transactions.lock_holder(other, tmp_path).endswith("(unit apt-daily-upgrade.service)")
    assert transactions.lock_holder(line.replace("255", "256"), tmp_path) == line.replace("255", "256")


def test_a_long_command_leaves_room_for_the_lock_and_the_unit(tmp_path, report, heard):
    (tmp_path / "255").mkdir()
    (tmp_path / "255/cmdline").write_bytes(b"apt-get\0install\0" + b"linux-image-amd64\0" * 200)
    (tmp_path / "255/cgroup").write_text("0::/system.slice/apt-daily-upgrade.service\n")
    report.progress(None, f"waiting: {transactions.lock_holder(RECORDED['lock'][0], tmp_path)}")
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
    assert transactions.kind([line]) == "lock"


@pytest.mark.parametrize(("kind", "error"), [("other", None), ("lock", "dpkg --configure -a: E: Could not get lock")])
def test_a_package_that_cannot_be_configured_stops_no_other(monkeypatch, tmp_path, report, kind, error):
    (tmp_path / "0001").touch()
    monkeypatch.setattr(transactions.dpkg, "JOURNAL", tmp_path)
    monkeypatch.setattr(transactions.dpkg, "half_unpacked", list)
    monkeypatch.setattr(transactions, "configure", lambda _: transactions.AptResult(1, tuple(RECORDED[kind])))
    found = transactions._finish_interrupted(report)
    assert found is None if error is None else found.startswith(error)


def test_essence_is_what_says_why():
    assert transactions.essence(RECORDED["unknown"]).splitlines() == RECORDED["unknown"][3:]
    assert "process 255 (python3)" in transactions.essence(RECORDED["lock"])
    assert transactions.essence(["just", "words"]) == "just\nwords"
    assert transactions.essence([]) == "it said nothing"


def test_progress_of_the_status_descriptor():
    assert transactions.progress_text("dlstatus:2:13.5022:Retrieving file 2 of 5 (2s remaining)") == "13 % downloaded"
    assert (
        transactions.progress_text("pmstatus:munge:58.3333:Installed munge (amd64)")
        == "58 % installed: Installed munge (amd64)"
    )
    assert transactions.progress_text("media-change: x") is None


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
        return transactions.AptResult(rc, tuple(output))

    monkeypatch.setattr(transactions, "run", run)
    monkeypatch.setattr(transactions.disk_space, "check_packages", lambda names: None)
    monkeypatch.setattr(transactions.apt_files, "damaged", lambda *_: iter(()))
    found = transactions._install(["nonexistent-foo", "tree"], False, frozenset(), None)
    assert [words[0] for words in asked] == ["install", "update", "install", "install"]
    assert asked[-1][-1] == "tree"
    assert found.unknown == {"nonexistent-foo"}
    assert found.error.endswith("is not signed.")  # as apt-get update said it
