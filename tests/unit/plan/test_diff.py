from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired, RoleNeed
from hpcforge.plan.diff import SLURM_NODES, _in_service, diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Leaving, PackageRemoval, UnitChange
from hpcforge.plan.roles.role import RoleError, load_roles
from hpcforge.report.plan_text import plan_text

FACTS = {"memory_kib": 8 << 20, "cpus": 2, "gpus": {"fake": 2, "nvidia": 0}}


@pytest.fixture
def desired(cluster: Cluster, roles_folder: Path) -> Desired:
    return compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})


def slurm(name: str, state: str, reason: str = "") -> str:
    said = f" Reason={reason} [root@2026-11-20T14:42:46]" if reason else ""
    return f"NodeName={name} Arch=x86_64 Gres=gpu:fake:2 State={state} ThreadsPerCore=1 AllocTRES={said}\n"


def seen(name: str, *differs: dict[str, Any], **more: Any) -> Observation:
    return Observation(name, FACTS, {one["role"]: one for one in differs}, **more)


def test_no_difference_is_nothing_to_do(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {name: seen(name) for name in ("head", "w1", "w2")})
    assert not plan.pending
    assert plan_text(plan) == "Nothing to do on 3 nodes.\n"


def test_a_changed_file_restarts_what_watches_it_on_that_node_alone(cluster: Cluster, desired: Desired) -> None:
    key = {"path": "/etc/client.key", "exists": True, "digest": "00", "mode": "0400", "owner": "root", "group": "root"}
    plan = diff(
        cluster,
        desired,
        {
            "head": seen("head"),
            "w1": seen("w1"),
            "w2": seen("w2", {"role": "client", "files": [{**key, "text": None}]}),
        },
    )
    assert plan.touched == ("w2",)
    change = plan.changes.steps[0].changes["w2"]
    assert [(unit.name, unit.actions) for unit in change.units] == [("client.service", ("restart",))]
    assert plan.changes.texts == {}  # a secret's text is never in a plan


def disturbing(roles_folder: Path, cluster: Cluster, *, watches: str, unit: str = "client.service") -> Desired:
    """The small roles with one more on worker w1 alone, which restarts a unit of another's."""
    (roles_folder / "devices").mkdir()
    (roles_folder / "devices" / "role.yaml").write_text(
        "description: Devices.\non: node.name == 'w1'\ndisrupts: {files: drain}\n"
        "files: [{path: /etc/devices.conf, content: x}, {path: /etc/devices.more, content: y}]\n"
        f"restarts: [{{name: {unit}{watches}}}]\n"
    )
    return compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})


@pytest.mark.parametrize(
    ("watches", "changed", "reason"),
    [
        ("", "/etc/devices.more", "/etc/devices.more changed"),
        (", restart_on: [/etc/devices.conf]", "/etc/devices.conf", "/etc/devices.conf changed"),
        (", restart_on: [/etc/devices.conf]", "/etc/devices.more", None),
    ],
)
def test_a_role_restarts_a_unit_that_it_disturbs_and_comes_before_it(
    roles_folder: Path, cluster: Cluster, watches: str, changed: str, reason: str | None
) -> None:
    desired = disturbing(roles_folder, cluster, watches=watches)
    assert [node.role for node in desired.nodes["w1"]] == ["devices", "client"]
    assert RoleNeed("devices") in desired.nodes["w1"][1].needs
    assert desired.nodes["w2"][0].needs == (RoleNeed("server", ("head",)),)  # it is not there, and not waited for
    found = {"path": changed, "exists": True, "kind": "file", "digest": "00", "text": "", "written": "00"}
    found |= {"mode": "0644", "owner": "root", "group": "root"}
    plan = diff(cluster, desired, {"w1": seen("w1", {"role": "devices", "files": [found]}), "w2": seen("w2")})
    units = {step.role: step.changes["w1"].units for step in plan.changes.steps}
    restarted = () if reason is None else (UnitChange("client.service", ("restart",), reason),)
    assert units == {"devices": (), **({"client": restarted} if restarted else {})}


def test_who_is_disturbed_is_restarted_where_its_own_files_call_for_less(roles_folder: Path, cluster: Cluster) -> None:
    path = roles_folder / "client/role.yaml"
    path.write_text(
        path.read_text().replace("restart_on: [/etc/client.key]", "reload_commands: [[systemctl, reload, c]]")
    )
    desired = disturbing(roles_folder, cluster, watches="")
    own = {"path": "/etc/client-w1.conf", "exists": False, "kind": None, "digest": None, "text": None, "written": None}
    other = {**own, "path": "/etc/devices.conf"}
    for roles, action in (([("client", own)], "refresh"), ([("client", own), ("devices", other)], "restart")):
        differs = [{"role": role, "files": [found]} for role, found in roles]
        plan = diff(cluster, desired, {"w1": seen("w1", *differs)})
        assert plan.changes.steps[-1].changes["w1"].units[0].actions == (action,)


