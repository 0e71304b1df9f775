"""What first contact names where python3 cannot be installed, by the real apt, in POSIX sh."""

import os
import subprocess

from hpcforge.engines.node_output import AnswerReader
from hpcforge.node import contact
from tests.support.apt_root import apt_root


def sh(commands, **variables):
    functions = contact.bootstrap_script().rpartition("main\n")[0]
    argv = ["sh", "-c", functions + commands]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **variables}
    ).stdout


def test_a_hold_that_python_needs_is_named_and_no_other(tmp_path):
    with apt_root(tmp_path, {"python3": "Depends: libpython3\n", "libpython3": "", "jq": ""}) as root:
        root.have("libpython3", "hold ok not-installed")
        root.have("jq", "hold ok not-installed")
        hints = sh("hints nothing", **root.environment())
    assert hints == "; package libpython3 is on hold: run there: apt-mark unhold libpython3"


def test_why_python_did_not_come_is_the_error_of_the_task(tmp_path):
    with apt_root(tmp_path, {"python3": ""}) as root:
        root.have("python3", "hold ok not-installed")
        lines = sh('as_root() { "$@"; }; there() { false; }; with_apt', **root.environment())
    reader = AnswerReader()
    for line in lines.splitlines():
        reader.take(line)
    error = reader.error("w03", "exit status 1 on w03")
    assert "package python3 is on hold: run there: apt-mark unhold python3" in error


def test_the_holder_of_a_lock_is_named():
    line = f"E: Could not get lock /var/lib/apt/lists/lock. It is held by process {os.getpid()} (python)"
    assert f"{line} " in sh(f"said='{line}'; holder")
    assert "python" in sh(f"said='{line}'; holder").removeprefix(line)
    gone = "dpkg: error: dpkg frontend lock was locked by another process with pid 4194304"
    assert sh(f"said='{gone}'; holder").strip() == gone


def test_a_login_proxy_is_no_setting_of_apt():
    assert (
        sh("as_root sh -c 'echo ${http_proxy:-none} ${https_proxy:-none}'", http_proxy="http://10.0.0.1:1")
        == "none none\n"
    )


def test_a_source_that_fails_is_named():
    said = "Err:1 http://nosuch.example.org/debian bookworm InRelease\n  Could not resolve host\n"
    assert "; package source http://nosuch.example.org/debian fails" in sh(f"hints '{said}'")
