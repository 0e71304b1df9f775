"""Files that take effect as they are written, with an /etc and a host name apart."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes the host name, in a namespace")

APART = """
mkdir "$0/etc"
cp -a /etc/. "$0/etc"
mount --bind "$0/etc" /etc
hostname GPU-07.old.example.org
exec "$@"
"""
RUN = """
import json, os, sys
from hpcforge.kinds.files import FileWithContent
from hpcforge.node.kinds import files

told = [[files.put(FileWithContent(**item)), os.uname().nodename] for item in json.loads(sys.argv[1])]
print(json.dumps(told))
"""


def test_a_host_name_is_the_kernels_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    root = {"mode": "0644", "owner": "root", "group": "root", "digest": None, "secret": False, "early": False}
    name = {**root, "path": "/etc/hostname", "content_base64": base64.b64encode(b"gpu07\n").decode()}
    other = {**root, "path": "/etc/other", "content_base64": base64.b64encode(b"gpu08\n").decode()}
    python = [sys.executable, "-c", RUN, json.dumps([other, name, name])]
    words = ["unshare", "--mount", "--uts", "sh", "-ec", APART, str(tmp_path), *python]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (_, before), (did, after), again = json.loads(ran.stdout)
    assert (before, after) == ("GPU-07.old.example.org", "gpu07")
    assert did and again == [None, "gpu07"]


RENAMED = """
import json, os, subprocess, sys
from hpcforge.kinds.files import FileWithContent
from hpcforge.node.kinds import files

wanted = FileWithContent(**json.loads(sys.argv[1]))
told = [files.put(wanted), files.compare(wanted)]
subprocess.run(["hostname", "ip-10-91-0-13"], check=True)
print(json.dumps([*told, files.compare(wanted)["text"], files.put(wanted), os.uname().nodename, files.compare(wanted)]))
"""


def test_a_name_that_only_the_kernel_has_differs_and_is_set_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    name = {"path": "/etc/hostname", "mode": "0644", "owner": "root", "group": "root", "secret": None, "early": False}
    content = {
        "digest": hashlib.sha256(b"gpu07\n").hexdigest(),
        "content_base64": base64.b64encode(b"gpu07\n").decode(),
    }
    python = [sys.executable, "-c", RENAMED, json.dumps({**name, **content})]
    words = ["unshare", "--mount", "--uts", "sh", "-ec", APART, str(tmp_path), *python]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)[1:] == [None, "ip-10-91-0-13\n", "the kernel's", "gpu07", None]
