"""Why a step is there, what it disrupts, what goes, and whether a plan still holds."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.plan import exit_code
from hpcforge.cluster.model import Cluster, Rollout
from hpcforge.plan.changes import Scope
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Artifact, Check, Collection, Desired
from hpcforge.plan.diff import SLURM_NODES, diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Change, Leaving, OwnedResources, Plan, Removal
from hpcforge.plan.roles.role import load_roles
from hpcforge.plan.stale import drop_nodes, stale_nodes
from hpcforge.report.plan_text import plan_text
from hpcforge.slurm.jobs import (
    SLURM_JOBS,
    SLURM_WAITING,
    SLURM_WAITING_COMMAND,
    asks_for,
    parse_jobs,
    parse_waiting,
    too_large,
)

FACTS = {"memory_kib": 8 << 20, "cpus": 2, "gpus": {"fake": 2, "nvidia": 0}}
RECEIPT = {"run": 4, "cluster": "small", "surplus": {}, "unowned": [], "trouble": None}
CONF = "/etc/client-w1.conf"


@pytest.fixture
def desired(cluster: Cluster, roles_folder: Path) -> Desired:
    return compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})


def seen(*differs: dict[str, Any], node: str = "w1", **receipt: Any) -> Observation:
    return Observation(node, FACTS, {one["role"]: one for one in differs}, receipt={**RECEIPT, **receipt})


def file(digest: str | None, written: str | None) -> dict[str, Any]:
    there = {"path": CONF, "exists": digest is not None, "digest": digest, "mode": "0600", "owner": "root"}
    return {"role": "client", "files": [{**there, "group": "root", "text": "old\n", "written": written}]}


def the_change(cluster: Cluster, desired: Desired, observed: Observation, scope: Scope | None = None) -> Change:
    plan = diff(cluster, desired, {observed.node: observed}, scope=scope or Scope())
    [step] = plan.changes.steps
    return step.changes[observed.node]


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (replace(seen(file("aa", None)), receipt={**RECEIPT, "run": 0}), "new node"),
        (seen(file("aa", "aa")), "input changed"),
        (seen(file("aa", "bb")), "drifted"),
        (seen(file(None, "bb")), "drifted"),
        (replace(seen(file("aa", "bb")), reverted=({"role": "client"},)), "reverted"),
        (replace(seen(file("aa", "bb")), reverted=({"role": "server"},)), "drifted"),
        (seen(file(None, None)), "input changed"),
        (seen({"role": "client", "packages": ["clientd"]}), "drifted"),
        (seen({"role": "client", "packages": ["clientd"]}, unowned=["client"]), "input changed"),
        (seen({"role": "client", "opaque": {"digest": "old"}}), "input changed"),
        (seen({"role": "server", "checks": [{"name": "it answers", "detail": "no"}]}, node="head"), "check failed"),
        (seen(unowned=["client"]), "to be noted"),
    ],
)
def test_one_word_for_why(cluster: Cluster, desired: Desired, observed: Observation, reason: str) -> None:
    assert the_change(cluster, desired, observed).reason == reason


def test_what_only_has_to_be_noted_is_pending_and_harmless(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {"w1": seen(unowned=["client"])})
    assert plan.pending
    assert plan.changes.disruption("w1") == "none"
    assert "already as desired; only the node's record is updated" in plan_text(plan)


def test_forced_roles_run_again(cluster: Cluster, desired: Desired) -> None:
    change = the_change(cluster, desired, seen(), Scope(forced=frozenset({"client"})))
    assert change.reason == "forced"
    assert change.opaque is not None
    assert change.opaque.repeats
    assert [unit.actions for unit in change.units] == [("restart",)]


def test_a_forced_role_that_failed_is_due_in_the_next_plan(cluster: Cluster, desired: Desired) -> None:
    change = the_change(cluster, desired, seen({"role": "client", "opaque": {"digest": ""}}))
    assert change.opaque is not None
    assert change.opaque.reason == "an earlier run did not finish it"


def test_code_runs_again_when_a_file_changes_that_it_names(cluster: Cluster, desired: Desired) -> None:
    def with_watches(*paths: str) -> Desired:
        nodes = {
            name: tuple(replace(w, opaque=w.opaque and replace(w.opaque, rerun_on=paths)) for w in wanted)
            for name, wanted in desired.nodes.items()
        }
        return replace(desired, nodes=nodes)

    [path] = file("aa", "aa")["files"]
    assert the_change(cluster, desired, seen(file("aa", "aa"))).opaque is None
    assert the_change(cluster, with_watches("/etc/other"), seen(file("aa", "aa"))).opaque is None
    change = the_change(cluster, with_watches(path["path"]), seen(file("aa", "aa")))
    assert change.opaque is not None
    assert (change.opaque.reason, change.opaque.repeats) == (f"{path['path']} changed", True)


def test_a_plan_says_which_collections_its_code_uses(cluster: Cluster, desired: Desired) -> None:
    used = Collection("community.mysql", "3.16.1", Artifact("collections/x", "pip", "ab"))
    nodes = {
        name: tuple(replace(w, opaque=w.opaque and replace(w.opaque, collections=(used,))) for w in wanted)
        for name, wanted in desired.nodes.items()
    }
    observed = {"w1": seen({"role": "client", "opaque": {"digest": "old"}})}
    assert diff(cluster, desired, observed).changes.collections == ()
    plan = diff(cluster, replace(desired, nodes=nodes), observed)
    assert plan.changes.collections == (used,)
    assert " with community.mysql 3.16.1 (its code or inputs changed" in plan_text(plan)


def test_only_some_roles(cluster: Cluster, desired: Desired) -> None:
    both = seen({"role": "client", "packages": ["clientd"]}, surplus={"gone": {"files": ["/etc/x"]}})
    plan = diff(cluster, desired, {"w1": both}, scope=Scope(only=frozenset({"server"})))
    assert not plan.pending


def restarted(cluster: Cluster, desired: Desired, **disrupts: Any) -> str:
    roles = {name: tuple(replace(w, disrupts=disrupts) for w in ws) for name, ws in desired.nodes.items()}
    key = {"path": "/etc/client.key", "exists": True, "digest": "00", "mode": "0400", "owner": "root"}
    observed = seen({"role": "client", "files": [{**key, "group": "root"}]})
    return the_change(cluster, replace(desired, nodes=roles), observed).disruption


def test_disruption_follows_from_what_changes(cluster: Cluster, desired: Desired) -> None:
    assert restarted(cluster, desired) == "restart"
    assert restarted(cluster, desired, units="none") == "none"
    assert restarted(cluster, desired, units="drain") == "drain"
    assert restarted(cluster, desired, units="drain", packages="reboot") == "drain"


def test_a_service_that_does_not_run_is_not_disrupted(cluster: Cluster, desired: Desired) -> None:
    down = {"name": "client.service", "enabled": True, "active": "failed", "restart_pending": False}
    assert the_change(cluster, desired, seen({"role": "client", "units": [down]})).disruption == "none"


NO_ANSWER = {"role": "server", "checks": [{"name": "it answers", "detail": "no"}]}


def test_a_reboot_that_is_due_is_pending_and_its_checks_have_not_failed(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {"head": seen({**NO_ANSWER, "reboot": True}, node="head")})
    change = plan.changes.steps[0].changes["head"]
    assert (change.reason, change.disruption, change.reboot) == ("reboot pending", "reboot", ("due",))
    assert (change.units, change.failed_checks) == ((), ())
    text = plan_text(plan)
    assert "server  head  (reboot pending, disrupts: reboot)\n" in text
    assert "! restart of the node, before its checks (due since an earlier run)" in text
    assert "head: restarted, and waited for up to 20 min 0 s each" in text
    assert "failed" not in text


def test_a_node_that_nobody_works_on_restarts_and_disrupts_nothing(cluster: Cluster, desired: Desired) -> None:
    roles = {n: tuple(replace(w, disrupts={"packages": "reboot"}) for w in ws) for n, ws in desired.nodes.items()}
    observed = replace(seen({"role": "client", "packages": ["clientd"]}), receipt={**RECEIPT, "run": 0})
    plan = diff(cluster, replace(desired, nodes=roles), {"w1": observed})
    change = plan.changes.steps[0].changes["w1"]
    assert (change.disruption, change.reboot, plan.restarts) == ("none", ("packages",), ("w1",))


def test_nothing_is_drained_where_no_role_brings_a_scheduler(cluster: Cluster, desired: Desired) -> None:
    roles = {n: tuple(replace(w, disrupts={"files": "reboot"}) for w in ws) for n, ws in desired.nodes.items()}
    slurm = replace(desired, nodes=roles, scheduler="server")
    without = replace(slurm, scheduler=None)
    observed = {"w1": seen(file("aa", "aa"))}
    assert "w1 is drained first" in plan_text(diff(cluster, slurm, observed))
    assert "drained" not in plan_text(diff(cluster, without, observed))


def test_a_reboot_that_was_due_and_has_happened_changes_what_a_plan_rests_on(
    cluster: Cluster, desired: Desired
) -> None:
    made = diff(cluster, desired, {"head": seen({**NO_ANSWER, "reboot": True}, node="head")})
    now = diff(cluster, desired, {"head": seen(node="head")})
    assert list(stale_nodes(made, now)) == ["head"]


SURPLUS = {
    "old": {
        "files": ["/etc/old"],
        "units": ["old.service", "ran.service"],
        "packages": ["oldd"],
        "accounts": ["made", "hers"],
        "trees": ["/opt/old"],
        "on_remove": "stop",
        "stays": [
            {"kind": "package", "names": ["oldd"], "why": "hpcforge removes none"},
            {"kind": "unit", "names": ["ran.service"], "why": "it ran before"},
            {"kind": "account", "names": ["hers"], "why": "it was there before"},
        ],
    },
    "tool": {"packages": ["toold"], "files": [], "on_remove": "purge"},
    "name": {"files": ["/etc/hosts"], "on_remove": "keep"},
}


def test_what_is_no_longer_wanted_goes_but_packages_only_where_the_role_says_so(
    cluster: Cluster, desired: Desired
) -> None:
    plan = diff(cluster, desired, {"w1": seen(surplus=SURPLUS)})
    assert plan.touched == ("w1",)
    text = plan_text(plan)
    assert "no longer wanted  w1\n  - old: unit old.service: stop\n  - old: file /etc/old\n" in text
    assert "  = stays: package oldd: hpcforge removes none\n" in text
    assert "  - tool: packages toold\n" in text
    assert "  - name: everything stays, and hpcforge watches it no longer\n" in text
    assert "  - old: /opt/old, with its content\n  - old: account made: lock; its home stays\n" in text
    assert "hers: lock" not in text
    assert "ran.service: stop" not in text
    assert "  = stays: unit ran.service: it ran before\n" in text


def test_what_jobs_may_use_is_not_taken_from_under_them(cluster: Cluster, desired: Desired) -> None:
    tree = {"old": {"trees": ["/opt/old"], "on_remove": "stop", "disrupts": "drain"}}
    slurm = replace(desired, scheduler="server")
    plan = diff(cluster, slurm, {"w1": seen(surplus=tree)})
    assert plan.changes.disruption("w1") == "drain"
    assert "w1 is drained first" in plan_text(plan)


UID = "uid 2001 for 'ada' belongs to 'bob' on this node; choose another"
IN_THE_WAY = {
    "role": "client",
    "accounts": [{"name": "ada", "exists": False}],
}
CONFLICT = {"role": "client", "kind": "account", "name": "ada", "why": UID, "commands": ["usermod --uid 2002 bob"]}


def in_the_way(node: str = "w1") -> Observation:
    return replace(seen(IN_THE_WAY, node=node), obstacles=(CONFLICT,))


def test_what_apply_would_refuse_is_said_and_its_node_left_out(cluster: Cluster, desired: Desired) -> None:
    missing = {"role": "client", "packages": ["clientd"]}
    observed = {"w1": in_the_way(), "w2": seen(missing, node="w2"), "head": seen(node="head")}
    plan = diff(cluster, desired, observed)
    assert plan.touched == ("w2",)
    assert list(plan.state.refused) == ["w1"]
    assert exit_code(plan) == Exit.FAILED
    text = plan_text(plan)
    assert (
        "w1: left out, and nothing is changed there until this is resolved:\n"
        f"  ! client: account ada: {UID}\n      run there: usermod --uid 2002 bob\n" in text
    )
    assert text.endswith("1 node to change: w2; unchanged: head; left out: w1.\n")
    only = diff(cluster, desired, observed, scope=Scope(only=frozenset({"server"})))
    assert (only.state.obstacles, dict(only.state.refused)) == ((), {})


def test_a_check_that_has_to_pass_first_leaves_its_node_out(cluster: Cluster, desired: Desired) -> None:
    check = Check("firmware is right", ("true",), None, 0, first=True)
    checked = replace(
        desired,
        nodes={
            name: tuple(replace(one, checks=(*one.checks, check)) if one.role == "client" else one for one in wanteds)
            for name, wanteds in desired.nodes.items()
        },
    )
    failing = {"role": "client", "packages": ["clientd"], "checks": [{"name": check.name, "detail": "it is not"}]}
    observed = {"w1": seen(failing), "w2": replace(seen(failing, node="w2"), facts={}), "head": seen(node="head")}
    plan = diff(cluster, checked, observed)
    assert (list(plan.state.refused), plan.touched) == (["w1"], ("w2",))  # of w2 nobody has looked yet
    assert "  ! client: check firmware is right: it is not\n" in plan_text(plan)
    assert diff(cluster, desired, observed).state.obstacles == ()


def test_a_plan_where_all_are_in_the_way_does_not_say_that_nobody_answers(cluster: Cluster, desired: Desired) -> None:
    plan = diff(cluster, desired, {"w1": in_the_way(), "w2": in_the_way("w2")})
    text = plan_text(plan)
    assert "w[1-2]: left out, and nothing is changed there" in text
    assert text.endswith("Nothing to do on 0 nodes; left out: w[1-2].\n")
    assert exit_code(plan) == Exit.FAILED


def test_a_plan_made_before_leaves_out_what_is_in_the_way_by_now(cluster: Cluster, desired: Desired) -> None:
    missing = [seen({"role": "client", "packages": ["clientd"]}, node=name) for name in ("w1", "w2")]
    made = made_for(cluster, desired, *missing)
    now = made_for(cluster, desired, in_the_way(), missing[1])
    assert drop_nodes(made, {}, now).touched == ("w2",)
    assert list(drop_nodes(made, {}, now).state.refused) == ["w1"]


def test_a_leaving_node_is_shown_with_its_jobs(cluster: Cluster, desired: Desired) -> None:
    head = replace(seen(node="head"), answers={SLURM_JOBS: "71|w9\n72|w9\n", SLURM_NODES: ""})
    owns = OwnedResources(resources={"files": ("/etc/munge/munge.key",)})
    gone = (
        Leaving("w8", "10.0.0.8", True, "no route to 10.0.0.8", ()),
        Leaving("w9", "10.0.0.9", True, None, (Removal("munge", owns),)),
    )
    text = plan_text(diff(cluster, desired, {"head": head}, gone))
    unreachable = "unreachable (no route to 10.0.0.8): the cluster forgets it, but it keeps its keys and certificate"
    assert f"leaving  w8\n  ! {unreachable}\n" in text
    assert "  ~ drain; jobs run there (71, 72): waited for up to 10 min 0 s, never killed\n" in text
    assert "  - munge: file /etc/munge/munge.key\n" in text
    assert text.endswith("2 nodes to leave: w[8-9]; unchanged: head.\n")


def test_a_leaving_node_may_have_jobs_where_slurm_gives_no_list(cluster: Cluster, desired: Desired) -> None:
    head = seen(node="head")
    gone = (Leaving("w8", "10.0.0.8", False, "no route"), Leaving("w9", "10.0.0.9", False, None))
    plan = diff(cluster, desired, {"head": head}, gone)
    assert [(leaver.worker, leaver.may_have_jobs) for leaver in plan.changes.leaving] == [(True, True)] * 2
    text = plan_text(plan)
    assert "leaving  w8\n  ! stays for now: unreachable, and Slurm does not report which jobs run\n" in text
    assert "leaving  w9\n  ~ drain" in text
    told = diff(cluster, desired, {"head": replace(head, answers={SLURM_JOBS: "", SLURM_NODES: ""})}, gone)
    assert told.changes.leaving == gone


def test_the_order_of_nodes_in_service_is_said(cluster: Cluster, desired: Desired) -> None:
    grouped = replace(cluster, nodes=tuple(replace(n, group=n.functions[0]) for n in cluster.nodes))
    careful = replace(grouped, rollout=Rollout(canary=1, at_most=1, stop_after_failures=1))
    missing = {"role": "client", "packages": ["clientd"]}
    plan = diff(careful, desired, {name: seen(missing, node=name) for name in ("w1", "w2")})
    text = plan_text(plan)
    assert "first w1, through to the checks; the others of its group only if that goes well\n" in text
    assert "at most 1 workers at a time\n" in text


def test_jobs_by_node() -> None:
    assert parse_jobs("12|w[1-2]\n13|w2\nnonsense\n|w1\n14|$(reboot)\n15|\n") == {"w1": ("12",), "w2": ("12", "13")}


def test_waiting_jobs() -> None:
    said = "17|ada|1|main|w[1-2]\n17|ada|1|main|w[1-2]\n18|bob|4|main,long|\n19|x|1|main|$(reboot)\n20|x|?|main|\nodd\n"
    named, large = parse_waiting(said)
    assert (named.number, named.user, named.nodes) == ("17", "ada", ("w1", "w2"))
    assert asks_for("w2", (named, large)) == (named,)
    assert asks_for("w3", (named, large)) == ()
    assert too_large((named, large), {"main": 3, "long": 2}, 1) == (large,)
    assert too_large((named, large), {"main": 4, "long": 2}, 1) == ()
    assert too_large((named, large), {"main": 2}, 1) == ()  # more than before was too much, too
    assert too_large((named, large), {}, 1) == ()


def test_a_queue_of_any_length_and_width_fits_into_an_answer(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\n"
        "echo '1|ada|1|main|'; echo '2|ada|2|main|'; echo '3|ada|1|main|w1'\n"
        "printf '4|ada|1|main|'; head -c 5000 /dev/zero | tr '\\0' w; echo\n"
        "seq 5 9000 | sed 's/$/|ada|1|main|w2/'\n"
    )
    squeue.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(SLURM_WAITING_COMMAND, env=env, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[:3] == ["2|ada|2|main|", "3|ada|1|main|w1", "5|ada|1|main|w2"]
    assert len(said.splitlines()) == 4000


def test_a_leaving_node_that_a_job_asks_for_stays(cluster: Cluster, desired: Desired) -> None:
    said = {SLURM_JOBS: "", SLURM_NODES: "", SLURM_WAITING: "17|ada|1|main|w9\n18|bob|3|main|\n"}
    gone = (
        Leaving(
            "w9",
            "10.0.0.9",
            True,
            None,
            (Removal("munge", OwnedResources(resources={"files": ("/etc/munge/munge.key",)})),),
        ),
    )
    text = plan_text(diff(cluster, desired, {"head": replace(seen(node="head"), answers=said)}, gone))
    assert "leaving  w9\n  ! stays for now: job 17 of ada asks for w9 by name and has not begun; " in text
    assert "scontrol update JobId=17 ReqNodeList= (it runs elsewhere) or scancel 17\n" in text
    assert "munge.key" not in text
    assert "job 18 of bob asks for 3 nodes of main: it waits for more nodes\n" in text


def test_weights_that_hpcforge_chose_are_named_where_slurm_changes(cluster: Cluster, desired: Desired) -> None:
    implied = (("PriorityType", "priority/multifactor"), ("PriorityWeightQOS", "100000"))
    weighed = replace(cluster, slurm=replace(cluster.slurm, implied=implied))
    observed = {"head": seen({"role": "server", "checks": [{"name": "it answers", "detail": "no"}]}, node="head")}
    for role, shown in {"server": True, "client": False}.items():
        plan = diff(weighed, replace(desired, scheduler=role), observed)
        assert plan.policy.weights == ("PriorityWeightQOS=100000",)
        assert ("PriorityWeightQOS=100000: chosen by hpcforge" in plan_text(plan)) is shown


def made_for(cluster: Cluster, desired: Desired, *observed: Observation) -> Plan:
    return diff(cluster, desired, {one.node: one for one in observed})


def test_a_plan_holds_only_for_nodes_that_are_as_they_were(cluster: Cluster, desired: Desired) -> None:
    missing = {"role": "client", "packages": ["clientd"]}
    made = made_for(cluster, desired, seen(missing, node="w1"), seen(missing, node="w2"), seen(node="head"))
    same = seen(missing, node="w1", run=9)  # another run elsewhere is no change here
    now = made_for(cluster, desired, same, seen({**missing, "accounts": [{"name": "ada"}]}, node="w2"))
    out = stale_nodes(made, now)
    assert out == {"w2": "it changed after the plan was made: role client"}
    rest = drop_nodes(made, out, now)
    assert rest.touched == ("w1",)


def test_what_a_failed_check_prints_is_no_change(cluster: Cluster, desired: Desired) -> None:
    def printing(text: str, run: int) -> Observation:
        failing = {"role": "client", "checks": [{"name": "it answers", "detail": text}]}
        return seen(failing, node="w1", run=run)

    made, now = printing("one\ntwo", 4), printing("two\none", 4)
    assert stale_nodes(made_for(cluster, desired, made), made_for(cluster, desired, now)) == {}
    bare, later = printing("one", 0), seen({"role": "client", "packages": ["clientd"]}, node="w1", run=0)
    assert stale_nodes(made_for(cluster, desired, bare), made_for(cluster, desired, later)) == {}
    assert list(stale_nodes(made_for(cluster, desired, bare), made_for(cluster, desired, made))) == ["w1"]


def test_a_node_that_is_down_now_is_left_to_the_run(cluster: Cluster, desired: Desired) -> None:
    made = made_for(cluster, desired, seen({"role": "client", "packages": ["clientd"]}))
    now = made_for(cluster, desired, Observation("w1", unreachable="no route"))
    assert stale_nodes(made, now) == {}
    rest = drop_nodes(made, (), now)
    assert not rest.changes.steps
    assert rest.state.unreachable == {"w1": "no route"}


def test_less_of_a_guarded_role_is_guarded_too(cluster: Cluster, desired: Desired) -> None:
    roles = tuple(replace(one, guard=one.role == "client") for one in desired.nodes["w1"])
    guarded = replace(desired, nodes={**desired.nodes, "w1": roles})
    gone = {"client": {"files": ["/etc/old"], "on_remove": "stop", "wanted": True}, "old": {"files": ["/etc/x"]}}
    plan = diff(cluster, guarded, {"w1": seen(surplus=gone)})
    assert {one.role: one.guard for one in plan.changes.removals["w1"]} == {"client": True, "old": False}


OLD = {"role": "client", "kind": "old state", "name": "/etc/x", "why": "it is of cluster 'old'", "commands": []}


def test_take_over_renames_old_state_where_it_would_leave_the_node_out(cluster: Cluster, desired: Desired) -> None:
    missing = {"role": "client", "packages": ["clientd"]}
    observed = {"w1": replace(seen(missing), obstacles=(OLD,)), "head": seen(node="head")}
    assert list(diff(cluster, desired, observed).state.refused) == ["w1"]
    plan = diff(cluster, desired, observed, scope=Scope(take_over=True))
    assert (dict(plan.state.refused), plan.touched, plan.changes.take_over) == ({}, ("w1",), True)
    assert (
        "take over  w1  (renamed to a name beside it, with the time)\n  ~ client: /etc/x: it is of cluster 'old'\n"
        in plan_text(plan)
    )
    alike = {**observed, "w1": replace(seen(), obstacles=(OLD,))}  # but for that nothing differs
    assert diff(cluster, desired, alike, scope=Scope(take_over=True)).touched == ("w1",)
    assert list(diff(cluster, desired, alike).state.refused) == ["w1"]
    both = replace(observed["w1"], obstacles=(OLD, CONFLICT))
    plan = diff(cluster, desired, {**observed, "w1": both}, scope=Scope(take_over=True))
    assert (list(plan.state.refused), plan.changes.kept_aside) == (["w1"], ())
