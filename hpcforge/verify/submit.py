"""The submission of smoke tests to Slurm: an allocation that its owner keeps, and a step from the head into it.

Tests of the same nodes share both, and the ranks, in which they run one after the other (decision 16).

No file system is shared, so the head could not read a job's output on a node. Therefore `sbatch` submits a script that
only holds the allocation while its owner lives. `srun`, started on the head, runs torchrun or a test's program in it
and returns standard output. All of it is pure: it depends on the cluster alone.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate

from hpcforge import bundled
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.acceptance import asked_min
from hpcforge.blueprint.sections.accounts import USUAL_QOS
from hpcforge.blueprint.sections.slurm import TESTS_ACCOUNT
from hpcforge.blueprint.transports import NODES
from hpcforge.blueprint.values import limit_s
from hpcforge.cluster.launches import ProgramLaunch, RanksError, divided
from hpcforge.cluster.model import Cluster, FabricOf, Node, Partition, SmokeTest, SmokeTestProgram
from hpcforge.cluster.smoke_tests import node_address, ranks_on_each, why_not
from hpcforge.errors import ExpectedError
from hpcforge.launchers import CONTAINERS, LAUNCHERS, Launcher, LauncherName
from hpcforge.programs import rank_ports
from hpcforge.verify.heartbeat import POLL_S, SILENT_S, Owner
from hpcforge.verify.step_events import TaskLayout

JOB_NAME = "hpcforge-"  # prefix of the names of test jobs; it counts only for jobs of the tests' account
SMOKE_TESTS = "/opt/hpcforge/smoke_tests"
PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHON = "/usr/bin/python3"  # of tests that need no PyTorch
IMAGE_PACKAGES = ("python3", "libstdc++6")  # required by wheels
IMAGE_FOLDERS = {"image": "@image@", "tmp": "@tmp@"}  # node_image.py, which makes the image, puts its folders there
GRACE_S = 60  # after one node's torchrun has ended, for reports of the others
MEMORY_MIB = {False: 2048, True: 16384}  # a rank's share, without and with real GPUs; torch alone needs about 300
PORT_S = 60  # how long the first node may take to name a free port
_TESTS_HAVE = {"accounts": TESTS_ACCOUNT, "qos": USUAL_QOS}  # by the suffix of AllowAccounts, DenyQos ...
MEMORY_ALONE_MIB = 16384  # of a process that has a node to itself: memory_copy's buffers exceed the caches


@dataclass(frozen=True)
class Turn:
    """One smoke test of a launch."""

    test: str
    time_limit_s: int
    arguments: tuple[str, ...] = ()  # more arguments for its program
    program: SmokeTestProgram = field(default_factory=SmokeTestProgram)
    network: str = ""  # required for connections of its ranks; "": any
    addresses: Mapping[str, str] = field(default_factory=dict)  # of its nodes there


@dataclass(frozen=True)
class Launch:
    """Smoke tests on their usable nodes: one after the other in the same ranks, or one by itself.

    A test that lists launches is by itself, and has a Launch for each of these, its `steps`, in the same allocation.
    """

    turns: tuple[Turn, ...]
    nodes: tuple[Node, ...]  # node rank 0 first
    user: str
    partition: str
    python: str
    ranks_per_node: int
    gpus_per_node: int
    cpus_per_node: int  # that Slurm gives to jobs
    shared_cores: bool  # other nodes of the launch have the same
    memory_mib: int  # per node
    launcher_options: tuple[str, ...] = ()  # more options for torchrun
    libuv: bool = True  # False: this build of torch lacks libuv, which its own launcher requires
    step: ProgramLaunch | None = None  # this launch, of those that its test lists
    reservation: str = ""  # in Slurm, with its nodes; "": none
    account: str = ""  # in Slurm, for its usage; "": the user's default
    image: tuple[str, ...] = ()  # packages of the processes' image; (): they run on the node itself
    fabric: FabricOf | None = None  # between its nodes; None: not known, or a single node
    mpi: Mapping[str, str] = field(default_factory=dict)  # environment variables of its ranks of MPI
    nonce: str = ""  # repeated by each of its tasks, so that output of other launches does not count; "": none
    pairs_test: str = ""  # of the blueprint, to find slow parts between its nodes; "": none, or a single node

    @property
    def real_gpus(self) -> int:
        """The GPUs of each node; 0 where they are a rehearsal's stand-ins."""
        return 0 if any(node.gpus and node.gpus.fake for node in self.nodes) else self.gpus_per_node

    @property
    def launcher(self) -> LauncherName:
        """The name of the launcher; the same for all tests of a launch."""
        return self.step.launcher if self.step else self.turns[0].program.launcher

    @property
    def kind(self) -> Launcher:
        """The launcher."""
        return LAUNCHERS[self.launcher]

    @property
    def ranks(self) -> int:
        """The number of all ranks: processes."""
        return len(self.nodes) * self.ranks_per_node

    @property
    def layout(self) -> TaskLayout:
        """The node and the ranks of each task of the step."""
        tasks, ranks = (1, self.ranks_per_node) if self.kind.ranked else (self.ranks_per_node, 0)
        return TaskLayout(tuple(node.name for node in self.nodes), tasks, ranks, self.kind.in_order, self.nonce)

    @property
    def job_name(self) -> str:
        """The name of its job in Slurm."""
        return f"{JOB_NAME}{'+'.join(turn.test for turn in self.turns)}"

    @property
    def time_limit_s(self) -> int:
        """The time limit of all its tests."""
        return sum(turn.time_limit_s for turn in self.turns)

    @property
    def nodelist(self) -> str:
        """The nodes in hostlist notation."""
        return fold(node.name for node in self.nodes)


