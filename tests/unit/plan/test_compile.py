import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster, Service, SiteRole
from hpcforge.kinds.accounts import Account
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import DesiredRole, Listen, RoleNeed
from hpcforge.plan.roles.role import RoleError, load_roles, site_role_code

SECRETS = {"munge_key": "ab" * 32}


def test_resources_are_rendered_per_node(cluster: Cluster, roles_folder: Path) -> None:
    desired = compile_desired(cluster, load_roles(roles_folder), SECRETS)
    assert desired.roles == ("server", "client")
    (server,) = desired.nodes["head"]
    assert desired.texts[server.of(File)[0].digest or ""] == (
        "host head 10.0.0.1\nhost w1 10.0.0.2\nhost w2 10.0.0.3\nall w[1-2]\n"
    )
    assert server.checks[0].command == ("server-ping", "10.0.0.1")
    assert server.units[0].watches == ("/etc/server.conf",)
    (client,) = desired.nodes["w2"]
    assert client.packages == ("clientd",)
    assert [file.path for file in client.of(File)] == ["/etc/client-w2.conf", "/etc/client.key"]
    assert client.of(File)[1].digest == SECRETS["munge_key"]
    assert client.of(Account)[0].uid == 2001
    assert client.needs == (RoleNeed("server", ("head",)),)
    assert client.opaque is not None
    assert client.opaque.inputs == {"gpus": {"model": "fake", "count": 2, "mig": [], "vendor": "nvidia", "shards": []}}


def test_same_text_is_stored_once(cluster: Cluster, roles_folder: Path) -> None:
    desired = compile_desired(cluster, load_roles(roles_folder), SECRETS)
    digests = {wanted.of(File)[0].digest for name in ("w1", "w2") for wanted in desired.nodes[name]}
    assert len(digests) == 1
    assert len(desired.texts) == 2


def test_what_does_not_speak_of_the_node_is_one_object_for_all(cluster: Cluster, roles_folder: Path) -> None:
    nodes = compile_desired(cluster, load_roles(roles_folder), SECRETS).nodes
    (first,), (second,) = nodes["w1"], nodes["w2"]
    assert first.of(Account)[0] is second.of(Account)[0]
    assert first.of(File)[1] is second.of(File)[1]  # the key
    assert (first.of(File)[0].path, second.of(File)[0].path) == ("/etc/client-w1.conf", "/etc/client-w2.conf")
    assert first.needs[0].nodes is second.needs[0].nodes


def test_nodes_that_are_alike_in_what_a_role_speaks_of_have_one_object(cluster: Cluster, roles_folder: Path) -> None:
    path = roles_folder / "client/role.yaml"
    spoken = '"{{ node.rack }}\\n{{node.cpus}} {% if node.gpus %}{{ node.gpus.count }}{% endif %}"'
    text = path.read_text().replace("-{{ node.name }}", "").replace("[server@cluster]", "[server, server@cluster]")
    path.write_text(text.replace('"server {{ cluster.services.dns.host }}\\n"', f"{spoken}, scope: node"))
    head, first, second = (dataclasses.replace(node, rack="g1") for node in cluster.nodes)
    others = [
        dataclasses.replace(second, name="w3", rack="g2"),
        dataclasses.replace(second, name="w4", cores_per_socket=4),
        dataclasses.replace(second, name="w5", gpus=None),
        dataclasses.replace(
            second, name="w6", functions=("worker", "head")
        ),  # a server on the same node: one more need
    ]
    large = dataclasses.replace(cluster, nodes=(head, first, second, *others))
    desired = compile_desired(large, load_roles(roles_folder), SECRETS)
    wanted = {name: roles[-1] for name, roles in desired.nodes.items() if name != "head"}
    texts = {name: desired.texts[one.of(File)[0].digest or ""] for name, one in wanted.items()}
    assert wanted["w1"] is wanted["w2"]
    assert texts == {
        "w1": "g1\n2 2",
        "w2": "g1\n2 2",
        "w3": "g2\n2 2",
        "w4": "g1\n4 2",
        "w5": "g1\n2 ",
        "w6": "g1\n2 2",
    }
    everywhere = RoleNeed("server", ("head", "w6"))
    assert (wanted["w2"].needs, wanted["w6"].needs) == ((everywhere,), (RoleNeed("server"), everywhere))


