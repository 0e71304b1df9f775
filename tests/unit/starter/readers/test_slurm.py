"""Forms of slurm.conf and gres.conf that sites have: each word is taken, or named with its line.

The forms are written down here in our own words, each with the public file that has it. A form's `left` is complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcforge.cluster import load
from hpcforge.starter.draft import OF_MACHINES, Answers, draft, templates
from hpcforge.starter.machines import SiteFile, StarterError
from hpcforge.starter.readers import read, source_of
from hpcforge.starter.site_networks import network_of


@dataclass(frozen=True)
class Form:
    """A text, what of it is taken (`node.attribute`, `partition/attribute` or an attribute of the "
    "file), and the rest."""

    name: str
    source: str
    text: str
    taken: Mapping[str, object]
    left: tuple[str, ...] = ()  # LINE text, or FILE:LINE text
    beside: Mapping[str, str] = field(default_factory=dict)


CPU = "CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000"
FORMS = (
    Form(
        "names with a dot before their number",
        "the kind of names that xCAT and Rocks make, rack.number",
        f"NodeName=compute.0[1-3] NodeAddr=10.0.1.[1-3] {CPU}\nPartitionName=p Nodes=compute.0[2-3] Default=YES\n",
        {
            "machines": ["compute-01", "compute-02", "compute-03"],
            "compute-02.address": "10.0.1.2",
            "p/nodes": ("compute-02", "compute-03"),
        },
        ("1 NodeName=compute.01 NodeName=compute.02 NodeName=compute.03",),
    ),
    Form(
        "names that differ in what follows the first dot",
        "slurm.conf(5): a NodeName may have dots",
        f"NodeName=n1.rack-a,n1.rack-b,n2.rack-b {CPU}\nPartitionName=p Nodes=n1.rack-b,n2.rack-b\n",
        {"machines": ["n1-rack-a", "n1-rack-b", "n2"], "p/nodes": ("n1-rack-b", "n2")},
        ("1 NodeName=n1.rack-a NodeName=n1.rack-b", "1 NodeName=n2.rack-b"),
    ),
    Form(
        "names that differ in case, and names with _",
        "slurm.conf(5): names are compared as they are",
        f"NodeName=N1,n1,compute_01 {CPU}\nPartitionName=p Nodes=N1,compute_01\nPartitionName=q Nodes=n1\n",
        {"machines": ["n1", "compute-01"], "p/nodes": ("compute-01",), "q/nodes": ("n1",)},
        ("1 NodeName=N1", "1 NodeName=compute_01", "2 Nodes=N1"),
    ),
    Form(
        "NodeAddr is another host name",
        "slurm.conf(5): NodeAddr is a name that getaddrinfo resolves",
        f"NodeName=n[1-2] NodeAddr=n[1-2].priv {CPU}\nNodeName=m1.site.org NodeAddr=m1.site.org {CPU}\n",
        {"n1.address": None, "m1.address": None},
        ("1 NodeAddr=n1.priv NodeAddr=n2.priv",),
    ),
    Form(
        "GPUs of two types without a type in slurm.conf",
        "gres.conf(5)",
        f"NodeName=g2 Gres=gpu:2 {CPU}\n",
        {"g2.gpu": "v100", "g2.gpus": 1, "g2.guesses": ("number of GPUs",)},
        ("gres.conf:2 NodeName=g2 Name=gpu Type=p100 File=/dev/nvidia1",),
        {
            "gres.conf": "NodeName=g2 Name=gpu Type=v100 File=/dev/nvidia0\n"
            "NodeName=g2 Name=gpu Type=p100 File=/dev/nvidia1\n"
        },
    ),
    Form(
        "ControlMachine and ControlAddr",
        "ucmerced/elcapitan-ansible: etc/slurm/slurm.conf",
        f"ControlMachine=ctl\nControlAddr=10.8.0.2\nNodeName=c[1-2] {CPU} State=UNKNOWN\n",
        {"ctl.functions": ("head",), "ctl.address": "10.8.0.2", "c1.functions": ("worker",), "c2.guesses": ()},
    ),
    Form(
        "ControlAddr is a host name",
        "goetze11/radon_puppet: etc/slurm/slurm.conf",
        f"ControlMachine=radoni\nControlAddr=eradoni\nNodeName=n[2-3] NodeAddr=n[2-3] {CPU}\n",
        {"radoni.functions": ("head",), "radoni.address": None, "n2.address": None},
        ("2 ControlAddr=eradoni",),
    ),
    Form(
        "two keys on a line, and BackupController",
        "a sample slurm.conf of 2001 on GitHub",
        "ControlMachine=lx0   ControlAddr=10.0.0.1\nBackupController=lx1 BackupAddr=10.0.0.2\n"
        f"NodeName=lx[2-3] {CPU}\n",
        {"lx0.functions": ("head",), "lx0.address": "10.0.0.1", "machines": ["lx2", "lx3", "lx0"]},
        ("2 BackupController=lx1 BackupAddr=10.0.0.2",),
    ),
    Form(
        "the backup is a node, too",
        "vpenso/saltstack-slurm-example: etc/slurm/slurm.conf",
        f"ControlMachine=lx1\nBackupController=lx2\nNodeName=lx[1,2] {CPU}\n",
        {"lx1.functions": ("head", "worker"), "lx2.functions": ("worker",)},
        ("2 BackupController=lx2",),
    ),
    Form(
        "several SlurmctldHost, with domains",
        "rahuldhal50/slurm: slurm.conf",
        "SlurmctldHost=ctl-1.big.example.net\nSlurmctldHost=ctl-2.big.example.net\n"
        f"NodeName=p3-a.big.example.net {CPU}\n",
        {"machines": ["p3-a", "ctl-1"], "domain": "big.example.net", "ctl-1.functions": ("head",)},
        ("2 SlurmctldHost=ctl-2.big.example.net",),
    ),
    Form(
        "SlurmctldHost with its address, one each for controller and backup",
        "patli96/Slurm_Note: slurrm.conf_example.md",
        f"SlurmctldHost=dev0(12.34.56.78) # first\nSlurmctldHost=dev1(12.34.56.79)\nNodeName=dev[2-3] {CPU}\n",
        {"dev0.address": "12.34.56.78", "machines": ["dev2", "dev3", "dev0"]},
        ("2 SlurmctldHost=dev1(12.34.56.79)",),
    ),
    Form(
        "a node is the controller",
        "ladominguez/panda-cluster-tools: slurm.conf",
        f"ClusterName=panda\nSlurmctldHost=shu\nNodeName=xin {CPU}\nNodeName=shu {CPU}\nPartitionName=cpu Nodes=ALL "
        "Default=YES State=UP\nPartitionName=shu Nodes=shu Default=NO State=UP\n",
        {"shu.functions": ("head", "worker"), "cluster": "panda", "cpu/nodes": ("all",), "shu/nodes": ("shu",)},
    ),
    Form(
        "blanks around =, tabs, names in any case",
        "danielmc81/slurm_config_files: slurm.conf, gres.conf",
        "clustername = oco\t\nCONTROLMACHINE=master\nnodename=n[1-2] \tcpus=64 SocketsPerBoard = 8 corespersocket=8  "
        'ThreadsPerCore=1 Gres=gpu:a100:4 Features="gpu,big"\n'
        "PartitionName=general\t    Nodes=n[1-2] \t MaxTime=7-0:00:99"
        "  Shared=YES State=UP\n",
        {
            "cluster": "oco",
            "n1.sockets": 8,
            "n1.features": ("gpu", "big"),
            "n1.gpus": 4,
            "general/max_time": "7-00:02:00",
            "general/settings": {"Shared": "YES"},
        },
    ),
    Form(
        "several types of GPU on a node",
        "danielmc81/slurm_config_files: slurm.conf",
        f"NodeName=vis1 {CPU} Gres=gpu:gtx970:1,gpu:gtx1060:3\n",
        {"vis1.gpu": "gtx1060", "vis1.gpus": 3},
        ("1 Gres=gpu:gtx970:1",),
    ),
    Form(
        "GPUs without a type",
        "BioMedIA/salt-cluster: slurm.conf",
        "NodeName=vision01 RealMemory=210000 CPUs=40 Gres=gpu:8 State=UNKNOWN\n",
        {"vision01.gpus": 8, "vision01.gpu": None, "vision01.guesses": ("sockets", "cores", "threads")},
    ),
    Form(
        "MPS beside GPUs; one board",
        "predictive-analytics-lab/ubuntu-slurm: etc/slurm/slurm.conf",
        "NodeName=g1 Gres=gpu:nvidia_geforce_rtx_3090:8,mps:192 CPUs=24 Boards=1 SocketsPerBoard=1 CoresPerSocket=24 "
        "ThreadsPerCore=1 RealMemory=257626\n",
        {
            "g1.sockets": 1,
            "g1.cores_per_socket": 24,
            "g1.gpus": 8,
            "g1.gpu": "nvidia_geforce_rtx_3090",
            "g1.guesses": (),
        },
        ("1 Gres=mps:192",),
    ),
    Form(
        "shards; a virtual machine of many sockets",
        "a script on GitHub that writes SocketsPerBoard=60 (slurmd -C on a virtual machine)",
        "NodeName=bo2 CPUs=60 Boards=1 SocketsPerBoard=60 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=64000 "
        "Gres=gpu:2,shard:12 State=UNKNOWN\n",
        {"bo2.sockets": 1, "bo2.cores_per_socket": 60, "bo2.gpus": 2, "bo2.guesses": ("sockets", "cores")},
        ("1 Gres=shard:12",),
    ),
    Form(
        "MIG instances, with whole GPUs and alone",
        "slurm.schedmd.com/gres.html: MIG Management",
        f"NodeName=m1 {CPU} Gres=gpu:a100:2,gpu:a100_3g.20gb:4\nNodeName=m2 {CPU} Gres=gpu:1g.10gb:7\n",
        {"m1.gpu": "a100", "m1.gpus": 4, "m1.guesses": ("number of GPUs",), "m2.gpus": 1, "m2.gpu": None},
        ("1 Gres=gpu:a100_3g.20gb:4", "2 Gres=gpu:1g.10gb:7"),
    ),
    Form(
        "other resources, and no_consume",
        "slurm.schedmd.com/gres.html: Configuration",
        "GresTypes=gpu,mps,bandwidth\n"
        f"NodeName=tux[0-7] {CPU} Gres=gpu:tesla:2,mps:400,bandwidth:lustre:no_consume:4G\n",
        {"tux7.gpus": 2, "tux7.gpu": "tesla"},
        ("1 GresTypes=gpu,mps,bandwidth", "2 Gres=mps:400", "2 Gres=bandwidth:lustre:no_consume:4G"),
    ),
    Form(
        "CPUs alone; Procs",
        "LCahid/Slurm_config: slurm.conf",
        "NodeName=a NodeAddr=192.168.2.6 Procs=24 State=UNKNOWN\n",
        {"a.sockets": 1, "a.cores_per_socket": 24, "a.guesses": ("sockets", "cores", "threads"), "a.memory_gib": None},
    ),
    Form(
        "CPUs that are no product: each core counts once",
        "vpenso/saltstack-slurm-example: etc/slurm/slurm.conf",
        "NodeName=lxb00[5,6] Procs=20 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2 RealMemory=65536 State=UNKNOWN\n",
        {"lxb005.sockets": 2, "lxb006.threads_per_core": 2, "lxb006.memory_gib": 64},
        ("1 Procs=20",),
    ),
    Form(
        "sockets follow from CPUs",
        "SchedMD/slurm: src/common/read_config.c, _parse_nodename",
        "NodeName=a CPUs=64 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000\n"
        "NodeName=b Boards=2 SocketsPerBoard=2 "
        "CoresPerSocket=4 ThreadsPerCore=2 RealMemory=2000\n",
        {"a.sockets": 2, "a.guesses": (), "b.sockets": 4},
    ),
    Form(
        "both CPUs and Procs; memory that is kept",
        "rahuldhal50/slurm: slurm.conf",
        "NodeName=p3 CPUs=96 Sockets=2 CoresPerSocket=24 ThreadsPerCore=2 Procs=48 RealMemory=1469490 "
        "MemSpecLimit=32768\n",
        {"p3.cores_per_socket": 24, "p3.memory_gib": 1435},
        ("1 Procs=48", "1 MemSpecLimit=32768"),
    ),
    Form(
        "DEFAULT of nodes: adds up, and is for those after it",
        "patli96/Slurm_Note: slurrm.conf_example.md",
        "NodeName=early Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000\n"
        "NodeName=DEFAULT Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 TmpDisk=64000\n"
        "NodeName=DEFAULT State=UNKNOWN Weight=3\n"
        "NodeName=dev[0-3] NodeAddr=edev[0-3] Weight=16\n"
        "NodeName=DEFAULT CoresPerSocket=16\n"
        "NodeName=late\n"
        'DownNodes=dev2 State=DOWN Reason="power,ETA=Dec25"\n',
        {
            "early.weight": None,
            "dev3.weight": 16,
            "dev3.cores_per_socket": 8,
            "late.weight": 3,
            "late.cores_per_socket": 16,
            "late.memory_gib": 62,
        },
        (
            "2 TmpDisk=64000",
            "4 NodeAddr=edev0 NodeAddr=edev1 NodeAddr=edev2 NodeAddr=edev3",
            '7 DownNodes=dev2 State=DOWN Reason="power,ETA=Dec25"',
        ),
    ),
    Form(
        "DEFAULT of partitions: order, replaced values, Nodes",
        "a Puppet module's tests, and a guide with Nodes=ALL as default, on GitHub",
        f"NodeName=c[0-3] {CPU}\nPartitionName=first Nodes=c0\nPartitionName=DEFAULT Nodes=ALL MaxTime=30 State=UP "
        "PriorityTier=2\nPartitionName=DEFAULT MaxTime=INFINITE\nPartitionName=general Default=YES MaxNodes=1 "
        "MaxTime=48:00:00\nPartitionName=short Nodes=c[1,3] PriorityTier=5\n",
        {
            "first/settings": {},
            "first/max_time": "infinite",
            "general/nodes": ("all",),
            "general/default": True,
            "general/max_time": "2-00:00:00",
            "general/settings": {"PriorityTier": "2", "MaxNodes": "1"},
            "short/nodes": ("c1", "c3"),
            "short/settings": {"PriorityTier": "5"},
        },
        ("3 MaxTime=30",),
    ),
    Form(
        "partitions with QOS, accounts, weights of TRES, and a second default",
        "rahuldhal50/slurm, vpenso/saltstack-slurm-example: slurm.conf",
        f"NodeName=c[0-3] {CPU}\n"
        "PartitionName=short MaxTime=12:00:00 Nodes=ALL DefMemPerCPU=1490 QOS=p-short Default=YES\n"
        'PartitionName=std.q Nodes=c[0-1] MaxTime=1440 State=DRAIN TRESBillingWeights="cpu=1.0,mem=.25G"\n'
        "PartitionName=GPU-big Nodes=c2 Default=YES AllowAccounts=phys,chem GraceTime=60 Hidden=YES\n",
        {
            "short/settings": {"DefMemPerCPU": "1490"},
            "short/default": False,
            "std.q/max_time": "1-00:00:00",
            "GPU-big/default": True,
            "GPU-big/settings": {"GraceTime": "60", "Hidden": "YES"},
        },
        (
            "2 QOS=p-short",
            "2 Default=YES",
            "3 State=DRAIN",
            '3 TRESBillingWeights="cpu=1.0,mem=.25G"',
            "4 AllowAccounts=phys,chem",
        ),
    ),
    Form(
        "partitions of nodes that are not there; no nodes at all",
        "stanfordhpccenter/POWER9-HPC: etc/slurm/slurm.conf",
        f"NodeName=c1 {CPU}\nPartitionName=a Nodes=c1,c9 Default=YES\nPartitionName=b Nodes=power9-1 MaxTime=1\n"
        "PartitionName=c State=UP\n",
        {"a/nodes": ("c1",)},
        ("2 Nodes=c9", "3 PartitionName=b Nodes=power9-1 MaxTime=1", "4 PartitionName=c State=UP"),
    ),
    Form(
        "sets of nodes, by names and by feature, over several lines",
        "a program on GitHub that writes slurm.conf with NodeSet; slurm.conf(5): NODESET CONFIGURATION",
        f"NodeName=a[1-2] {CPU} Feature=ib\nNodeName=b1 {CPU}\nNodeSet=batch Nodes=\\\na1,\\\nb1\n"
        "NodeSet=fast Feature=ib\n"
        "NodeSet=both Feature=ib Nodes=b1\nNodeSet=spare Nodes=b1\nPartitionName=Default MaxTime=INFINITE State=UP\n"
        "PartitionName=batch Default=YES Nodes=\\\nbatch\nPartitionName=fast Nodes=fast,b1\n"
        "PartitionName=both Nodes=both\n",
        {
            "batch/nodes": ("a1", "b1"),
            "fast/nodes": ("a1", "a2", "b1"),
            "both/nodes": ("a1", "a2", "b1"),
            "a2.features": ("ib",),
        },
        ("8 NodeSet=spare Nodes=b1",),
    ),
    Form(
        "nodes of a cloud and of the future, nodes that are down",
        "AntonWiede/Jetstream_ClusterVC: slurm.conf; slurm.conf(5)",
        f"NodeName=compute-[0-1] State=CLOUD CPUs=2\nNodeName=f[1-2] State=FUTURE {CPU}\nNodeName=d1 {CPU} State=DOWN "
        'Reason="bad DIMM"\nSuspendTime=60\nResumeProgram=/usr/local/sbin/resume.sh\n'
        "PartitionName=cloud  Nodes=compute-[0-1] Default=YES MaxTime=INFINITE State=UP \n",
        {"machines": ["d1"]},
        (
            "1 NodeName=compute-[0-1] State=CLOUD CPUs=2",
            f"2 NodeName=f[1-2] State=FUTURE {CPU}",
            "3 State=DOWN",
            '3 Reason="bad DIMM"',
            "4 SuspendTime=60",
            "5 ResumeProgram=/usr/local/sbin/resume.sh",
            "6 PartitionName=cloud Nodes=compute-[0-1] Default=YES MaxTime=INFINITE State=UP",
        ),
    ),
    Form(
        "several slurmd of one host: NodeHostname and ports",
        "slaclab/slurm-docker: slurm.conf; SchedMD/slurm: testsuite test7.17",
        f"NodeName=c[6-8] NodeHostName=box NodeAddr=127.0.0.1 Port=27001-27003 {CPU}\n",
        {"c6.address": None, "machines": ["c6", "c7", "c8"]},
        ("1 NodeHostName=box", "1 NodeAddr=127.0.0.1", "1 Port=27001-27003"),
    ),
    Form(
        "addresses in ranges, and one twice",
        "HellmannM/spurm: slurm.conf",
        f"NodeName=vm[1-2] NodeAddr=10.0.0.[10-11] {CPU}\nNodeName=vm3 NodeAddr=10.0.0.11 {CPU}\n"
        f"NodeName=vm4 NodeAddr=192.0.2.1 {CPU}\n",
        {"vm2.address": "10.0.0.11", "vm3.address": None, "vm4.address": None},
        ("2 NodeAddr=10.0.0.11", "3 NodeAddr=192.0.2.1"),
    ),
    Form(
        "settings of the cluster: those that hpcforge writes, programs, and settings that Slurm gave up",
        "danielmc81/slurm_config_files, BioMedIA/salt-cluster, rahuldhal50/slurm: slurm.conf",
        f"NodeName=c1 {CPU}\nSchedulerType=sched/backfill\nFastSchedule=1\nPriorityWeightAge=100\n"
        "PriorityDecayHalfLife=14-0\n"
        "SelectTypeParameters=CR_CPU_Memory\nProlog=/etc/slurm/prolog.sh\nAccountingStorageHost=db\nTmpFS=/scratch\n"
        'KillWait=30\nkillwait=60\nRebootProgram="/bin/systemctl reboot"\nCacheGroups=0\nMaxArraySize=32000\n'
        "HealthCheckInterval=300\n",
        {
            "settings": {
                "SchedulerType": "sched/backfill",
                "PriorityWeightAge": "100",
                "PriorityDecayHalfLife": "14-0",
                "KillWait": "60",
                "MaxArraySize": "32000",
            }
        },
        (
            "3 FastSchedule=1",
            "6 SelectTypeParameters=CR_CPU_Memory",
            "7 Prolog=/etc/slurm/prolog.sh",
            "8 AccountingStorageHost=db",
            "9 TmpFS=/scratch",
            "10 KillWait=30",
            '12 RebootProgram="/bin/systemctl reboot"',
            "13 CacheGroups=0",
            "15 HealthCheckInterval=300",
        ),
    ),
    Form(
        "text that is no Key=Value, values that are none, names that are none",
        "ENCCS/Bestla, Jestzer/slurm-conf: slurm.conf",
        f"ControlMachine=localhost\nControlAddr=localhost\nControlAddr=\nNodeName=c1 {CPU} REPLACE_IT\n"
        f"NodeName=test_node[0-1],ok1 {CPU}\nNodeName=BIG {CPU} Color=red Weight=much\n",
        {"machines": ["c1", "test-node0", "test-node1", "ok1", "big"]},
        (
            "1 ControlMachine=localhost",
            "2 ControlAddr=localhost",
            "3 ControlAddr=",
            "4 REPLACE_IT",
            "5 NodeName=test_node0 NodeName=test_node1",
            "6 NodeName=BIG",
            "6 Color=red",
            "6 Weight=much",
        ),
    ),
    Form(
        "a node in two lines",
        "slurm.conf(5): duplicate node name records are ignored",
        f"NodeName=c[1-2] {CPU}\nNodeName=c2 {CPU}\nPartitionName=p Nodes=c1\nPartitionName=p Nodes=c2\n",
        {"machines": ["c1", "c2"], "p/nodes": ("c1",)},
        ("2 NodeName=c2 " + CPU, "4 PartitionName=p Nodes=c2"),
    ),
    Form(
        "comments, quotes, a backslash at a line's end, CRLF",
        "SchedMD/slurm: src/common/parse_config.c, _get_next_line",
        'NodeName=c1 \\  # comment\r\n  Sockets=2 CoresPerSocket=16 \\\r\n  ThreadsPerCore=1 RealMemory="64000"\r\n'
        'SchedulerParameters=bf_window=2880,bf_continue # and \\# more\r\nMailDomain="a b"\r\n#NodeName=c2 CPUs=4\r\n',
        {"c1.memory_gib": 62, "c1.guesses": (), "settings": {"SchedulerParameters": "bf_window=2880,bf_continue"}},
        ('5 MailDomain="a b"',),
    ),
    Form(
        "included files: beside it, in a folder, by a pattern, twice, absent",
        "a slurm.conf on GitHub: include nodes.conf, include partitions.conf; slurm.conf(5): INCLUDE MODIFIERS",
        "ClusterName=linux\ninclude nodes.conf\nInclude /etc/slurm/%c_parts.conf\nInclude nodes.conf\n"
        "Include more/*.conf\n"
        "INCLUDE absent.conf\n",
        {"machines": ["c1"], "p/nodes": ("all",), "p/default": True},
        (
            "4 Include nodes.conf",
            "5 Include more/*.conf",
            "6 INCLUDE absent.conf",
            "nodes.conf:2 TmpDisk=1",
            "linux_parts.conf:2 Include nodes.conf",
        ),
        {
            "nodes.conf": f"# nodes\nNodeName=c1 {CPU} TmpDisk=1\n",
            "linux_parts.conf": "PartitionName=p Nodes=ALL Default=YES\nInclude nodes.conf\n",
        },
    ),
    Form(
        "gres.conf gives the type; lines for nodes, cores near a GPU",
        "danielmc81/slurm_config_files, arlk/lambda-slurm: gres.conf",
        f"GresTypes=gpu\nNodeName=n[1-2] {CPU} Gres=gpu:4\nNodeName=v1 {CPU} Gres=gpu:2\nNodeName=w1 {CPU}\n",
        {"n2.gpu": "m2070q", "n2.gpus": 4, "v1.gpus": 1, "v1.gpu": "gtx970", "w1.gpus": 0},
        (
            "1 GresTypes=gpu",
            "gres.conf:3 NodeName=v1 Name=gpu Type=gtx1060 File=/dev/nvidia1",
            "gres.conf:4 NodeName=w1 Name=gpu File=/dev/nvidia0",
            "gres.conf:4 CPUs=0-15,32-47",
            "gres.conf:5 AutoDetect=nvml",
        ),
        {
            "gres.conf": "Nodename=n[1-2] \tName=gpu Type=m2070q\tFile=/dev/nvidia[0-3]\n"
            "NodeName=v1 Name=gpu Type=gtx970 File=/dev/nvidia0\nNodeName=v1 Name=gpu Type=gtx1060 File=/dev/nvidia1\n"
            "NodeName=w1 Name=gpu File=/dev/nvidia0 CPUs=0-15,32-47\nAutoDetect=nvml\n"
        },
    ),
    Form(
        "gres.conf for all nodes, of several lines, with MPS, shards and MIG",
        "yyuzhongpv/GPU-Cluster-Configuration: gres.conf; slurm.schedmd.com/gres.html",
        f"NodeName=n[1-2] {CPU} Gres=gpu:tesla:3\n",
        {"n1.gpu": "tesla", "n1.gpus": 3},
        (
            "gres.conf:1 Cores=0-9",
            "gres.conf:2 CPUs=10-19",
            "gres.conf:3 Name=gpu Type=kepler File=/dev/nvidia3",
            "gres.conf:4 Name=mps Count=200 File=/dev/nvidia0",
            "gres.conf:5 Name=shard Count=32",
            "gres.conf:6 Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia4",
        ),
        {
            "gres.conf": "Name=gpu Type=tesla File=/dev/nvidia[0-1] Cores=0-9\nName=gpu File=/dev/nvidia2 CPUs=10-19\n"
            "Name=gpu Type=kepler File=/dev/nvidia3\nName=mps Count=200 File=/dev/nvidia0\nName=shard Count=32\n"
            "Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia4\n"
        },
    ),
    Form(
        "gres.conf has fewer GPUs than slurm.conf",
        "gres.conf(5): Count",
        f"NodeName=n1 {CPU} Gres=gpu:a100:8\n",
        {"n1.gpus": 8},
        ("gres.conf:1 Count=4",),
        {"gres.conf": "Name=gpu Count=4\n"},
    ),
    Form(
        "slurmd -C of several machines",
        "a guide on GitHub to add a worker: output of slurmd -C",
        "NodeName=a CPUs=24 Boards=1 SocketsPerBoard=1 CoresPerSocket=12 ThreadsPerCore=2 RealMemory=64202\n"
        "UpTime=0-03:45:12\n"
        "NodeName=b CPUs=24 Boards=1 SocketsPerBoard=1 CoresPerSocket=12 ThreadsPerCore=2 RealMemory=64202 "
        "Gres=gpu:nvidia_a100:2\nFound gpu:nvidia_a100:2 with Autodetect=nvml\nUpTime=1-00:00:00\n",
        {"a.cores_per_socket": 12, "a.guesses": (), "b.gpus": 2},
        ("2 UpTime", "4 Found gpu:nvidia_a100:2 with", "4 Autodetect=nvml"),
    ),
    Form(
        "scontrol show nodes",
        "doc.eresearch.unige.ch: hpc/slurm; docs of hpc2n and larcc",
        "NodeName=cpu001 Arch=x86_64 CoresPerSocket=18 \n   CPUAlloc=0 CPUEfctv=34 CPUTot=36 CPULoad=0.01\n"
        "   AvailableFeatures=GOLD-6240,V9\n   ActiveFeatures=GOLD-6240,V9\n   Gres=gpu:a100:4(S:0-1)\n"
        "   NodeAddr=10.0.0.7 NodeHostName=cpu001 Version=23.02.1\n   OS=Linux 4.18.0 #1 SMP Tue May 16 2023\n"
        "   RealMemory=187000 AllocMem=0 FreeMem=185338 Sockets=2 Boards=1\n   CoreSpecCount=2 CPUSpecList=17,35\n"
        "   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=10 Owner=N/A MCS_label=N/A\n   Partitions=debug,gpu \n\n"
        "NodeName=cpu002 CoresPerSocket=18 \n   CPUAlloc=0 CPUTot=36 CPULoad=N/A\n   Gres=(null)\n"
        "   NodeAddr=cpu002 NodeHostName=cpu002 \n   RealMemory=187000 Sockets=2 Boards=1\n"
        "   State=IDLE+DRAIN ThreadsPerCore=1\n   Partitions=gpu \n   Reason=bad fan [root@2025-01-01T00:00:00]\n",
        {
            "cpu001.gpus": 4,
            "cpu001.features": ("GOLD-6240", "V9"),
            "cpu001.weight": 10,
            "cpu001.address": "10.0.0.7",
            "cpu002.sockets": 2,
            "debug/nodes": ("cpu001",),
            "gpu/nodes": ("cpu001", "cpu002"),
            "gpu/max_time": None,
            "debug/default": True,
        },
        (
            "1 Arch CPUAlloc CPUEfctv CPULoad ActiveFeatures Version OS AllocMem FreeMem",
            "5 Gres=gpu:a100:4(S:0-1)",
            "9 CoreSpecCount=2 CPUSpecList=17,35",
            "10 TmpDisk=0",
            "18 State=IDLE+DRAIN",
            "20 Reason=bad fan [root@2025-01-01T00:00:00]",
        ),
    ),
    Form(
        "scontrol show nodes, partitions and config in one file",
        "a test on GitHub with scontrol's output; SchedMD/slurm: scontrol(1)",
        "NodeName=d1 Arch=x86_64 CoresPerSocket=16\n   CPUAlloc=0 CPUTot=32\n"
        "   RealMemory=64000 Sockets=2 ThreadsPerCore=1\n"
        "PartitionName=q\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   AllocNodes=ALL Default=YES QoS=N/A\n"
        "   DefaultTime=NONE DisableRootJobs=NO GraceTime=0 Hidden=NO\n   MaxNodes=4 MaxTime=1-00:00:00 MinNodes=0\n"
        "   Nodes=d1\n   PriorityJobFactor=1 PriorityTier=3 OverSubscribe=NO\n   State=UP TotalCPUs=32 TotalNodes=1\n"
        "Configuration data as of 2026-01-01T00:00:00\nClusterName             = dgx\n"
        "SlurmctldHost[0]        = head(10.0.0.1)\n"
        "KillWait                = 30 sec\nTreeWidth               = 50\n",
        {
            "cluster": "dgx",
            "head.address": "10.0.0.1",
            "q/default": True,
            "q/settings": {"MaxNodes": "4", "PriorityTier": "3"},
            "q/max_time": "1-00:00:00",
        },
        (
            "1 Arch CPUAlloc",
            "11 TotalCPUs=32",
            "12 Configuration data as of 2026-01-01T00:00:00",
            "15 KillWait TreeWidth",
        ),
    ),
)


def read_form(form: Form) -> SiteFile:
    return read(form.text, None, form.beside.get)


def validated(site: SiteFile, folder: Path) -> None:
    """Write and load the blueprint of what a file says."""
    answers = Answers(
        site.cluster or "first", site.domain or "first.internal", "ops", network_of(site.machines)[0], 0, ""
    )
    texts = draft(templates()[OF_MACHINES], answers, "first.inventory.yaml", site)
    (folder / "first.yaml").write_text(texts[0])
    (folder / "first.inventory.yaml").write_text(texts[1])
    cluster = load(folder / "first.yaml").cluster
    known = {machine.name: machine for machine in site.machines}
    assert {node.name for node in cluster.nodes} == known.keys()
    assert {node.name: node.features for node in cluster.nodes} == {name: known[name].features for name in known}
    assert {node.name: node.weight for node in cluster.nodes} == {name: known[name].weight for name in known}
    if site.partitions:
        written = {each.name: (each.default, dict(each.settings)) for each in cluster.slurm.partitions}
        assert written == {each.name: (each.default, dict(each.settings)) for each in site.partitions}
    assert dict(cluster.slurm.settings) == dict(site.settings)


def reached(site: SiteFile, path: str) -> object:
    if path == "machines":
        return [machine.name for machine in site.machines]
    if "/" in path:
        name, _, attribute = path.partition("/")
        return getattr(next(each for each in site.partitions if each.name == name), attribute)
    name, _, attribute = path.partition(".")
    return (
        getattr(next(each for each in site.machines if each.name == name), attribute)
        if attribute
        else getattr(site, name)
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name.replace(" ", "-"))
def test_a_form_is_taken_or_named_with_its_line(form: Form, tmp_path: Path) -> None:
    assert source_of(form.text) == "slurm"
    site = read_form(form)
    assert {path: reached(site, path) for path in form.taken} == form.taken
    left = [f"{each.file + ':' if each.file else ''}{each.line} {each.text}" for each in site.left_out]
    assert sorted(left) == sorted(form.left)
    assert all(each.reason for each in site.left_out)
    validated(site, tmp_path)


NODES = ("a[1-3]", "a2", "b1", "B9.one.example.org", "c[1-2].two.example.net", "bad_name", "DEFAULT")
VALUES: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # of each kind of record; the first is always there
    "nodename": {
        "NodeName": NODES,
        "NodeAddr": ("10.1.0.[1-3]", "10.1.0.7", "192.0.2.9", "b1", "127.0.0.1"),
        "NodeHostname": ("a2", "b1", "host"),
        "CPUs": ("1", "24", "64", "many"),
        "Procs": ("8", "48"),
        "Boards": ("1", "2"),
        "SocketsPerBoard": ("1", "2", "60"),
        "Sockets": ("1", "2", "4"),
        "CoresPerSocket": ("1", "12", "32", "400"),
        "ThreadsPerCore": ("1", "2"),
        "RealMemory": ("500", "64000", "128000", "64G"),
        "Gres": ("gpu:8", "gpu:a100:4(S:0-1)", "gpu:a100:2,gpu:v100:3,mps:200", "gpu:1g.10gb:7", "nvme:1", "gpu:99"),
        "Features": ("ib,10g", '"big,x,x"', "a@b"),
        "Weight": ("1", "50", "-1"),
        "State": ("UNKNOWN", "DOWN", "CLOUD", "FUTURE", "IDLE+DRAIN"),
        "TmpDisk": ("1", "2"),
        "Colour": ("red", "blue"),
    },
    "partitionname": {
        "PartitionName": ("gpu", "std.q", "Long", "a+b", "DEFAULT", "all", "worker", "a1"),
        "Nodes": ("ALL", "a[1-3]", "b1,c1", "some", "z9", "a1,z9"),
        "Default": ("YES", "NO"),
        "MaxTime": ("30", "7-0", "INFINITE", "soon"),
        "State": ("UP", "DOWN"),
        "PriorityTier": ("1", "9"),
        "OverSubscribe": ("FORCE:4", "EXCLUSIVE"),
        "AllowAccounts": ("phys", "chem"),
        "QOS": ("p", "q"),
        "Shape": ("round", "flat"),
    },
    "nodeset": {"NodeSet": ("some", "spare"), "Nodes": ("a1", "a[1-2],b1"), "Feature": ("ib", "x")},
    "name": {
        "Name": ("gpu", "mps", "shard"),
        "NodeName": ("a[1-3]", "b1"),
        "Type": ("a100", "v100", "1g.5gb"),
        "File": ("/dev/nvidia[0-3]", "/dev/nvidia0"),
        "Count": ("1", "4"),
        "Cores": ("0-9", "10-19"),
        "AutoDetect": ("nvml", "off"),
    },
    "": {
        "ClusterName": ("one", "Two", "x!"),
        "SlurmctldHost": ("head(10.1.0.9)", "a1", "localhost", "head(192.0.2.1)", "Ctl.one.example.org"),
        "ControlMachine": ("ctl", "b1"),
        "ControlAddr": ("10.1.0.10", "ctl-ib"),
        "BackupController": ("c1", "other"),
        "TreeWidth": ("50", "60"),
        "SchedulerParameters": ("bf_window=10", "two words"),
        "Prolog": ("/etc/a", "/etc/b"),
        "FastSchedule": ("0", "1"),
        "NoSuchKey": ("1", "2"),
        "DownNodes": ("a1", "b1"),
    },
}
Line = tuple[tuple[str, str], ...]
PROPERTIES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """A line of slurm.conf or gres.conf."""
    values = VALUES[draw(st.sampled_from(("nodename", "nodename", "partitionname", "nodeset", "name", "")))]
    first, *others = values
    chosen = draw(st.lists(st.sampled_from(others), unique=True, max_size=7))
    return tuple((key, draw(st.sampled_from(values[key]))) for key in (first, *chosen))