class NotLaunchableError(ExpectedError):
    """A test cannot be submitted with this blueprint, with the reason."""


def partition_for(cluster: Cluster, names: Sequence[str], time_limit_s: int) -> Partition:
    """Return the partition that holds all the nodes and lets a job last long enough.

    Prefer one for all jobs, and then the default one. The test with `time_limit_s` must fit. Raise NotLaunchableError,
    with an explanation, for a job that Slurm would refuse since no partition can ever run it.
    """
    holding = [partition for partition in cluster.slurm.partitions if set(names) <= set(partition.nodes)]
    if not holding:
        raise NotLaunchableError(f"no partition in slurm.partitions holds all of {fold(names)}")
    if cut := cluster.slurm.cut(names):
        raise NotLaunchableError(cut)
    holding = [partition for partition in holding if len(cluster.slurm.parts(names, partition)) < 2]
    minutes = asked_min(time_limit_s)
    fitting = [partition for partition in holding if minutes * 60 <= limit_s(partition.max_time)]
    if not fitting:
        limits = ", ".join(f"{partition.name} has max_time {partition.max_time}" for partition in holding)
        raise NotLaunchableError(
            f"no partition that holds {fold(names)} gives a job the {minutes} minutes that the test asks for: {limits}"
        )
    return min(fitting, key=lambda partition: (partition.selective, not partition.default))