def test_a_unit_that_nobody_has_cannot_be_disturbed(roles_folder: Path, cluster: Cluster) -> None:
    with pytest.raises(RoleError, match=r"devices/role\.yaml: restarts 'other.service', but no other role has"):
        disturbing(roles_folder, cluster, watches="", unit="other.service")


def test_only_mode_differs(cluster: Cluster, desired: Desired) -> None:
    wanted = desired.nodes["head"][0].of(File)[0]
    found = {"path": wanted.path, "exists": True, "digest": wanted.digest, "mode": "0666", "owner": "root"}
    plan = diff(cluster, desired, {"head": seen("head", {"role": "server", "files": [{**found, "group": "root"}]})})
    [(file, said)] = plan.changes.steps[0].changes["head"].of(File)
    assert file.same_content(said)
    assert "/etc/server.conf  0666 root:root -> 0644 root:root" in plan_text(plan)


def test_failed_check_alone_restarts_the_units(cluster: Cluster, desired: Desired) -> None:
    plan = diff(
        cluster, desired, {"head": seen("head", {"role": "server", "checks": [{"name": "it answers", "detail": "no"}]})}
    )
    change = plan.changes.steps[0].changes["head"]
    assert change.units[0].actions == ("restart",)
    assert change.failed_checks == (("it answers", "no"),)
    assert "check failed: it answers: no" in plan_text(plan)


def test_opaque_work_runs_again_when_its_digest_changed(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {"w1": seen("w1", {"role": "client", "opaque": {"digest": "old"}})})
    change = plan.changes.steps[0].changes["w1"]
    assert change.opaque is not None
    assert change.opaque.reason == "its code or inputs changed"


def test_first_contact_wants_everything(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {"w1": Observation("w1", FACTS, python=False)})
    assert plan.changes.first_contact == ("w1",)
    assert plan.changes.steps[0].changes["w1"].packages == ("clientd",)


def test_unreachable_is_named_and_left_out(cluster: Cluster, desired: Desired) -> None:
    plan = diff(
        cluster, desired, {"head": seen("head"), "w1": Observation("w1", unreachable="no route \x1b[2Jto host")}
    )
    assert plan.state.unreachable == {"w1": "no route \x1b[2Jto host"}
    assert plan.touched == ()
    assert "no route \\x1b[2Jto host" in plan_text(plan)


def test_nodes_that_are_unreachable_for_one_reason_are_one_line(cluster: Cluster, desired: Desired) -> None:
    """The same words about host keys were eleven lines."""
    away = {name: Observation(name, unreachable="no host key") for name in ("w1", "w2")}
    text = plan_text(diff(cluster, desired, {"head": seen("head"), **away}))
    assert "w[1-2] are unreachable and left out: no host key\n" in text
    assert text.count("no host key") == 1


def test_a_node_that_falls_short_is_drained_and_resumed(cluster: Cluster, desired: Desired) -> None:
    small = {**FACTS, "memory_kib": 2 << 20}
    idle = {SLURM_NODES: slurm("w1", "IDLE") + slurm("w2", "IDLE")}
    nodes = {"head": seen("head", answers=idle), "w1": Observation("w1", small), "w2": seen("w2")}
    plan = diff(cluster, desired, nodes)
    assert [(drain.node, drain.action) for drain in plan.changes.drains] == [("w1", "drain")]
    assert plan.state.shortfalls[0].override == 'w1: {memory_gib: 2, reason: "has 2.0 GiB"}'
    ours = slurm("w1", "IDLE+DRAIN", plan.changes.drains[0].reason)
    drained = {SLURM_NODES: ours + slurm("w2", "IDLE+DRAIN", "by an operator")}
    again = diff(cluster, desired, {**nodes, "head": seen("head", answers=drained)})
    assert again.changes.drains == ()
    mended = diff(cluster, desired, {**nodes, "head": seen("head", answers=drained), "w1": seen("w1")})
    assert [(drain.node, drain.action) for drain in mended.changes.drains] == [("w1", "resume")]


def test_identical_changes_are_folded(cluster: Cluster, desired: Desired) -> None:
    missing = {"role": "client", "packages": ["clientd"]}
    plan = diff(cluster, desired, {"head": seen("head"), "w1": seen("w1", missing), "w2": seen("w2", missing)})
    assert "client  w[1-2]  (new node)\n  + packages clientd\n" in plan_text(plan)


