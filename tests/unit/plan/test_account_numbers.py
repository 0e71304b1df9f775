"""Accounts that have another number on a node than on the head.

The kinds are those of public guides and manuals: munge and slurm made by hand
(moc-documents.readthedocs.io/en/latest/hpc/Slurm.html), and users and groups that have to be the same on all nodes
(slurm.schedmd.com/quickstart_admin.html).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.storage import FileSystem
from hpcforge.engines.tasks import Event
from hpcforge.kinds.accounts import Account
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.mounts import Mount
from hpcforge.plan.account_numbers import number_conflicts, shared_folders
from hpcforge.plan.changes import Scope
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Accounts, Observation
from hpcforge.plan.plan import Obstacle
from hpcforge.run.observe import _add_event, _numbers

CONTROLLER = DesiredRole("controller", packages=("slurmctld", "munge"))
COMPUTE = DesiredRole("compute", packages=("slurmd", "munge"))
HOMES = FileSystem("homes", "nfs", "head:/srv", "nfs", "rw", "/home", ("head", "w1"), "head", "/srv/homes")
PACKAGES = Accounts({"slurm": 64030, "munge": 107}, {"slurm": 64030, "munge": 114})
NONE = Accounts()


def desired(*more: DesiredRole) -> Desired:
    nodes = {"head": (CONTROLLER, *more), "w1": (COMPUTE, *more), "w2": (COMPUTE, *more)}
    return Desired(("controller", "compute", *(role.role for role in more)), nodes, {})


def seen(**accounts: Accounts) -> dict[str, Observation]:
    return {name: Observation(name, accounts=found) for name, found in accounts.items()}


def found(cluster: Cluster, head: Accounts, w1: Accounts, *more: DesiredRole) -> list[Obstacle]:
    answers = seen(head=head, w1=w1)
    return list(number_conflicts(cluster, desired(*more), answers, answers["head"]))


def said(obstacles: list[Obstacle]) -> list[str]:
    return [f"{obstacle.node} {obstacle.role} {obstacle.said}" for obstacle in obstacles]


MINE = Accounts({"slurm": 1001}, {"slurm": 1001})
OWN_MUNGE = Accounts({"munge": 1002, "slurm": 64030}, {"munge": 1002, "slurm": 64030})


@pytest.mark.parametrize(
    ("head", "w1", "expected"),
    [
        (NONE, NONE, []),
        (PACKAGES, PACKAGES, []),
        (PACKAGES, NONE, []),
        (PACKAGES, Accounts({"slurm": 64030, "munge": 104}, {"slurm": 64030, "munge": 110}), []),
        (MINE, MINE, []),  # a site's own, the same everywhere
        (
            NONE,  # at the first apply the head has none
            MINE,
            [
                "w1 compute account slurm: slurm is 1001 here and 64030 on other nodes",
                "w1 compute group slurm: slurm is 1001 here and 64030 on other nodes",
            ],
        ),
        (
            PACKAGES,
            Accounts({"slurm": 64030}, {"slurm": 988}),
            ["w1 compute group slurm: slurm is 988 here and 64030 on head"],
        ),
        (PACKAGES, Accounts({}, {"slurm": 1500}), ["w1 compute group slurm: slurm is 1500 here and 64030 on head"]),
        (
            PACKAGES,
            Accounts({"slurm": 64030}, {}),
            ["w1 compute group slurm: account slurm is there, and no such group"],
        ),
        (MINE, NONE, ["w1 compute account slurm: its package makes it 64030 here, and it is 1001 on head"]),
        (
            PACKAGES,
            Accounts({"batch": 64030}, {}),
            ["w1 compute account batch: its number 64030 is that of slurm on the other nodes"],
        ),
        (
            PACKAGES,
            OWN_MUNGE,
            [
                "w1 compute account munge: it has number 1002, one of people's: who has it on the cluster could read "
                "the files of munge"
            ],
        ),
        (OWN_MUNGE, OWN_MUNGE, []),
        (PACKAGES, Accounts({"munge": 107}, {}), ["w1 compute group munge: account munge is there, and no such group"]),
    ],
)
def test_numbers_that_hurt_are_named_and_others_are_not(
    cluster: Cluster, head: Accounts, w1: Accounts, expected: list[str]
) -> None:
    assert said(found(cluster, head, w1)) == expected


def test_commands_renumber_an_account_and_all_its_local_files(cluster: Cluster) -> None:
    account, group = found(cluster, NONE, MINE)
    assert account.commands == (
        "systemctl stop 'slurm*.service'",
        "usermod --uid 64030 slurm",
        "find / /var -xdev -uid 1001 -exec chown -h slurm {} +",
        "groupmod --gid 64030 slurm",
        "find / /var -xdev -gid 1001 -exec chgrp -h slurm {} +",
    )
    assert group.commands == ()  # those of the account do both
    [munge] = found(cluster, PACKAGES, OWN_MUNGE)
    assert munge.commands[1] == "usermod --uid 999 munge"
    [other] = found(cluster, MINE, NONE)
    assert other.commands == (
        "groupadd --system --gid 1001 slurm",
        "useradd --system --uid 1001 --gid slurm --home-dir /nonexistent --no-create-home "
        "--shell /usr/sbin/nologin slurm",
    )


def test_a_number_that_another_account_has_is_freed_first(cluster: Cluster) -> None:
    [account] = found(cluster, PACKAGES, Accounts({"slurm": 1001, "batch": 64030}, {"slurm": 64030}))
    assert account.commands[:5] == (
        "systemctl stop 'batch*.service'",
        "usermod --uid 999 batch",
        "find / /var -xdev -uid 64030 -exec chown -h batch {} +",
        "systemctl stop 'slurm*.service'",
        "usermod --uid 64030 slurm",
    )


def test_two_accounts_with_each_others_numbers_end(cluster: Cluster) -> None:
    crossed = Accounts({"slurm": 1001, "munge": 64030}, {"slurm": 64030, "munge": 120})
    [account] = found(cluster, PACKAGES, crossed)
    assert "usermod --uid 999 munge" in account.commands


SHARES = (
    DesiredRole("mounts", resources=(Mount("/home", "head:/srv", "nfs", "rw"),)),
    DesiredRole("serves", resources=(Directory("/srv/homes"),)),
)
OWNERS = replace(PACKAGES, owner_users={"eve": 5001, "systemd-coredump": 998}, owner_groups={"lab": 5002, "root": 0})


def test_owners_of_shared_files_have_their_numbers_everywhere(cluster: Cluster) -> None:
    sharing = replace(cluster, storage=(HOMES,))
    w1 = replace(PACKAGES, users={"eve": 1000, "systemd-coredump": 997}, groups={"lab": 1000, "root": 0})
    assert said(found(sharing, OWNERS, w1, *SHARES)) == [
        "w1 mounts account eve: eve is 1000 here and 5001 on head, where it owns files that this node shares",
        "w1 mounts group lab: lab is 1000 here and 5002 on head, where it owns files that this node shares",
    ]
    assert found(sharing, OWNERS, replace(w1, users={"eve": 5001}, groups={}), *SHARES) == []
    assert found(cluster, OWNERS, w1, *SHARES) == []  # nothing is shared
    managed = DesiredRole("users", resources=(Account("eve", 5001, "/home/eve"),))
    assert len(found(sharing, OWNERS, w1, *SHARES, managed)) == 1  # those are compared apart


def test_a_local_account_on_the_head_does_not_hide_the_directorys(cluster: Cluster) -> None:
    head = replace(OWNERS, users={"eve": 1000})
    assert said(found(replace(cluster, storage=(HOMES,)), head, PACKAGES, *SHARES)) == [
        "head mounts account eve: eve is 1000 here and 5001 on head, where it owns files that this node shares"
    ]


def test_a_node_cannot_speak_for_another(cluster: Cluster) -> None:
    served = replace(HOMES, server="w2", on=("head", "w1", "w2"))
    sharing = replace(cluster, storage=(served,))
    liar = replace(PACKAGES, owner_users={"ops": 0, "eve": 77}, users={"slurm": 1, "eve": 77})
    answers = seen(head=replace(PACKAGES, users={"eve": 5001}), w1=replace(PACKAGES, users={"eve": 5001}), w2=liar)
    obstacles = list(number_conflicts(sharing, desired(*SHARES), answers, answers["head"]))
    assert {obstacle.node for obstacle in obstacles} == {"w2"}
    assert list(number_conflicts(sharing, desired(*SHARES), answers, None)) == []


def test_the_server_and_the_head_are_asked_for_owners(cluster: Cluster) -> None:
    outside = replace(HOMES, name="site", server=None, path=None, mount="/site", on=("head", "w1"))
    sharing = replace(cluster, storage=(HOMES, outside))
    assert [shared_folders(sharing, name) for name in ("head", "w1", "w2")] == [["/srv/homes", "/site"], [], []]
    without_head = replace(cluster, storage=(replace(outside, on=("w2", "w1")),))
    assert [shared_folders(without_head, name) for name in ("head", "w1", "w2")] == [[], [], ["/site"]]


def test_files_without_a_name_on_the_node_that_looks_are_the_heads(cluster: Cluster) -> None:
    outside = replace(HOMES, server=None, path=None, on=("w1", "w2"))
    head = replace(PACKAGES, users={"eve": 5001})
    answers = seen(head=head, w1=replace(PACKAGES, owner_users={"5001": 5001}), w2=Accounts({"eve": 4001}))
    sharing = replace(cluster, storage=(outside,))
    obstacles = [o for o in number_conflicts(sharing, desired(SHARES[0]), answers, answers["head"]) if o.name == "eve"]
    assert said(obstacles) == [
        "w2 mounts account eve: eve is 4001 here and 5001 on head, where it owns files that this node shares"
    ]


def test_the_node_is_left_out_and_the_others_are_done(cluster: Cluster) -> None:
    missing = {"role": "compute", "packages": ["slurmd"]}
    answers = {name: replace(node, differs={"compute": missing}) for name, node in seen(w1=MINE, w2=NONE).items()}
    plan = diff(cluster, desired(), {**answers, **seen(head=NONE)})
    assert (list(plan.state.refused), plan.touched) == (["w1"], ("w2",))
    bare = {**answers, "w1": replace(answers["w1"], python=False, differs={})}
    assert diff(cluster, desired(), {**bare, **seen(head=NONE)}).changes.first_contact == ()  # nor does it get Python
    only = diff(cluster, desired(), {**answers, **seen(head=NONE)}, scope=Scope(only=frozenset({"controller"})))
    assert only.state.obstacles == ()


def test_numbers_of_a_node_without_python_count_too() -> None:
    event = Event("observe:w1", "w1", "no_python", {"users": "root:0 slurm:1001 +:", "groups": "slurm:1002 odd:x"})
    assert _add_event(Observation("w1"), event).accounts == Accounts({"root": 0, "slurm": 1001}, {"slurm": 1002})
    long = " ".join(f"user{number}:{number}" for number in range(1000, 2000))[:1500]
    assert all(name == f"user{number}" for name, number in _numbers(long).items())