def launch(
    cluster: Cluster,
    tests: Sequence[SmokeTest],
    names: Sequence[str],
    arguments: Mapping[str, Sequence[str]] | None = None,
    *,
    part: bool = False,
) -> Launch:
    """Return the launch of tests on the named nodes, some or all of their common nodes.

    It has the first tests: as many as one job of the partition has time for, and at least one; all with a launcher that
    starts ranks, or a single one with another.
    Every node gets the same number of ranks (`ranks_on_each`; `part`: these nodes are some of a node set), and the same
    share of the memory for jobs. `arguments` are further ones of test programs, by test. Raise NotLaunchableError.
    """
    nodes = tuple(cluster.by_name[name] for name in names)
    first = tests[0].program
    _check_needs(cluster, tests[0], nodes)
    try:
        ranks = ranks_on_each(cluster, first, nodes, part=part)
    except RanksError as error:
        raise NotLaunchableError(f"{tests[0].name} cannot run on {fold(names)}: {error}") from error
    gpus = min(node.gpus.count if node.gpus else 0 for node in nodes)
    real = gpus > 0 and not any(node.gpus and node.gpus.fake for node in nodes)
    cpus = max(1, min(cluster.job_cpus(node) for node in nodes))
    memory = min(cluster.job_memory_mib(node) for node in nodes)
    torch = cluster.pytorch if first.pytorch else None
    packaged = torch is not None and torch.build == "distribution"
    old = torch is not None and torch.version.startswith("1.")
    partition = partition_for(cluster, names, tests[0].time_limit_s)
    turns = [
        replace(_turn(cluster, test, nodes), arguments=(*_options(test), *(arguments or {}).get(test.name, ())))
        for test in tests
    ]
    started = [program_launch.launcher for program_launch in first.launches] or [first.launcher]
    alone_mib = MEMORY_ALONE_MIB if any(LAUNCHERS[name].per_node == "one" for name in started) else 0
    return Launch(
        turns=_in_time(turns, partition),
        nodes=nodes,
        user=cluster.acceptance.run_as if cluster.acceptance else "",
        partition=partition.name,
        account=_account(cluster, partition),
        python=_python(cluster, first),
        ranks_per_node=ranks,
        gpus_per_node=gpus,
        cpus_per_node=cpus,
        shared_cores=cluster.shared_cores,
        memory_mib=max(1, min(memory, alone_mib or ranks * MEMORY_MIB[real])),
        launcher_options=_QUIRKS if packaged and old else (),
        libuv=not packaged or old,
        image=_image(cluster, first) if first.container else (),
        fabric=cluster.fabric_between(nodes, rdma=real) if len(nodes) > 1 else None,
        mpi=_mpi(cluster, nodes),
        pairs_test=_pairs_test(cluster, names),
    )


def _pairs_test(cluster: Cluster, names: Sequence[str]) -> str:
    """Return the test that isolates bad parts among several nodes; "" where the blueprint has none."""
    tests = cluster.acceptance.tests if cluster.acceptance and len(names) > 1 else ()
    return next((test.name for test in tests if test.program.isolates), "")


def _account(cluster: Cluster, partition: Partition) -> str:
    """Return the account of the tests; "" without accounts, or if the partition refuses that one or its QOS."""
    made = any(association.name == f"account {TESTS_ACCOUNT}" for association in cluster.slurm.associations)
    limits = {key.lower(): value.lower().split(",") for key, value in partition.settings}
    accepted = all(
        limits.get(f"allow{kind}", ["all"]) == ["all"] or name in limits[f"allow{kind}"]
        for kind, name in _TESTS_HAVE.items()
    )
    denied = any(name in limits.get(f"deny{kind}", []) for kind, name in _TESTS_HAVE.items())
    return TESTS_ACCOUNT if made and accepted and not denied else ""


def _python(cluster: Cluster, program: SmokeTestProgram) -> str:
    """Return the interpreter that a program needs."""
    framework = (cluster.pytorch if program.pytorch else None) or cluster.framework(program.framework)
    return framework.python if framework else PYTHON


def _image(cluster: Cluster, program: SmokeTestProgram) -> tuple[str, ...]:
    """Return the packages of the node that its processes need in a container."""
    packaged = program.pytorch and cluster.pytorch is not None and cluster.pytorch.build == "distribution"
    return (*IMAGE_PACKAGES, *(["python3-torch"] if packaged else []), *cluster.packages_of(program))


