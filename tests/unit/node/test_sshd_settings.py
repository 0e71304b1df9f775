"""The line that counts, in files as administrators and images leave them.

The forms are those of sshd_config(5) (man.openbsd.org/sshd_config), of Debian's own file with its Include on top, of
cloud-init's `sshd_config.d/50-cloud-init.conf` (cloudinit.readthedocs.io, module set_passwords), and of files kept from
OpenSSH before 8.7, which have ChallengeResponseAuthentication.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcforge.node import checks, sshd_settings

DEBIAN = "Include /etc/ssh/sshd_config.d/*.conf\n\nKbdInteractiveAuthentication no\nUsePAM yes\n"
OURS = "# of hpcforge\nMaxStartups 300:30:900\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
CLOUD = "PasswordAuthentication yes\n"
MAIN, OWN = "sshd_config", "sshd_config.d/00-hpcforge.conf"
PASSWORDS, STARTUPS = "passwordauthentication", "maxstartups"
CASES = {
    "only the own line": ({MAIN: DEBIAN, OWN: OURS}, f"{PASSWORDS} no", f"{OWN} line 3"),
    "above the Include": (
        {MAIN: f"# site\nPasswordAuthentication yes\n{DEBIAN}", OWN: OURS},
        f"{PASSWORDS} yes",
        f"{MAIN} line 2",
    ),
    "below it": ({MAIN: f"{DEBIAN}PasswordAuthentication yes\n", OWN: OURS}, f"{PASSWORDS} no", f"{OWN} line 3"),
    "of MaxStartups the last": (
        {MAIN: f"{DEBIAN}MaxStartups 10\n", OWN: OURS},
        f"{STARTUPS} 10:30:10",
        f"{MAIN} line 5",
    ),
    "of MaxStartups not the first": (
        {MAIN: f"MaxStartups 10\n{DEBIAN}", OWN: OURS},
        f"{STARTUPS} 300:30:900",
        f"{OWN} line 2",
    ),
    "with an equals sign": ({MAIN: f"passwordauthentication=yes\n{DEBIAN}"}, f"{PASSWORDS} yes", f"{MAIN} line 1"),
    "in quotes, with spaces": (
        {MAIN: f'  PasswordAuthentication = "yes"\n{DEBIAN}', OWN: OURS},
        f"{PASSWORDS} yes",
        f"{MAIN} line 1",
    ),
    "of an image, by name": (
        {MAIN: DEBIAN, OWN: OURS, "sshd_config.d/50-cloud-init.conf": CLOUD},
        f"{PASSWORDS} no",
        f"{OWN} line 3",
    ),
    "by a name before ours": (
        {MAIN: DEBIAN, OWN: OURS, "sshd_config.d/00-cloud.conf": CLOUD},
        f"{PASSWORDS} yes",
        "sshd_config.d/00-cloud.conf line 1",
    ),
    "a file of another ending": (
        {MAIN: DEBIAN, OWN: OURS, "sshd_config.d/00-a": CLOUD},
        f"{PASSWORDS} no",
        f"{OWN} line 3",
    ),
    "an older name": (
        {MAIN: f"ChallengeResponseAuthentication yes\n{DEBIAN}", OWN: OURS},
        "kbdinteractiveauthentication yes",
        f"{MAIN} line 1",
    ),
    "a value that is printed otherwise": (
        {MAIN: f"LoginGraceTime 2m\n{DEBIAN}", OWN: "LoginGraceTime 60\n"},
        "logingracetime 120",
        f"{MAIN} line 1",
    ),
    "of some connections": (
        {
            MAIN: f"Match User git\nPasswordAuthentication no\nMatch all\nPasswordAuthentication yes\n{DEBIAN}",
            OWN: OURS,
        },
        f"{PASSWORDS} yes",
        f"{MAIN} line 4",
    ),
    "an Include of some connections": (
        {
            MAIN: "Match Address 10.0.0.0/8\nInclude sshd_config.d/*\nMatch all\nPasswordAuthentication yes\n",
            OWN: CLOUD,
        },
        f"{PASSWORDS} yes",
        f"{MAIN} line 4",
    ),
    "a Match of an included file ends with it": (
        {MAIN: f"{DEBIAN}PasswordAuthentication yes\n", "sshd_config.d/10-sftp.conf": f"Match Group sftp\n{CLOUD}"},
        f"{PASSWORDS} yes",
        f"{MAIN} line 5",
    ),
    "a relative pattern, and two": (
        {MAIN: "Include none.conf sshd_config.d/*.conf\n", OWN: OURS},
        f"{PASSWORDS} no",
        f"{OWN} line 3",
    ),
}


def written(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = root / "etc/ssh" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("case", CASES)
def test_the_line_that_counts_is_named(case: str, tmp_path: Path) -> None:
    texts, printed, expected = CASES[case]
    keyword, value = printed.split()
    assert sshd_settings.source(keyword, value, written(tmp_path, texts)) == f"/etc/ssh/{expected}"


@pytest.mark.parametrize("texts", [{}, {MAIN: "UsePAM yes\n", OWN: OURS}, {MAIN: "Include sshd_config\n"}])
def test_a_folder_that_sshd_does_not_read_sets_nothing(texts: dict[str, str], tmp_path: Path) -> None:
    expected = "no line of /etc/ssh/sshd_config and of the files that it includes sets it"
    assert sshd_settings.source(STARTUPS, "10:30:100", written(tmp_path, texts)) == expected


def test_a_failed_check_names_the_setting_and_its_line(
    wanted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in sshd's place, which prints as much as sshd does."""
    program = tmp_path / "sshd"
    program.write_text(f"#!/bin/sh\necho '{'port 22 ' * 200}'\necho maxstartups 10:30:100\n")
    program.chmod(0o755)
    monkeypatch.setattr(checks, "_SSHD", (str(program), "-T"))
    monkeypatch.setattr(sshd_settings, "source", lambda keyword, value: f"where {keyword} is {value}")
    check = wanted.check(str(program), "-T", stdout="(?i)^maxstartups 300:30:900$")
    said = "maxstartups 10:30:100 (where maxstartups is 10:30:100)"
    assert checks.attempt(check, 5) == f"output does not match /{check['stdout']}/: {said}"
    other = wanted.check("printf", "port 22\nhost a\n", stdout="^host b$")
    assert checks.attempt(other, 5) == "output does not match /^host b$/: host a"
