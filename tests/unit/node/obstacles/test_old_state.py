"""What another cluster left where a role would take it for its own.

The forms are those of public reports: slurmctld's "CLUSTER NAME MISMATCH" and "CLUSTER ID MISMATCH", with the file
`clustername` (github.com/aws/aws-parallelcluster-cookbook/pull/2994), and a slurm.conf that stayed on a node
(slurm.schedmd.com/configless_slurm.html: the order in which configurations count).
"""

import os

import pytest

from hpcforge.node import converge, events, observe, receipt
from hpcforge.node.obstacles import Inspection, old_state

WHY = "it would not start"


@pytest.fixture
def state(tmp_path):
    """A state folder of Slurm in the root's own folder."""
    folder = tmp_path / "slurmctld"
    folder.mkdir(mode=0o700)
    (folder / "job_state").write_text("jobs")
    return folder


def item(path, **more):
    return {"path": str(path), "cluster": "new", "why": WHY, "name_in": "", "beside": [], "unit": "", **more}


def role(*items):
    return {"role": "controller", "old_state": list(items)}


def found(*items):
    return list(old_state.search(Inspection([], {}, receipt.EMPTY, [role(*items)])))


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("old", "cluster 'old'"),
        ("old\n", "cluster 'old'"),
        ("old|4018", "cluster 'old'"),
        ("old\0", "cluster 'old'"),
        ("new", None),
        ("new|7", None),
        ("New", None),
        ("", None),
    ],
)
def test_state_of_another_cluster_is_named_and_ours_is_not(state, text, cluster):
    (state / "clustername").write_text(text)
    conflicts = found(item(state, name_in="clustername"))
    assert [conflict.why.partition(",")[0] for conflict in conflicts] == ([f"it is of {cluster}"] if cluster else [])


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("ClusterName=old\nSlurmctldHost=x\n", "cluster 'old'"),
        ("# by hand\n  clustername = old # yes\n", "cluster 'old'"),
        ("SlurmctldHost=x\n", "a cluster without a name"),
        ("ClusterName=new\n", None),
        ("#ClusterName=new\nClusterName=old", "cluster 'old'"),
    ],
)
def test_a_slurm_conf_of_another_cluster_is_named(tmp_path, text, cluster):
    conf = tmp_path / "slurm.conf"
    conf.write_text(text)
    conflicts = found(item(conf))
    assert [conflict.why.partition(",")[0] for conflict in conflicts] == ([f"it is of {cluster}"] if cluster else [])


def test_what_is_not_there_or_no_file_is_no_conflict(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    paths = ("none", "fifo", "folder")
    assert found(*(item(tmp_path / name) for name in paths), item(tmp_path / "none", name_in="clustername")) == []


def test_commands_rename_it_by_hand(state):
    (state / "clustername").write_text("old")
    [conflict] = found(item(state, name_in="clustername", unit="slurmctld.service"))
    assert (conflict.kind, conflict.name) == ("old state", str(state))
    assert WHY in conflict.why
    assert conflict.why.endswith("`apply --take-over` renames it")
    assert conflict.commands == ("systemctl stop 'slurmctld*.service'", f"mv -nT {state} {state}.cluster-old")


def test_take_over_keeps_all_of_it_beside_and_a_second_one_finds_nothing(state, report, heard):
    (state / "clustername").write_text("../old")
    work = [role(item(state, name_in="clustername"))]
    old_state.keep_aside(work, report)
    [aside] = state.parent.glob("slurmctld.cluster-old-*")
    assert (aside / "job_state").read_text() == "jobs"
    assert (list(state.iterdir()), state.stat().st_mode & 0o777) == ([], 0o700)
    assert [event["detail"] for event in heard] == [f"of cluster '../old': kept as {aside}"]
    old_state.keep_aside(work, report)
    assert len(heard) == 1


def test_what_has_our_name_is_never_renamed(state, report, heard):
    (state / "clustername").write_text("new")
    old_state.keep_aside([role(item(state, name_in="clustername"))], report)
    assert (list(state.parent.iterdir()), heard) == ([state], [])


def test_files_beside_are_renamed_with_it(tmp_path, report):
    conf, gres = tmp_path / "slurm.conf", tmp_path / "gres.conf"
    conf.write_text("ClusterName=old\n")
    gres.write_text("Name=gpu\n")
    old_state.keep_aside([role(item(conf, beside=[str(gres), str(tmp_path / "none")]))], report)
    names = sorted(path.name.rpartition("-")[0].rpartition("-")[0] for path in tmp_path.iterdir())
    assert names == ["gres.conf.cluster-old", "slurm.conf.cluster-old"]


def test_what_cannot_be_renamed_is_an_error_that_says_so(state, report, monkeypatch):
    (state / "clustername").write_text("old")
    monkeypatch.setattr(old_state.time, "strftime", lambda _form: "-now")
    (state.parent / "slurmctld.cluster-old-now").mkdir()
    with pytest.raises(events.NodeError, match=r"is there already: rename .* by hand"):
        old_state.keep_aside([role(item(state, name_in="clustername"))], report)


def test_a_host_that_had_no_python_is_refused_unless_it_is_taken_over(state, report, heard):
    (state / "clustername").write_text("old")
    work = [role(item(state, name_in="clustername"))]
    assert converge._is_fit(work, [], receipt.EMPTY, report, {old_state.KIND})
    assert not converge._is_fit(work, [], receipt.EMPTY, report)
    [failed] = [event for event in heard if event["event"] == "failed"]
    assert (failed["role"], failed["kind"]) == ("controller", "old state")
    assert failed["error"].startswith("it is of cluster 'old'")


def test_it_is_named_where_nothing_else_differs(state, report, heard):
    (state / "clustername").write_text("old")
    observe.observe({"verb": "observe", "wanted": [role(item(state, name_in="clustername"))]}, report)
    [answer] = [event for event in heard if event["event"] == "observed"]
    assert answer["differs"] == []
    assert [(found["role"], found["kind"]) for found in answer["obstacles"]] == [("controller", "old state")]