def _turn(cluster: Cluster, test: SmokeTest, nodes: Sequence[Node]) -> Turn:
    """Return a test with the addresses of its nodes on the network that its ranks must use."""
    turn = Turn(test.name, test.time_limit_s, program=test.program)
    network = test.program.transport.network if test.program.transport else None
    if network is None:
        return turn
    addresses = {node.name: node_address(cluster, node, network) for node in nodes}
    name = cluster.network.name if network == NODES else network
    return replace(turn, network=name, addresses={node: address for node, address in addresses.items() if address})


def _mpi(cluster: Cluster, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the transport that the role configures on these nodes; the job sets it if they differ."""
    by_ucx = {cluster.collectives(node.fabrics).fabric is not None for node in nodes}
    planned = {"HPCFORGE_MPI_TRANSPORT": "ucx" if by_ucx == {True} else "ob1"}
    return planned if len(by_ucx) == 1 else {**planned, "OMPI_MCA_pml": "ob1"}


def _options(test: SmokeTest) -> list[str]:
    """Return the program's options, each as one word; no shell reads them."""
    options = {**dict(test.program.options), **dict(test.options)}
    return [f"--{name.replace('_', '-')}={text}" for name, text in options.items()]


def _check_needs(cluster: Cluster, test: SmokeTest, nodes: Sequence[Node]) -> None:
    """Raise NotLaunchableError if a need of a test is not met."""
    if cluster.acceptance is None:
        raise NotLaunchableError("smoke tests need an acceptance section")
    if test.program.pytorch and cluster.pytorch is None:
        raise NotLaunchableError(f"{test.name} needs PyTorch: name a version under software.frameworks.pytorch")
    if len(nodes) < test.program.min_nodes:
        raise NotLaunchableError(f"{test.name} takes {test.program.min_nodes} nodes, and {len(nodes)} are usable")
    problem = why_not(cluster, test.program, nodes)
    if problem is not None:
        raise NotLaunchableError(f"{test.name} cannot run on {fold(node.name for node in nodes)}: {problem[0]}")


def steps(job: Launch, scratch: str) -> tuple[Launch, ...]:
    """Return the launches that the test of a job lists, in their order; `scratch` is their common folder."""
    (turn,) = job.turns
    return tuple(_step(job, turn, spec, scratch) for spec in turn.program.launches)


def _step(job: Launch, turn: Turn, spec: ProgramLaunch, scratch: str) -> Launch:
    alone = LAUNCHERS[spec.launcher].per_node == "one"
    nodes, ranks = (len(job.nodes), 1) if alone else divided(len(job.nodes), job.ranks_per_node, spec.ranks_divided_by)
    arguments = (*turn.arguments, f"--launch={spec.name}", f"--scratch={scratch}")
    return replace(
        job,
        turns=(replace(turn, arguments=arguments),),
        nodes=job.nodes[:nodes],
        ranks_per_node=ranks,
        step=spec,
    )


def _in_time(turns: Sequence[Turn], partition: Partition) -> tuple[Turn, ...]:
    """Return the first turns that fit in a job of the partition: Slurm refuses a longer job."""
    ends_s = accumulate(turn.time_limit_s for turn in turns)
    fit = sum(asked_min(end_s) * 60 <= limit_s(partition.max_time) for end_s in ends_s)
    return tuple(turns[:fit])


# Only an unchanged answer counts as silence: a missing one does not show that the owner is dead. Slurm's limit ends the
# job in any case.
SCRIPT = f"""\
#!/bin/sh
said= silent=0
while [ "$silent" -lt {SILENT_S} ]; do
  sleep {POLL_S}
  heard=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%k 2>/dev/null) && [ -n "$heard" ] || continue
  if [ "$heard" = "$said" ]; then silent=$((silent + {POLL_S})); else said=$heard silent=0; fi
done
"""  # holds the allocation until its owner has been silent for too long


def sbatch(job: Launch, owner: Owner) -> list[str]:
    """Return the command that submits the script from standard input and prints the job's number.

    Run it `stamped`: it ends with the owner's comment.
    """
    return [
        "sbatch",
        "--parsable",
        f"--job-name={job.job_name}",
        f"--partition={job.partition}",
        *([f"--account={job.account}"] if job.account else []),
        *([f"--reservation={job.reservation}"] if job.reservation else []),
        f"--nodes={len(job.nodes)}",
        f"--nodelist={job.nodelist}",
        "--exclusive",
        *_shares(job),
        f"--time={asked_min(job.time_limit_s)}",
        "--no-requeue",
        "--chdir=/",  # the user's home need not be there
        "--output=/dev/null",
        f"--export=PATH={PATH}",
        f"--comment={owner.comment()}",
    ]


def free_port(job: Launch, job_id: str) -> list[str]:
    """Return the command that finds a port on the first node on which the ranks' store can listen."""
    return [
        *("timeout", "--kill-after=15", str(PORT_S)),
        *("srun", f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={job.nodes[0].name}"),
        *(f"--mem={job.memory_mib}M", "--mpi=none", "--chdir=/", "--label", "--input=none", f"--export=PATH={PATH}"),
        *("/bin/sh", "-c", _BY_ITSELF, "hpcforge", PYTHON, "-I", "-c", PORTS),
    ]


def srun(job: Launch, job_id: str, port: int = 0) -> list[str]:
    """Return the command that runs the tests inside the allocation and returns their output, each line with its task.

    Ranks of torchrun, and tasks that meet, find each other at `port` of the first node. Tests have a private folder for
    temporary files and caches, removed at their end: in /tmp others can use the same names. The head ends the command
    after the time limits of all its tests, with exit code 124. A task that ends does not end the others at once: their
    output shows which rank failed first.
    """
    together = job.kind.ranked
    tasks = 1 if together else job.ranks_per_node
    kill_after_s = job.step.kill_after_s if job.step else None
    killer = ["timeout", "--signal=KILL", str(kill_after_s)] if kill_after_s else []
    return [
        "timeout",
        "--kill-after=15",
        str(job.time_limit_s),
        "srun",
        f"--jobid={job_id}",
        "--overlap",
        f"--nodes={len(job.nodes)}",
        *([f"--nodelist={job.nodelist}"] if job.step else []),  # it may have fewer nodes than the job
        f"--ntasks={len(job.nodes) * tasks}",
        f"--ntasks-per-node={tasks}",
        *_shares(job),
        *(option.format(cpus=_cpus(job)) for option in job.kind.srun),
        "--kill-on-bad-exit=0",
        f"--wait={GRACE_S if together else 0}",  # 0: only the test's own limit
        "--chdir=/",
        "--label",
        "--input=none",
        "--export=" + ",".join(f"{name}={value}" for name, value in _environment(job, port).items()),
        "/bin/sh",
        "-c",
        *(_on_node(job, port) if together else [_BY_ITSELF, "hpcforge"]),
        *killer,
        *_container(job),
        *(_launcher(job, job_id, port) if together else [job.python]),
        *program(job),
    ]


def _on_node(job: Launch, port: int) -> list[str]:
    return [_ON_NODE, "hpcforge", PORTS, str(port), str(len(job.nodes)), *(node.name for node in job.nodes)]


def _container(job: Launch) -> list[str]:
    """Return the words before a command to run it in a container; none without one."""
    runtime = job.turns[0].program.container
    if runtime is None:
        return []
    enter = [word.format_map(IMAGE_FOLDERS) for word in CONTAINERS[runtime].enter]
    return [PYTHON, "-I", f"{SMOKE_TESTS}/node_image.py", *job.image, "--", *enter]


def _launcher(job: Launch, job_id: str, port: int) -> list[str]:
    """Return the launcher's command line, but for the node's rank, which is set on the node."""
    values: dict[str, str | tuple[str, ...]] = {
        "python": job.python,
        "torchrun": ("-m", "torch.distributed.run") if job.libuv else ("-c", RUN_WITHOUT_LIBUV),
        "nodes": str(len(job.nodes)),
        "per_node": str(job.ranks_per_node),
        "job": job_id,
        "address": job.nodes[0].address,
        "port": str(port),
        "torchrun_options": job.launcher_options,
    }
    return job.kind.words(values)


def program(job: Launch) -> list[str]:
    """Return the command of every rank, for any launcher."""
    if not job.kind.ranked:
        (turn,) = job.turns
        return [f"{SMOKE_TESTS}/{turn.test}.py", "--json", *turn.arguments]
    timeout_s = max(10, min(turn.time_limit_s for turn in job.turns) // 2)  # before the limit, so that ranks can report
    words = [f"{SMOKE_TESTS}/in_turn.py"]
    for number, turn in enumerate(job.turns):
        words += ["--next"] * (number > 0)
        words += [turn.test, "--json", f"--timeout-s={timeout_s}", f"--limit-s={turn.time_limit_s}", *turn.arguments]
    return words


# torch 1.13 under Python 3.11 (Debian 12) misreads its own default of these two, and dies: iterating over a Flag no
# longer gives the member that is zero. A mapping for a missing local rank has the same effect: nothing is redirected.
_QUIRKS = ("--redirects=9:1", "--tee=9:1")

# Debian builds torch 2 without libuv. Its launcher requires a store with it and ignores USE_LIBUV.
RUN_WITHOUT_LIBUV = (
    "import functools, torch.distributed.run as run; "
    "import torch.distributed.elastic.rendezvous.static_tcp_rendezvous as static; "
    "static.TCPStore = functools.partial(static.TCPStore, use_libuv=False); run.main()"
)

PORTS = inspect.getsource(rank_ports)

# Runs "$@" with temporary files and caches in a folder that only this account can enter, and ends in the same way: srun
# distinguishes an exit code from a signal. A signal of Slurm's reaches the program too; this waits for it, and cleans
# up. The message of sh itself on a program that a signal ended is dropped. First it removes the folder that a killed
# test left a day ago.
_IN_PRIVATE = """\
trap : HUP INT TERM
find /tmp -mindepth 1 -maxdepth 1 -name 'hpcforge-tests.*' -user "$(id -u)" -mtime +1 -exec rm -rf -- {} + 2>/dev/null
private=$(mktemp -d /tmp/hpcforge-tests.XXXXXXXXXX) || exit 73
export TMPDIR="$private" XDG_CACHE_HOME="$private" TRITON_CACHE_DIR="$private" TORCHINDUCTOR_CACHE_DIR="$private"
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
exec 2>&3 3>&-
rm -rf "$private"
"""
_END_ALIKE = """\
if [ "$code" -gt 128 ]; then ulimit -c 0; trap - HUP INT TERM; kill -"$((code - 128))" "$$" 2>/dev/null; fi
exit "$code"
"""

# The first line of a task, before any output of the program. A program that differs from this launch's is not run, and
# the step ends: other ranks would wait for those of this node.
_FIRST_EVENT = '"event": "node", "host": "$SLURMD_NODENAME", "launch": "$HPCFORGE_LAUNCH"'.replace('"', '\\"')
_AS_INSTALLED = f"""\
changed=$([ -n "$HPCFORGE_FILES" ] && cd {SMOKE_TESTS} &&
  printf '%s  %s\\n' $HPCFORGE_FILES | sha256sum --check --quiet 2>/dev/null)
if [ -n "$changed" ]; then
  echo "{{\\"event\\": \\"changed\\", \\"host\\": \\"$SLURMD_NODENAME\\", \\"file\\": \\"${{changed%%:*}}\\"}}"
  scancel "$SLURM_JOB_ID.$SLURM_STEP_ID" 2>/dev/null
  exit 65
fi
"""

# Arguments: the text of ports.py, the port of rank 0, a number of nodes, that many names in the order of their ranks,
# and the launcher's command line. torchrun takes any option from the environment too, as PET_OPTION.
_ON_NODE = f"""\
ports=$1 port=$2 count=$3; shift 3; rank=; index=0
while [ "$index" -lt "$count" ]; do
  if [ "$1" = "$SLURMD_NODENAME" ]; then rank=$index; fi
  index=$((index + 1)); shift
done
echo "{{{_FIRST_EVENT}, \\"node_rank\\": ${{rank:-null}}}}"
[ -n "$rank" ] || exit 64
{_AS_INSTALLED}\
export PET_NODE_RANK="$rank"
{_IN_PRIVATE}\
if [ "$rank" = 0 ] && [ "$code" -ne 0 ]; then {PYTHON} -I -c "$ports" "$port"; fi
{_END_ALIKE}"""

_BY_ITSELF = f"""\
echo "{{{_FIRST_EVENT}}}"
{_AS_INSTALLED}\
{_IN_PRIVATE}{_END_ALIKE}"""


def _shares(job: Launch) -> list[str]:
    gpus = [f"--gres=gpu:{job.gpus_per_node}"] if job.gpus_per_node else []
    return [*gpus, f"--mem={job.memory_mib}M"]


def _cpus(job: Launch) -> int:
    """Return the CPUs that each process has for its threads."""
    sharing = 1 if job.kind.per_node == "one" else max(job.ranks_per_node, job.gpus_per_node)
    share = max(1, job.cpus_per_node // sharing)
    if any("{cpus}" in option for option in job.kind.srun):  # it binds to cores: whole ones, if each has one
        threads = max(node.threads_per_core for node in job.nodes)
        return share // threads * threads or share
    return share


def files(job: Launch) -> dict[str, str]:
    """Return the files that its processes run, with their SHA-256 as `roles/smoke_tests` installs them on nodes."""
    texts = {f"{turn.test}.py": turn.program.text for turn in job.turns}
    texts |= {f"{module.name}.py": module.text for turn in job.turns for module in turn.program.imports}
    shared: tuple[str, ...] = ("in_turn", "ranks", "limits") if job.kind.ranked else ()
    shared += ("node_image",) if job.turns[0].program.container else ()
    digests = {name: digest_of(text) for name, text in texts.items() if text}
    return digests | {f"{name}.py": _digest(name) for name in shared}


def digest_of(text: str) -> str:
    """Return the SHA-256 of a file with this text, as sha256sum(1) prints it."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _digest(module: str) -> str:
    return digest_of((bundled.smoke_tests() / f"{module}.py").read_text(encoding="utf-8"))


def _environment(job: Launch, port: int) -> dict[str, str]:
    return {
        "HPCFORGE_LAUNCH": job.nonce,
        "HPCFORGE_FILES": " ".join(f"{digest} {name}" for name, digest in files(job).items()),
        **({"HPCFORGE_MEETING": f"{job.nodes[0].address}:{port}"} if job.kind.meets else {}),
        "PATH": PATH,
        "HOME": "/nonexistent",  # torch reads caches there and writes none; only root could make it
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(_cpus(job)),
        # Spinning threads would take the cores from those that they wait for: 463 instead of 9,886 samples/s.
        **({"OMP_WAIT_POLICY": "passive"} if job.shared_cores else {}),
        # sbatch sets it for its own script; a step that srun starts from elsewhere has none, and would take more.
        "SLURM_MEM_PER_NODE": str(job.memory_mib),
        # Import only files installed by root: nothing from a home, nothing from the current folder.
        # Python before 3.11 has no safe path; it uses that of the program, and /, where Slurm starts it.
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": SMOKE_TESTS,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore:Failed to initialize NumPy",  # the smoke tests do not use it
        **({} if job.libuv else {"USE_LIBUV": "0"}),  # the ranks use it, not the launcher
        **(job.mpi if job.kind.mpi else {}),
        **(dict(job.step.environment) if job.step else {}),
    }