def text_of(written: list[Line]) -> str:
    return "".join(" ".join(f"{key}={value}" for key, value in line) + "\n" for line in written)


def outcome(written: list[Line]) -> SiteFile | str:
    try:
        return read("NodeName=z1 CPUs=2 RealMemory=2048\n" + text_of(written), "slurm")
    except StarterError as error:
        return str(error)


def values_of(line: Line, key: str) -> tuple[str, ...]:
    return next(values[key] for values in VALUES.values() if line[0][0] in values and key in values)


@PROPERTIES
@given(st.lists(lines(), min_size=1, max_size=7))
def test_each_word_has_an_effect_or_is_named(written: list[Line]) -> None:
    """A word that is not named in `left_out` is one whose value counts: with another value, the result differs."""
    result = outcome(written)
    if isinstance(result, str):
        return
    named = {(each.line, text) for each in result.left_out for text in (each.text, *each.text.split())}
    for row, line in enumerate(written):
        for column, (key, value) in enumerate(line):
            if (row + 2, f"{key}={value}") in named or '"' in value or " " in value:
                continue
            others = [other for other in values_of(line, key) if other != value]
            changed = (
                [*written[:row], (*line[:column], (key, other), *line[column + 1 :]), *written[row + 1 :]]
                for other in others
            )
            assert any(outcome(other) != result for other in changed), f"line {row + 2}: {key}={value}"


