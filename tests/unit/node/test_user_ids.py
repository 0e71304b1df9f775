"""Numbers of users and groups of this host."""

import os
import pwd

import pytest

from hpcforge.node import user_ids


def test_numbers_of_local_accounts_are_those_of_the_files(tmp_path, monkeypatch):
    passwd = tmp_path / "passwd"
    passwd.write_text(
        "root:x:0:0:root:/root:/bin/bash\nslurm:x:1001:1001::/home/slurm:/bin/bash\n+::::::\nbroken:x\nodd:x:ten:1::/:\n"
    )
    assert user_ids._local(str(passwd)) == {"slurm": 1001}
    passwd.write_text("".join(f"u{n}:x:{n}:{n}::/:/bin/sh\n" for n in range(1000, 9000)))
    assert len(user_ids._local(str(passwd))) == 2000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_of_shared_folders_are_told_by_name(tmp_path):
    someone = next(user for user in pwd.getpwall() if user.pw_uid >= 1 and user.pw_name != "nobody")
    (tmp_path / "home").mkdir()
    (tmp_path / "nameless").touch()
    os.chown(tmp_path / "home", someone.pw_uid, 0)
    os.chown(tmp_path / "nameless", 54321, 54321)
    found = user_ids.accounts([str(tmp_path), "/nonexistent"])
    assert found["owner_users"] == {someone.pw_name: someone.pw_uid, "54321": 54321}
    assert found["owner_groups"] == {"root": 0, "54321": 54321}
