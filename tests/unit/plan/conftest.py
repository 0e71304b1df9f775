"""A cluster of one head and two workers, and two small roles, for the pure middle of the pipeline."""

from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.cluster.model import Access, Cluster, Gpus, Network, Node, OperatingSystem, Partition, Service, Slurm
from hpcforge.cluster.people import User


def node(name: str, function: str, address: str, gpus: Gpus | None = None) -> Node:
    return Node(
        name=name,
        group=name,
        functions=(function,),  # type: ignore[arg-type]
        hardware="rehearsal-node",
        sockets=1,
        cores_per_socket=2,
        threads_per_core=1,
        memory_mib=4096,
        gpus=gpus,
        address=address,
        reserve_cores=1,
        reserve_memory_mib=1024,
    )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(
        name="small",
        domain="small.example.org",
        access=Access("ops", "sudo", None),
        nodes=(
            node("head", "head", "10.0.0.1"),
            node("w1", "worker", "10.0.0.2", Gpus("fake", 2)),
            node("w2", "worker", "10.0.0.3", Gpus("fake", 2)),
        ),
        network=Network("cluster", "10.0.0.0/24"),
        services={
            **{name: Service() for name in read_declared(bundled.roles()).offers},
            **{name: Service(("head",), (), {"forward": ()}) for name in ("dns", "time", "depot")},
        },
        os=OperatingSystem("debian", "12", "3.11", "22.05", "2.36", "9.2"),
        pytorch=None,
        site_roles=(),
        slurm=Slurm("head", (), (Partition("main", ("w1", "w2"), True, "INFINITE"),)),
        users=(User("ada", 2001, False, ()),),
        acceptance=None,
    )


SERVER = """
description: Serves.
on: "'head' in node.functions"
packages: [serverd]
files:
  - /etc/server.conf
units: [{name: server.service}]
checks: [{name: it answers, command: [server-ping, "{{ node.address }}"], stdout: pong, wait_s: 5}]
"""

CLIENT = """
description: Uses what is served.
on: "'worker' in node.functions"
needs: [server@cluster]
secrets: {munge_key: {description: known to all, bytes: 32}}
packages:
  - clientd
  - {name: never, when: "cluster.name == 'other'"}
files:
  - {path: "/etc/client-{{ node.name }}.conf", content: "server {{ cluster.services.dns.host }}\\n", mode: "0600"}
  - {path: /etc/client.key, secret: munge_key, mode: "0400"}
accounts: [{for_each: cluster.users, name: "{{ item.name }}", uid: "{{ item.uid }}", home: "{{ item.home }}"}]
units: [{name: client.service, restart_on: [/etc/client.key]}]
inputs: {gpus: node.gpus}
"""


@pytest.fixture
def roles_folder(tmp_path: Path) -> Path:
    for name, text in {"server": SERVER, "client": CLIENT}.items():
        (tmp_path / "roles" / name / "files/etc").mkdir(parents=True)
        (tmp_path / "roles" / name / "role.yaml").write_text(text)
    template = "{% for n in cluster.nodes %}\nhost {{ n.name }} {{ n.address }}\n{% endfor %}\nall {{ names|fold }}\n"
    (tmp_path / "roles/server/files/etc/server.conf.j2").write_text(
        template.replace("names", "cluster.workers|map(attribute='name')")
    )
    (tmp_path / "roles/client/deploy.py").write_text("# nothing\n")
    return tmp_path / "roles"