def test_a_changed_file_is_shown_as_a_diff(cluster: Cluster, desired: Desired) -> None:
    old = {"path": "/etc/server.conf", "exists": True, "digest": "00", "mode": "0644", "owner": "root", "group": "root"}
    text = "host head 10.0.0.1\nhost w1 10.0.0.9\nhost w2 10.0.0.3\nall w[1-2]\n"
    plan = diff(cluster, desired, {"head": seen("head", {"role": "server", "files": [{**old, "text": text}]})})
    shown = plan_text(plan)
    assert "      -host w1 10.0.0.9\n      +host w1 10.0.0.2\n" in shown


def test_what_goes_for_a_package_is_shown_and_what_is_not_known_is_said(cluster: Cluster, desired: Desired) -> None:
    goes = {"removes": [{"name": "siteslurm", "by": ["clientd"]}], "unforeseen": ["clientd"]}
    plan = diff(cluster, desired, {"w1": seen("w1", {"role": "client", "packages": ["clientd"], **goes})})
    assert plan.changes.steps[0].changes["w1"].removes == (PackageRemoval("siteslurm", ("clientd",)),)
    text = plan_text(plan)
    assert "  + packages clientd\n  - package siteslurm (removed by clientd)\n" in text
    why = "its lists lack a package, or it cannot resolve a dependency"
    assert f"  ? what else apt removes for clientd is not known yet: {why}; nothing else may go\n" in text
    first = plan_text(diff(cluster, desired, {"w1": Observation("w1", FACTS, python=False)}))
    assert "  ? what apt removes for clientd is not known yet" in first


def test_nodes_that_have_nothing_share_their_changes(cluster: Cluster, roles_folder: Path) -> None:
    role = roles_folder / "client/role.yaml"
    text = role.read_text().replace("-{{ node.name }}", "").replace("server@cluster", "base, server@cluster")
    role.write_text(text)
    (roles_folder / "base").mkdir()
    (roles_folder / "base/role.yaml").write_text("description: First.\non: 'true'\npackages: [sudo]\n")
    desired = compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})
    plan = diff(cluster, desired, {name: Observation(name, python=False) for name in ("head", "w1", "w2")})
    changes = next(step.changes for step in plan.changes.steps if step.role == "client")
    assert changes["w1"] is changes["w2"]
    assert changes["w1"].needs == (RoleNeed("base"), RoleNeed("server", ("head",)))
    [named] = [step.changes for step in plan.flat["steps"] if step.role == "client"]
    assert [change.needs for change in named.values()] == [
        (RoleNeed("base", (name,)), RoleNeed("server", ("head",))) for name in ("w1", "w2")
    ]


@pytest.mark.parametrize(
    ("listed", "in_service"),
    [
        (("w1", "w2"), ("head", "w1", "w2")),
        (("w1",), ("head", "w1")),  # w2: killed before the controller got to know it
        ((), ("head", "w1", "w2")),  # the controller gave no list
    ],
)
def test_a_worker_that_slurm_does_not_know_is_not_in_service(
    cluster: Cluster, desired: Desired, listed: tuple[str, ...], in_service: tuple[str, ...]
) -> None:
    answers = {SLURM_NODES: "".join(slurm(name, "IDLE") for name in listed)}
    receipt = {"run": {"number": 1}}
    observed = {name: seen(name, receipt=receipt) for name in ("w1", "w2")}
    plan = diff(cluster, desired, {"head": seen("head", receipt=receipt, answers=answers), **observed})
    assert plan.state.in_service == in_service


@pytest.mark.parametrize(
    ("missing", "elsewhere", "in_service"),
    [(True, True, ()), (True, False, ("head", "w1", "w2")), (False, True, ("head", "w1", "w2"))],
)
def test_without_slurm_s_own_files_no_node_is_in_service(
    cluster: Cluster, desired: Desired, missing: bool, elsewhere: bool, in_service: tuple[str, ...]
) -> None:
    """A first apply was killed before it configured the controller: to drain a node could never succeed.

    A worker with Slurm's files is in service all the same: its controller was reinstalled, or moved.
    """
    role = next(role for role in desired.nodes["head"] if role.of(File))
    files = [{"path": file.path, "exists": not missing} for file in role.of(File)]
    receipt = {"run": {"number": 1}}
    observed = {}
    for name in ("w1", "w2"):
        users = [each for each in desired.nodes[name] if any(need.role == role.role for need in each.needs)]
        assert users
        lacking = [
            {"role": each.role, "files": [{"path": file.path, "exists": not elsewhere} for file in each.of(File)]}
            for each in users
        ]
        observed[name] = seen(name, *lacking, receipt=receipt)
    head = seen("head", {"role": role.role, "files": files}, receipt=receipt)
    wanted, reachable = replace(desired, scheduler=role.role), {"head": head, **observed}
    assert _in_service(cluster, wanted, reachable, {}) == in_service
    [leaver] = diff(cluster, wanted, reachable, [Leaving("w9", "10.0.0.9", False, None)]).changes.leaving
    assert leaver.worker is leaver.may_have_jobs is bool(in_service)
