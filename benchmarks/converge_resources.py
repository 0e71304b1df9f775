"""What `converge.py` has every tool configure: 30 resources, said once, and each tool's way to say them.

Ten packages, twelve files (two of them kernel settings, two with the node's name in them), five services of which each
is restarted when its file changes, three users.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

NODE = "NODE_NAME"  # stands for the node's name in a file's content


@dataclass(frozen=True)
class File:
    """A file of root's, mode 0644."""

    path: str
    content: str


@dataclass(frozen=True)
class Service:
    """A service that runs and is enabled; restarted when `file` changes."""

    name: str
    file: str


PACKAGES = ("bc", "cron", "htop", "lighttpd", "memcached", "munge", "rsync", "rsyslog", "tmux", "tree")
FILES = (
    File("/etc/bench.conf", f"node = {NODE}\nsite = bench\n"),
    File("/etc/cron.d/bench", "17 3 * * * root true\n"),
    File("/etc/default/munge", 'OPTIONS="--num-threads=2"\n'),
    File("/etc/lighttpd/conf-enabled/99-bench.conf", "server.max-connections = 64\n"),
    File(
        "/etc/memcached.conf", "-d\n-m 64\n-p 11211\n-u memcache\n-l 127.0.0.1\n-P /var/run/memcached/memcached.pid\n"
    ),
    File("/etc/motd", f"This is {NODE}.\n"),
    File("/etc/profile.d/bench.sh", "export OMP_NUM_THREADS=1\n"),
    File("/etc/rsyslog.d/50-bench.conf", "local6.* /var/log/bench.log\n"),
    File("/etc/security/limits.d/bench.conf", "* - memlock unlimited\n"),
    File("/etc/sysctl.d/90-bench-net.conf", "net.core.somaxconn = 4096\n"),
    File("/etc/sysctl.d/91-bench-vm.conf", "vm.swappiness = 10\n"),
    File("/etc/tmux.conf", "set -g history-limit 50000\n"),
)
SERVICES = (
    Service("cron", "/etc/cron.d/bench"),
    Service("lighttpd", "/etc/lighttpd/conf-enabled/99-bench.conf"),
    Service("memcached", "/etc/memcached.conf"),
    Service("munge", "/etc/default/munge"),
    Service("rsyslog", "/etc/rsyslog.d/50-bench.conf"),
)
USERS = {"bencha": 2101, "benchb": 2102, "benchc": 2103}


def role_yaml() -> str:
    """For hpcforge: one role. Written as JSON, which YAML contains."""
    return json.dumps(
        {
            "description": "The resources of the benchmark.",
            "on": "true",
            "packages": list(PACKAGES),
            "files": [
                {"path": file.path, "content": file.content.replace(NODE, "{{ node.name }}")}
                | ({"scope": "node"} if NODE in file.content else {})
                for file in FILES
            ],
            "accounts": [{"name": name, "uid": str(uid), "home": f"/home/{name}"} for name, uid in USERS.items()],
            "units": [{"name": f"{service.name}.service", "restart_on": [service.file]} for service in SERVICES],
        },
        indent=2,
    )


def playbook() -> str:
    """For ansible-playbook: no facts are gathered, since nothing here needs them."""
    files = [{"path": file.path, "content": file.content.replace(NODE, "{{ inventory_hostname }}")} for file in FILES]
    tasks = [
        {
            "name": "packages",
            "ansible.builtin.apt": {"name": list(PACKAGES), "install_recommends": False},
        },
        {
            "name": "users",
            "ansible.builtin.user": {"name": "{{ item.key }}", "uid": "{{ item.value }}", "shell": "/bin/bash"},
            "loop": [{"key": name, "value": uid} for name, uid in USERS.items()],
        },
        {
            "name": "files",
            "ansible.builtin.copy": {"dest": "{{ item.path }}", "content": "{{ item.content }}", "mode": "0644"},
            "loop": files,
            "loop_control": {"label": "{{ item.path }}"},
            "register": "written",
        },
        {
            "name": "services",
            "ansible.builtin.systemd_service": {
                "name": "{{ item.name }}",
                "enabled": True,
                "state": "{{ 'restarted' if item.file in changed else 'started' }}",
            },
            "vars": {"changed": "{{ written.results | selectattr('changed') | map(attribute='item.path') | list }}"},
            "loop": [{"name": service.name, "file": service.file} for service in SERVICES],
        },
    ]
    return json.dumps([{"hosts": "all", "gather_facts": False, "become": True, "tasks": tasks}], indent=2)


