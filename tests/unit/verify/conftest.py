from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hpcforge import bundled
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.cluster.model import (
    Acceptance,
    Access,
    Cluster,
    Gpus,
    Network,
    Node,
    OperatingSystem,
    Partition,
    PyTorch,
    Service,
    Slurm,
    SmokeTest,
    SmokeTestProgram,
)
from hpcforge.cluster.people import User
from hpcforge.cluster.smoke_tests import program
from hpcforge.verify import verify

Build = Callable[..., Cluster]
FAKE_GPUS = Gpus("fake", 2)


@pytest.fixture(autouse=True)
def _no_nonce(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded output repeats no nonce of today's launch; test_changed_programs.py is about that."""
    if request.module.__name__.rpartition(".")[2] != "test_changed_programs":
        monkeypatch.setattr(verify, "new_nonce", lambda: "")


def shipped_program(name: str) -> SmokeTestProgram:
    """What the folder of a shipped smoke test says."""
    folder = load_smoke_tests(bundled.root() / "smoke_tests")[name]
    return program(name, folder.spec, folder.program.read_text())


def without_transport(name: str) -> SmokeTestProgram:
    """The same for steps that were recorded before ranks reported their transport; test_transport.py is about that."""
    return replace(shipped_program(name), transport=None)


def _node(name: str, octet: int, function: str, gpus: Gpus | None, cores: int, memory_mib: int) -> Node:
    return Node(
        name=name,
        group=name,
        functions=(function,),  # type: ignore[arg-type]
        hardware="any",
        sockets=1,
        cores_per_socket=cores,
        threads_per_core=1,
        memory_mib=memory_mib,
        gpus=gpus,
        address=f"10.77.0.{octet}",
        reserve_cores=1,
        reserve_memory_mib=1024,
    )


@pytest.fixture
def build() -> Build:
    """A cluster of one head and some workers, w1 to wN."""

    def make(
        workers: int = 2,
        gpus: Gpus | None = FAKE_GPUS,
        cores: int = 2,
        memory_mib: int = 4096,
        build: str = "wheel",
        time_limit_s: int = 120,
    ) -> Cluster:
        names = tuple(f"w{number}" for number in range(1, workers + 1))
        tests = tuple(
            SmokeTest(name, names, time_limit_s, without_transport(name)) for name in ("allreduce", "train_ddp")
        )
        return Cluster(
            name="test",
            domain="test.example.org",
            access=Access("ops", "sudo", None),
            nodes=(
                _node("head", 10, "head", None, 2, 4096),
                *(_node(name, 11 + index, "worker", gpus, cores, memory_mib) for index, name in enumerate(names)),
            ),
            network=Network("cluster", "10.77.0.0/24"),
            services={name: Service(("head",), (), {"forward": ()}) for name in ("dns", "time", "depot")},
            os=OperatingSystem("debian", "12", "3.11", "22.05", "2.36", "9.2"),
            pytorch=PyTorch("2.13.0", build, ()),  # type: ignore[arg-type]
            site_roles=(),
            slurm=Slurm("head", (), (Partition("main", names, True, "01:00:00"),)),
            users=(User("tests", 2002, False, ()),),
            acceptance=Acceptance("tests", tests),
        )

    return make


@pytest.fixture
def split(build: Build) -> Cluster:
    """Two workers in partitions of their own."""
    cluster = build()
    apart = tuple(Partition(f"only-{name}", (name,), False, "INFINITE") for name in ("w1", "w2"))
    return replace(cluster, slurm=replace(cluster.slurm, partitions=apart))