def test_a_unit_that_watches_all_files_watches_those_of_its_node(cluster: Cluster, roles_folder: Path) -> None:
    path = roles_folder / "client/role.yaml"
    path.write_text(path.read_text().replace(", restart_on: [/etc/client.key]", ""))
    nodes = compile_desired(cluster, load_roles(roles_folder), SECRETS).nodes
    assert [nodes[name][0].units[0].watches[0] for name in ("w1", "w2")] == [
        "/etc/client-w1.conf",
        "/etc/client-w2.conf",
    ]


def test_opaque_digest_follows_code_and_inputs(cluster: Cluster, roles_folder: Path) -> None:
    def digest(of: Cluster) -> str:
        opaque = compile_desired(of, load_roles(roles_folder), SECRETS).nodes["w1"][0].opaque
        assert opaque is not None
        return opaque.digest

    first = digest(cluster)
    assert digest(cluster) == first
    fewer = dataclasses.replace(cluster, nodes=(cluster.nodes[0], dataclasses.replace(cluster.nodes[1], gpus=None)))
    assert digest(fewer) != first
    (roles_folder / "client/deploy.py").write_text("# something else\n")
    assert digest(cluster) != first


def test_a_value_that_looks_like_a_template_stays_text(cluster: Cluster, roles_folder: Path) -> None:
    services = {**cluster.services, "dns": Service(("{{ cluster.name }}",))}
    hostile = dataclasses.replace(cluster, services=services)
    desired = compile_desired(hostile, load_roles(roles_folder), SECRETS)
    (client,) = desired.nodes["w1"]
    assert desired.texts[client.of(File)[0].digest or ""] == "server {{ cluster.name }}\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("node.address", "node.adress", "has no attribute 'adress'"),
        ("packages: [serverd]", "package: [serverd]", "unknown key `package`"),
        ("\non: ", "\nneeds: [nobody]\non: ", "no such role"),
        ("\non: ", "\nneeds: [client]\non: ", "needs itself"),
        ("- /etc/server.conf", "- {path: /etc/server.conf, source: gone.j2}", "cannot read"),
        ("- /etc/server.conf", "- {path: /etc/server.conf, source: gone.j2, content: x}", "at most one"),
        ("- /etc/server.conf", "- /etc/other.conf", "is in neither of files/etc/other.conf and "),
        ("- /etc/server.conf", '- "/etc/{{ node.name }}.conf"', "set `source"),
        ("- /etc/server.conf", '- {path: /x, content: "{{ node.rack }}"}', "set `scope: node`"),
        ("- /etc/server.conf", '- {path: /x, for_each: node.functions, content: "{{ item }}"}', "set `scope: node`"),
        ("- /etc/server.conf", '- {path: /x, content: "{{ cluster.name }"}', "template: unexpected '}'"),
        (
            "- /etc/server.conf",
            "- {path: /x, when: cluster.name ==, content: x}",
            "expression: unexpected 'end",
        ),
        (
            "{name: server.service}",
            "{name: server.service, reload_on: [{path: /x, lines: '('}]}",
            "not a regular expression",
        ),
        (
            "\non: ",
            "\nsources: [{name: own, uris: ['https://ada:of-ada@mirror.example.org/debian'], suites: [stable],"
            " signed_by: /usr/share/keyrings/own.gpg}]\non: ",
            "a name or a password in an address would be readable by every user of the node",
        ),
        ("\non: ", "\nauto_rollback: true\ndisrupts: {files: reboot}\non: ", "cannot request a reboot"),
    ],
)
def test_a_wrong_role_is_named(cluster: Cluster, roles_folder: Path, old: str, new: str, said: str) -> None:
    path = roles_folder / "server/role.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(RoleError, match=r"(server|client)/role\.yaml") as caught:
        compile_desired(cluster, load_roles(roles_folder), SECRETS)
    assert said in caught.value.shown()


def test_a_cluster_file_must_not_look_at_the_node(roles_folder: Path) -> None:
    text = "{% if cluster.name == 'other' %}\n{{ node.name }}\n{% endif %}\n"  # wherever it stands: nothing is rendered
    (roles_folder / "server/files/etc/server.conf.j2").write_text(text)
    with pytest.raises(RoleError, match="uses `node`, but must be the same on all nodes"):
        load_roles(roles_folder)


