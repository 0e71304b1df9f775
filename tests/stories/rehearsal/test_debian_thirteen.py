"""The shipped rehearsal on Debian 13: Slurm 24.11, Python 3.13, and the distribution's own PyTorch, driver and CUDA."""

from __future__ import annotations

import json

import pytest

from hpcforge.catalog import load_catalog
from tests.support.site import Site
from tools import slurm_settings

pytestmark = pytest.mark.lab


def test_from_nothing_to_verified(site: Site) -> None:
    text = site.blueprint.read_text()
    nvidia = '\n  nvidia: {driver: "550.163.01", modules: open}\n  frameworks'
    text = text.replace('release: "12"', 'release: "13"').replace("\n  frameworks", nvidia)
    site.blueprint.write_text(text.replace("count: 2}}", "count: 2}, shards: {1: 4}}"))
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if "  passed  " in line] == ["allreduce", "train_ddp"]
    assert "6 ranks on w[01-03]" in done.stdout
    assert "torch 2.6.0" in done.stdout
    assert "from the distribution" in done.stdout


def test_it_is_what_the_catalog_says(site: Site) -> None:
    assert " 24.11." in site.ssh("head", "scontrol --version")
    assert site.ssh("w03", "cat /etc/debian_version").startswith("13.")
    assert site.ssh("w03", "python3 --version").startswith("Python 3.13")
    site.becomes("head", "sinfo -h -o '%D %T %G'", "3 idle gpu:fake:2,shard:fake:4\n")
    assert "CUDA_VISIBLE_DEVICES=0\n" in site.ssh("head", "sudo -iu ada srun --gres=gpu:1 env")


def test_the_names_of_settings_are_those_that_its_slurm_has(site: Site) -> None:
    library = site.fetch("head", "/usr/lib/*/slurm-wlm/libslurmfull.so")
    release = load_catalog().slurm["24.11"]
    assert slurm_settings.settings(library) == (release.settings, release.partition_settings)


def begun(site: Site, name: str, gres: str) -> None:
    """A job of ada's on w01 that says which GPUs it sees, and stays; two at once have all of its cores."""
    options = f"-J {name} -w w01 --mem=10 -D / -o /var/tmp/{name} --gres={gres}"
    site.ssh("head", f"sudo -iu ada sbatch {options} --wrap 'printenv CUDA_VISIBLE_DEVICES; sleep 600'")


JOBS = "squeue -h -S i -o '%j %T %r' || :"
USED = "scontrol show node -d w01 | grep -o 'shard:fake:[^ ]*' | tail -n 1 || :"


def test_a_gpu_is_had_by_shards_or_whole_and_never_both(site: Site) -> None:
    begun(site, "one", "shard:1")
    begun(site, "two", "shard:1")
    site.becomes("head", JOBS, "one RUNNING None\ntwo RUNNING None\n")
    site.becomes("w01", "cat /var/tmp/one /var/tmp/two || :", "1\n1\n")
    site.ssh("head", "sudo -iu ada scancel -n two")
    begun(site, "other", "gpu:1")
    site.becomes("w01", "cat /var/tmp/other || :", "0\n")  # the GPU that nobody shares, and the core that is free
    site.ssh("head", "sudo -iu ada scancel -n other")
    site.becomes("head", JOBS, "one RUNNING None\n")
    begun(site, "whole", "gpu:2")
    site.becomes("head", JOBS, "one RUNNING None\nwhole PENDING Resources\n")
    site.ssh("head", "sudo systemctl restart slurmctld")  # 22.05 forgets by it what is shared
    site.becomes("head", USED, "shard:fake:1(0/0,1/4)\n")
    site.becomes("head", JOBS, "one RUNNING None\nwhole PENDING Resources\n")
    site.ssh("head", "sudo -iu ada scancel -n one")
    site.becomes("w01", "cat /var/tmp/whole || :", "0,1\n")
    begun(site, "late", "shard:1")
    site.becomes("head", JOBS, "whole RUNNING None\nlate PENDING Resources\n")
    site.ssh("head", "sudo -iu ada scancel -u ada")
    site.becomes("head", JOBS, "")
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")


def test_the_driver_is_there_at_one_version_and_held(site: Site) -> None:
    """What programs load; modules need a machine's own kernel."""
    fields = "'${source:Package} ${source:Upstream-Version} ${db:Status-Want} ${Package}\\n'"
    lines = [line.split() for line in site.ssh("w03", f"dpkg-query -W -f {fields}").splitlines()]
    of_driver = [line for line in lines if line[0] == "nvidia-graphics-drivers"]
    assert {version for _, version, *_ in of_driver} == {"550.163.01"}
    held = {name for *_, want, name in lines if want == "hold"}
    assert held == {name for *_, name in of_driver}
    site.ssh("w03", "python3 -c 'import ctypes; ctypes.CDLL(\"libcuda.so.1\")'")


def test_a_second_apply_changes_nothing(site: Site) -> None:
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "Nothing to do on 4 nodes." in done.stderr
    assert json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)["steps"] == []


def test_a_reconfigure_that_cannot_be_read_leaves_slurm_as_it_was(site: Site) -> None:
    """24.11 keeps the running configuration, and hpcforge its files; the apply says why and ends in 5."""
    right = site.blueprint.read_text()
    site.blueprint.write_text(
        right.replace("  partitions:\n", '  settings: {BurstBufferType: "burst_buffer/none-such"}\n  partitions:\n')
    )
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 5
    assert "cannot create burst_buffer context for burst_buffer/none-such" in done.stdout
    assert "burst_buffer/none-such" not in site.ssh("head", "cat /etc/slurm/slurm.conf")
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")
    site.blueprint.write_text(right)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.ssh("head", "sudo -iu ada srun -N3 hostname | wc -l") == "3\n"


KEPT = "sudo cat /var/lib/slurm/slurmctld/clustername || :"
# What slurmdbd tells slurmctld the cluster is: its name and number.
TOLD = "sudo mariadb -N slurm_acct_db -e \"SELECT CONCAT(name, '|', id) FROM cluster_table\" | tr -d '\\n'"


def test_accounting_is_turned_on_under_a_job(site: Site) -> None:
    """slurmctld has made up a number of its own by then, and refuses to run where slurmdbd has another."""
    begun(site, "early", "gpu:1")
    site.becomes("head", JOBS, "early RUNNING None\n")
    assert site.ssh("head", KEPT).startswith("rehearsal|")
    text = site.blueprint.read_text()
    assert text.count("\n  time:  {on: head}\n") == 1
    site.blueprint.write_text(
        text.replace("\n  time:  {on: head}\n", "\n  time:  {on: head}\n  accounting: {on: head}\n")
    )
    assert "~ unit slurmctld.service: refresh (" in site.cli("plan", "BLUEPRINT").stdout
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
    site.becomes("head", JOBS, "early RUNNING None\n")
    number = site.ssh("head", TOLD)
    assert number.startswith("rehearsal|")
    site.becomes("head", KEPT, number)
    assert json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)["steps"] == []
    site.ssh("head", "sudo systemctl restart slurmctld")  # by itself it would end here
    site.becomes("head", JOBS, "early RUNNING None\n")
    site.becomes("head", KEPT, number)
    site.ssh("head", "sudo -iu ada scancel -n early")
    site.becomes("head", "sacct -nPX --user ada --name early -o jobname,state || :", "early|CANCELLED by 2001\n")
