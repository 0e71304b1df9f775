"""Service starts are held back while packages are installed, and a site's own policy comes back."""

import subprocess

import pytest

from hpcforge.node.package_manager.apt import service_starts


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