def test_a_file_is_rendered_where_its_name_says_so(cluster: Cluster, roles_folder: Path) -> None:
    template, literal = (roles_folder / "server/files/etc" / name for name in ("server.conf.j2", "server.conf"))
    template.rename(literal)
    desired = compile_desired(cluster, load_roles(roles_folder), SECRETS)
    assert desired.texts[desired.nodes["head"][0].of(File)[0].digest or ""] == literal.read_text()
    template.write_text("")
    with pytest.raises(RoleError, match=r"is in both files/etc/server\.conf and "):
        load_roles(roles_folder)


@pytest.mark.parametrize("word", ["include 'x'", "import 'x' as x", "from 'x' import y", "extends 'x'"])
def test_a_text_is_one_file(roles_folder: Path, word: str) -> None:
    path = roles_folder / "server/files/etc/server.conf.j2"
    path.write_text(f"# one\n{{% {word} %}}\n")
    with pytest.raises(RoleError, match=r"server\.conf\.j2: templates cannot include or import other files"):
        load_roles(roles_folder)


def test_of_two_files_with_one_path_each_has_its_own_text(cluster: Cluster, roles_folder: Path) -> None:
    path = roles_folder / "client/role.yaml"
    two = "".join(
        f'  - {{path: /x, content: "{name} {{{{ cluster.name }}}}", when: "node.name == \'{name}\'"}}\n'
        for name in ("w1", "w2")
    )
    path.write_text(path.read_text().replace("files:\n", f"files:\n{two}"))
    desired = compile_desired(cluster, load_roles(roles_folder), SECRETS)
    assert [desired.texts[desired.nodes[name][0].of(File)[0].digest or ""] for name in ("w1", "w2")] == [
        "w1 small",
        "w2 small",
    ]


def test_a_role_says_what_goes_with_it_and_what_stays(cluster: Cluster, roles_folder: Path) -> None:
    spec = roles_folder / "client" / "role.yaml"
    removes = 'delete_on_removal: [/opt/client, {path: "/opt/{{ node.name }}", when: "node.name == \'w2\'"}]\n'
    leaves = 'keep_on_removal: [{path: "/var/{{ cluster.name }}", why: its state}]\n'
    spec.write_text(spec.read_text() + removes + leaves)
    nodes = compile_desired(cluster, load_roles(roles_folder), SECRETS).nodes
    assert [tree.path for tree in nodes["w1"][0].trees] == ["/opt/client"]
    assert [tree.path for tree in nodes["w2"][0].trees] == ["/opt/client", "/opt/w2"]
    assert [(leaf.path, leaf.why) for leaf in nodes["w1"][0].leaves] == [("/var/small", "its state")]


def test_a_sites_ansible_role_says_it_beside_its_tasks(cluster: Cluster, roles_folder: Path) -> None:
    folder = roles_folder.parent / "ntp"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks/main.yml").write_text("[]\n")
    with_role = dataclasses.replace(cluster, site_roles=(SiteRole("ntp", folder, ("w1",)),))

    def wanted() -> DesiredRole:
        code = {"ntp": site_role_code(folder)}
        return compile_desired(with_role, load_roles(roles_folder), SECRETS, code).nodes["w1"][-1]

    assert (wanted().role, wanted().trees, wanted().leaves) == ("site_ntp", (), ())
    (folder / "role.yaml").write_text(
        "delete_on_removal: [/opt/ntp]\nkeep_on_removal: [{path: /etc/ntp.conf, why: the site's own}]\n"
    )
    assert [tree.path for tree in wanted().trees] == ["/opt/ntp"]
    assert [leaf.why for leaf in wanted().leaves] == ["the site's own"]
    (folder / "role.yaml").write_text("delete_on_removal: [/opt/ntp]\npackages: [ntp]\n")
    with pytest.raises(RoleError, match="unknown key `packages`"):
        wanted()


def test_programs_and_ports_of_a_role_are_those_of_its_node(cluster: Cluster, roles_folder: Path) -> None:
    path = roles_folder / "client/role.yaml"
    listens = 'listens: ["6818", {port: "53", protocol: udp, address: "{{ node.address }}"}]\nprograms: [clientctl]\n'
    path.write_text(path.read_text() + listens)
    (client,) = compile_desired(cluster, load_roles(roles_folder), SECRETS).nodes["w2"]
    assert client.programs == ("clientctl",)
    assert client.listens == (Listen(6818, "tcp", ""), Listen(53, "udp", "10.0.0.3"))
    path.write_text(path.read_text().replace('"6818"', '"http"'))
    with pytest.raises(RoleError, match="http: 'http' is not a port"):
        compile_desired(cluster, load_roles(roles_folder), SECRETS)