@PROPERTIES
@given(st.lists(lines(), min_size=1, max_size=9))
def test_what_is_written_validates(tmp_path_factory: pytest.TempPathFactory, written: list[Line]) -> None:
    site = outcome(written)
    if isinstance(site, SiteFile):
        validated(site, tmp_path_factory.mktemp("site"))


@PROPERTIES
@given(st.text(alphabet='aN=#"\\\n \t\r[]-,%', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Every token that is not in a comment is in `left_out`, taken, or the file is refused."""
    try:
        site = read(f"NodeName=z1 CPUs=2\n{text}", "slurm")
    except StarterError:
        return
    plain = re.sub(r"\\.", "", text, flags=re.DOTALL)
    tokens = {token for line in plain.split("\n") for token in line.split("#")[0].split() if "=" not in token}
    if "\\" not in text and '"' not in text and "=" not in text:
        assert tokens <= {token for each in site.left_out for token in each.text.split()}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "NodeName=localhost CPUs=1\nPartitionName=p Nodes=ALL\n",
            "line 1: NodeName=localhost CPUs=1: .* reserved name",
        ),
        ("ClusterName=c\nSlurmctldHost=head\nNodeName=c[1-9] State=CLOUD CPUs=2\n", "line 3: .* a node of a cloud"),
        ("SlurmctldHost=head\nInclude nodes.conf\n", "line 2: Include nodes.conf: give that file, too"),
        (
            "Configuration data as of 2026-01-01T00:00:00\nKillWait                = 30 sec\n",
            "this file has no machine",
        ),
        ("Name=gpu Type=a100 File=/dev/nvidia0\n", "this file has no machine"),
        ("NodeName=a[1-9][1-9999] CPUs=1\n", "more than 10000 machines"),
        (f"NodeName=a[{'1-999999999,' * 50}1] CPUs=1\n", "more than 10000 machines"),
        ("NodeName=a1 CPUs=1\nPartitionName=p Nodes=a[1-9999999]\n", "more than 10000 machines"),
    ],
)
def test_a_file_without_machines_says_why(text: str, reason: str) -> None:
    with pytest.raises(StarterError, match=reason):
        read(text, "slurm")
