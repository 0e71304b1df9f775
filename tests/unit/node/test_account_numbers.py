"""Commands that renumber: made by useradd(8), run, and then nothing is in the way.

That usermod and groupmod change the owner of files only below the home is in their manuals
(man7.org/linux/man-pages/man8/usermod.8.html, groupmod.8.html).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge.node import account_numbers

UID = 43101  # of no other test
APART = """
mkdir "$0/etc" "$0/files"
cp -a /etc/. "$0/etc"
mount --bind "$0/etc" /etc
exec "$@"
"""
RUN = """
import json, sys
from hpcforge.kinds import KINDS
from hpcforge.node import obstacles, receipt
from hpcforge.node.kinds import resources

[role] = roles = json.loads(sys.argv[1])
items = [(KINDS[kind], item) for kind in ("groups", "accounts") for item in resources(role, KINDS[kind])]
found = [obstacles.of_resource(role, kind, item, receipt.EMPTY) for kind, item in items]
print(json.dumps(obstacles.with_commands([obstacle for obstacle in found if obstacle], roles)))
"""


def account(name: str, uid: int) -> dict[str, object]:
    return {"name": name, "uid": uid, "home": f"/home/{name}"}


def group(name: str, gid: int) -> dict[str, object]:
    return {"name": name, "gid": gid}


CASES = {
    "an account with another number": (f"useradd -u {UID + 7} -U hf-ada", [account("hf-ada", UID)], []),
    "its number is another account's": (f"useradd -u {UID} -U hf-other", [account("hf-ada", UID)], []),
    "its numbers are those of two others": (
        f"useradd -u {UID} -g users hf-other; groupadd -g {UID} hf-third; useradd -u {UID + 7} -U hf-ada",
        [account("hf-ada", UID)],
        [],
    ),
    "its primary group is users": (f"useradd -u {UID + 7} -g users hf-ada", [account("hf-ada", UID)], []),
    "a number of the system's": ("useradd -u 843 -U hf-ada", [account("hf-ada", UID)], []),
    "two with each other's numbers": (
        f"useradd -u {UID} -U hf-bob; useradd -u {UID + 1} -U hf-ada",
        [account("hf-ada", UID), account("hf-bob", UID + 1)],
        [],
    ),
    "the next number is of the blueprint, too": (
        f"useradd -u {UID} -U hf-x; useradd -u {UID + 1} -U hf-y",
        [account("hf-ada", UID), account("hf-bob", UID + 1), account("hf-cid", UID + 2)],
        [],
    ),
    "a group with another number": (f"groupadd -g {UID + 7} hf-lab", [], [group("hf-lab", UID)]),
    "a group whose number is an account's": (f"useradd -u {UID} -U hf-other", [], [group("hf-lab", UID)]),
    "a group whose number is the system's": ("groupadd -g 844 hf-old", [], [group("hf-lab", 844)]),
}
# Each has a file outside its home, as a scratch folder has.
FILES = """
for name in $(getent passwd | cut -d: -f1 | grep ^hf-); do touch "$0/u-$name"; chown "$name" "$0/u-$name"; done
for name in $(getent group | cut -d: -f1 | grep ^hf-); do touch "$0/g-$name"; chgrp "$name" "$0/g-$name"; done
"""
OWNERS = """
for file in "$0"/u-*; do test ! -e "$file" || test "u-$(stat -c %U "$file")" = "$(basename "$file")"; done
for file in "$0"/g-*; do test ! -e "$file" || test "g-$(stat -c %G "$file")" = "$(basename "$file")"; done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="makes accounts")
@pytest.mark.parametrize("case", CASES)
def test_the_commands_remove_the_obstacle_and_files_keep_their_owner(case: str, tmp_path: Path) -> None:
    before, accounts, groups = CASES[case]
    script = f"""
set -eu
({before}) 2>/dev/null
cd /; sh -euc '{FILES}' "$1/files"
"$2" -c "$3" "$4" >"$1/found"
"$2" -c 'import json, sys; [print(c) for o in json.load(open(sys.argv[1])) for c in o["commands"]]' "$1/found" >"$1/sh"
sed -i "s,/ /var,$1/files," "$1/sh"
sh -eu "$1/sh" >&2
sh -euc '{OWNERS}' "$1/files"
"$2" -c "$3" "$4"
"""
    role = {"role": "users", "accounts": accounts, "groups": groups}
    apart = ["unshare", "--mount", "sh", "-ec", APART, str(tmp_path)]
    done = subprocess.run(
        [*apart, "bash", "-c", script, "bash", str(tmp_path), sys.executable, RUN, json.dumps([role])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "found").read_text()) != []
    assert json.loads(done.stdout) == []


def numbered(folder: Path, passwd: str, group: str) -> Path:
    (folder / "passwd").write_text(passwd)
    (folder / "group").write_text(group)
    return folder


def test_commands_search_a_home_apart_and_quote_names(tmp_path: Path) -> None:
    home = tmp_path / "home of ada"
    home.mkdir()
    etc = numbered(tmp_path, f"+@lab::::::\nODD$\x20X:x:{UID}:{UID}::{home}:/bin/sh\n", f"ODD$\x20X:x:{UID}:\n+:::\n")
    numbers = account_numbers.Numbers([{"role": "users", "accounts": [account("hf-ada", UID)]}], etc)  # type: ignore[typeddict-unknown-key]
    assert numbers.account("hf-ada", UID) == [
        f"groupmod --gid {UID + 1} 'ODD$ X'",
        f"find / /var '{home}' -xdev -gid {UID} -exec chgrp -h 'ODD$ X' {{}} +",
        f"usermod --uid {UID + 1} 'ODD$ X'",
        f"find / /var '{home}' -xdev -uid {UID} -exec chown -h 'ODD$ X' {{}} +",
    ]


@pytest.mark.parametrize(("number", "files"), [(44, ("", "video:x:44:\n")), (65534, ("", ""))])
def test_no_number_of_debian_s_own_nor_of_a_directory_service_changes(
    number: int, files: tuple[str, str], tmp_path: Path
) -> None:
    etc = numbered(tmp_path, *files)  # nobody's comes from elsewhere, then
    obstacle = {"role": "users", "kind": "group", "name": "hf-lab", "why": "it is another's", "commands": []}
    roles = [{"role": "users", "groups": [group("hf-lab", number)]}]
    assert list(account_numbers.with_commands([obstacle], roles, etc)) == [obstacle]  # type: ignore[list-item]
