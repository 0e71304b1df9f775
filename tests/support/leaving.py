"""What leaves a blueprint in one apply: a user, a group, a partition, a QOS, a mount, the directory; and what stays."""

from __future__ import annotations

import re

from tests.support.site import Site

# What goes, and where else it is named.
_LEAVE = (
    (r"^ +(bob|hpc|directory|large|urgent|glusterfs_client): .*\n", ""),
    (r"^groups:\n", ""),
    (r", groups: \[hpc\]", ""),
    (r", bob: {max_jobs: 4}", ""),
    (r", urgent\]", "]"),
    (r"(main: +{nodes:) w,", r"\1 all,"),
)
_LAST_JOB = "sbatch --parsable --wait -p large --qos=urgent --gres=gpu:1 -D / -o /projects/of_bob --wrap 'id -un'"
_OF_BOB = "bob|research|large|urgent|COMPLETED\n"
_ASSOCIATIONS = "sudo sacctmgr -nP show association where account=research,teaching format=account,user"
_DIRECTORY_LEFT = """cat /etc/nsswitch.conf /etc/pam.d/common-* | grep -E 'sss|mkhomedir'; getent passwd grace
sudo sshd -T -C user=x,host=x,addr=127.0.0.1 | grep 'sss_'; ls -d /etc/sssd /usr/share/pam-configs/*hpcforge*; :"""
_MOUNT_LEFT = """grep projects /proc/self/mounts; ls -d /projects /etc/systemd/system/projects.* 2>/dev/null
systemctl is-active projects.mount projects-mount.timer | grep -v inactive; :"""


def all_of_it_leaves(site: Site) -> None:
    """A job with all that leaves, then an apply without it."""
    job = site.ssh("head", f"sudo -iu bob {_LAST_JOB}").strip()
    site.becomes("login", "cat /projects/of_bob", "bob\n")
    history = f"sudo sacct -nPX -j {job} -o user,account,partition,qos,state"
    site.becomes("head", history, _OF_BOB)  # slurmdbd is told some time after the job's end
    text = site.blueprint.read_text()
    for pattern, instead in _LEAVE:
        text, changed = re.subn(pattern, instead, text, flags=re.MULTILINE)
        assert changed, pattern
    site.blueprint.write_text(text)
    # A health check each 5 s may see that a mount has gone before it learns that it must.
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode in (0, 5)
    _check_removed(site, history)


def _check_removed(site: Site, history: str) -> None:
    for node in ("login", "w01"):
        assert site.ssh(node, "sudo getent shadow bob | cut -d: -f8; getent group hpc || :") == "1\n"
        assert site.ssh(node, f"{{ {_DIRECTORY_LEFT}\n}} 2>/dev/null") == ""
    for node in ("login", "w01", "g01"):
        assert site.ssh(node, _MOUNT_LEFT) == ""
        site.becomes(node, "sinfo -h -o %R", "main\n")
    shown = "research| research|ada research|grace teaching| teaching|tests"  # grace was put there by hand
    assert sorted(site.ssh("head", _ASSOCIATIONS).split()) == shown.split()
    assert sorted(site.ssh("head", "sudo sacctmgr -nP show qos format=name,preempt").split()) == ["night|", "normal|"]

    # Who keeps them keeps files and people; what ran is not forgotten, under the names that it had.
    assert site.ssh("storage", "sudo cat /srv/brick/of_bob") == "bob\n"
    script = "systemctl is-active slapd || sudo ls /var/lib/ldap/hpcforge"
    assert site.ssh("head", script) == "inactive\ndata.mdb\nlock.mdb\n"
    assert site.ssh("head", history) == _OF_BOB