def pyinfra_deploy() -> str:
    """For the pyinfra CLI: one operation a resource, but all packages in one."""
    files = "\n".join(
        f"written[{file.path!r}] = files.put(src=StringIO({file.content!r}.replace({NODE!r}, host.data.node)), "
        f'dest={file.path!r}, mode="644", user="root", group="root")'
        for file in FILES
    )
    users = "\n".join(
        f'server.user(user={name!r}, uid={uid}, home="/home/{name}", shell="/bin/bash", create_home=True)'
        for name, uid in USERS.items()
    )
    services = "\n".join(
        f"systemd.service(service={service.name!r}, running=True, enabled=True)\n"
        f"systemd.service(service={service.name!r}, restarted=True, _if=written[{service.file!r}].did_change)"
        for service in SERVICES
    )
    return f"""from io import StringIO

from pyinfra import host
from pyinfra.operations import apt, files, server, systemd

written = {{}}
apt.packages(packages={list(PACKAGES)!r}, no_recommends=True)
{users}
{files}
{services}
"""


def floor_script() -> str:
    """The floor: the least that a shell script can do, the same for a first run and for one with nothing to do."""
    users = "\n".join(
        f"id -u {name} >/dev/null 2>&1 || useradd --uid {uid} --create-home --shell /bin/bash {name}"
        for name, uid in USERS.items()
    )
    files = "\n".join(f"put {file.path} <<END\n{file.content.replace(NODE, '$NODE')}END" for file in FILES)
    restarts = "\n".join(
        f'case "$changed" in *" {service.file} "*) systemctl restart {service.name};; esac' for service in SERVICES
    )
    names = " ".join(service.name for service in SERVICES)
    return f"""set -eu
NODE=$(hostname)
changed=' '
put() {{
  cat > "$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; changed="$changed$1 "; fi
}}
packages='{" ".join(PACKAGES)}'
there=$(dpkg-query -W -f '${{db:Status-Abbrev}}\n' $packages 2>/dev/null | grep -c ^ii) || true
[ "$there" = {len(PACKAGES)} ] ||
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >/dev/null
{users}
{files}
{restarts}
running=$(systemctl show -p ActiveState -p UnitFileState --value {names} | grep -cxE 'active|enabled') || true
[ "$running" = {2 * len(SERVICES)} ] || systemctl enable --now -q {names}
"""


def check_script() -> str:
    """Succeeds on a node that has all of it, whoever made it so; says what it lacks."""
    files = "\n".join(
        f'[ "$(cat {file.path})" = "$(printf %s {_quoted(file.content)} | sed "s/{NODE}/$(hostname)/")" ] '
        f'&& [ "$(stat -c %a:%U {file.path})" = 644:root ] || lack {file.path}'
        for file in FILES
    )
    users = "\n".join(
        f'[ "$(id -u {name}):$(id -g {name})" = {uid}:{uid} ] || lack {name}' for name, uid in USERS.items()
    )
    services = "\n".join(
        f"systemctl is-active -q {service.name} && systemctl is-enabled -q {service.name} || lack {service.name}"
        for service in SERVICES
    )
    packages = "\n".join(
        f"dpkg-query -W -f '${{db:Status-Abbrev}}' {name} | grep -q ^ii || lack {name}" for name in PACKAGES
    )
    lack = 'status=0\nlack() { echo "$(hostname) lacks $1"; status=1; }'
    return "\n".join((lack, packages, files, users, services, "exit $status\n"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def blueprint(nodes: int, cidr: str) -> str:
    """A cluster of `nodes` workers, the first of which is also the head."""
    network = cidr.rpartition(".")[0]
    addresses = f"{network}.[12-{10 + nodes}]"
    more = f'  n[02-{nodes:02}]: {{functions: [worker], hardware: rehearsal-node, addresses: "{addresses}"}}\n'
    return f"""schema: 1
name: bench
domain: bench.example.org
inventory: {{lab: nspawn}}
access: {{user: ops, become: sudo}}
nodes:
  n01: {{functions: [head, worker], hardware: rehearsal-node, addresses: {network}.11}}
{more if nodes > 1 else ""}{beside_nodes(cidr, "n01")}"""


def beside_nodes(cidr: str, head: str) -> str:
    """The rest of a blueprint, after its nodes."""
    return f"""networks:
  cluster: {{cidr: {cidr}}}
services:
  dns:  {{external: [192.0.2.2]}}
  time: {{external: [192.0.2.3]}}
software:
  os: {{name: debian, release: "12"}}
slurm:
  controller: {head}
  reserve: {{cores: 0, memory_gib: 1}}
  partitions:
    main: {{nodes: all, default: true}}
"""


def write(folder: Path) -> None:
    """Write what each tool is given into a folder."""
    (folder / "roles" / "bench").mkdir(parents=True)
    (folder / "roles" / "bench" / "role.yaml").write_text(role_yaml())
    (folder / "playbook.yaml").write_text(playbook())
    (folder / "deploy.py").write_text(pyinfra_deploy())
    (folder / "floor.sh").write_text(floor_script())
    (folder / "check.sh").write_text(check_script())
