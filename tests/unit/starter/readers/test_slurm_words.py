"""Words of slurm.conf: hostlists, lines that continue, files that are included, the ledger of what is left."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import StarterError
from hpcforge.starter.readers.slurm_words import (
    DEFAULTS,
    MOST_FILES,
    MOST_MENTIONS,
    MOST_PARTS,
    STATE,
    Fields,
    Ledger,
    is_shown,
    is_slurm,
    names_of,
    split,
    statements,
)


def pairs(text: str) -> list[list[tuple[int, str, str]]]:
    return [
        [(word.line, word.key, word.value) for word in statement.words.values()]
        for statement in statements(text, None, Ledger())
    ]


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("n1", ["n1"]),
        ("lxb00[1,2]", ["lxb001", "lxb002"]),
        ("n[08-10,7],login", ["n08", "n09", "n10", "n7", "login"]),
        ("n[01-100]", [f"n{number:02}" for number in range(1, 101)]),  # as Slurm reads it: two digits or more
        ("r[1-2]n[1-2].x.org", ["r1n1.x.org", "r1n2.x.org", "r2n1.x.org", "r2n2.x.org"]),
        ("n[1-2],n2", ["n1", "n2"]),
        ("n[2-1]", []),
        ("n[a-c]", ["n[a-c]"]),
        ("/dev/nvidia[0-3]", [f"/dev/nvidia{number}" for number in range(4)]),
    ],
)
def test_hostlists_are_read_as_slurm_reads_them(hostlist: str, names: list[str]) -> None:
    assert names_of(hostlist) == names


def test_too_many_names_are_refused_at_once() -> None:
    for text in (
        "n[1-999999999]",
        "n[1-9999]" * 200_000,
        "n[1-9999]," * 200_000,
        ",".join(f"n{number}" for number in range(10_001)),
    ):
        with pytest.raises(StarterError, match="more than 10000 machines"):
            names_of(text)


def test_mentions_of_nodes_have_a_limit() -> None:
    ledger = Ledger(mentions=MOST_MENTIONS - 1)
    assert ledger.names("n1") == ["n1"]
    with pytest.raises(StarterError, match="mentions of machines"):
        ledger.names("n1")
    [statement] = statements("NodeName=n1", None, ledger)
    with pytest.raises(StarterError, match="are left out of lines"):
        for number in range(MOST_PARTS + 1):
            ledger.leave_part(statement.words["nodename"], str(number), "no place")


def test_commas_in_brackets_separate_nothing() -> None:
    assert split("gpu:a100:4(S:0,1),n[1,2],x") == ["gpu:a100:4(S:0,1)", "n[1,2]", "x"]


def test_a_word_has_the_line_where_it_stands() -> None:
    text = 'NodeName=a \\\n  CPUs = 2 \\ # two\n  Feature="x y"\n#NodeName=c\nNodeName=b\\\n1 CPUs=4\n'
    assert pairs(text) == [
        [(1, "NodeName", "a"), (2, "CPUs", "2"), (3, "Feature", "x y")],
        [(5, "NodeName", "b1"), (6, "CPUs", "4")],
    ]


def test_what_scontrol_prints_has_records_of_several_lines() -> None:
    text = "NodeName=a Arch=x86_64 \n   CPUTot=2 OS=Linux 5.1 #1 SMP\n   Gres=(null)\n\nNodeName=b CPUTot=4\n"
    assert is_shown(text)
    assert pairs(text) == [
        [(1, "NodeName", "a"), (1, "Arch", "x86_64"), (2, "CPUTot", "2"), (2, "OS", "Linux 5.1 #1 SMP")],
        [(5, "NodeName", "b"), (5, "CPUTot", "4")],
    ]


@pytest.mark.parametrize(
    ("line", "yes"),
    [
        ("NodeName = gpu01", True),
        ("SlurmUser=slurm", True),
        ("include nodes.conf", True),
        ("Name=gpu File=/dev/nvidia0", True),
        ("AutoDetect=nvml", True),
        ("Configuration data as of 2026-01-01", True),
        ("web ansible_host=10.0.0.1", False),
        ("[slurm]", False),
        ("10.0.0.1 slurm", False),
    ],
)
def test_a_line_of_slurm_is_known(line: str, yes: bool) -> None:
    assert is_slurm(line) is yes


def test_each_word_stays_until_it_is_taken() -> None:
    ledger = Ledger()
    [statement] = statements("NodeName=a CPUs=2 Weight=x TmpDisk=1 junk Weight=7", None, ledger)
    fields = Fields(statement.words, {}, ledger)
    assert (fields.whole("cpus", 99), fields.whole("weight", 5), fields.get("absent")) == (2, None, None)
    ledger.leave_part(statement.words["nodename"], "b", "of two")
    assert [(each.text, each.reason) for each in ledger.left_out(lambda word: "no place")] == [
        ("NodeName=a TmpDisk=1", "no place"),
        ("Weight=x", "the same key is set again, and Slurm takes the last"),
        ("junk", "it is not Key=Value"),
        ("Weight=7", "it is not a whole number up to 5"),
    ]
    ledger.take(statement.words["nodename"])
    first, second, *_ = ledger.left_out(lambda word: "no place")
    assert (first.text, first.reason, second.text) == ("NodeName=b", "of two", "Weight=x")


def test_what_all_records_have_is_named_once() -> None:
    ledger = Ledger()
    statements("NodeName=a CPUAlloc=1 Version=2\n\nNodeName=b CPUAlloc=3\n", None, ledger)
    [first] = ledger.left_out(lambda word: STATE)
    assert (first.line, first.text) == (1, "NodeName CPUAlloc Version")
    assert ledger.left_out(lambda word: DEFAULTS)[0].text == first.text


def test_files_that_include_each_other_end() -> None:
    ledger = Ledger()
    statements("# main\nInclude a.conf\n", {"a.conf": "Include b.conf\n", "b.conf": "Include a.conf\n"}.get, ledger)
    [left] = ledger.left_out(lambda word: "no place")
    assert (left.file, left.line, left.reason) == ("b.conf", 1, "this file is read already")

    def endless(name: str) -> str | None:
        return f"Include {int(name.removesuffix('.conf')) + 1}.conf\n"

    ledger = Ledger()
    statements("Include 0.conf\n", endless, ledger)
    [left] = ledger.left_out(lambda word: "no place")
    assert left.text == f"Include {MOST_FILES}.conf"
    assert "files include each other" in left.reason


def test_long_lines_take_no_long_time() -> None:
    """Each of these would take minutes with a pattern that reads its text again and again."""
    for text in (
        "a" * 300_000,
        " " * 300_000,
        "x=" * 150_000,
        '="' * 150_000,
        "\\" * 300_000,
        "a " * 30_000,
        "\n" * 300_000,
    ):
        assert pairs(f"NodeName=z1 {text}\n")[0][0] == (1, "NodeName", "z1")
        assert pairs(f"NodeName=z1 CPUTot=2 {text}\n")[0][0] == (1, "NodeName", "z1")
    assert len(pairs("NodeName=z1 \\\n" + "a=1 \\\n" * 20_000)) == 1


def test_values_that_are_secrets_are_not_shown() -> None:
    ledger = Ledger()
    text = (
        'AccountingStoragePass=S3cret\nJobCompPass="S3cret x" JobCompUser=u\nAuthInfo=socket=/run/x,token=S3cret\n'
        "DefaultStoragePass=a S3cret\nDefaultStoragePass S3cret\nNodeName=c1 Feature=passive,key\n"
    )
    statements(text, None, ledger)
    left = ledger.left_out(lambda _: "a reason")
    assert not [each for each in left if "S3cret" in each.text]
    assert "AccountingStoragePass=..." in left[0].text
    assert "JobCompUser=u" in left[1].text
    assert left[-1].text == "NodeName=c1 Feature=passive,key"


def test_a_file_that_includes_itself_is_read_once() -> None:
    text = "Include ./slurm.conf\nSlurmctldHost=a\n"
    ledger = Ledger()
    assert len(statements(text, {"slurm.conf": text}.get, ledger)) == 1
    assert [reason for reason in ledger.unread.values() if reason] == ["this file is read already"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("conf.d/nodes.conf", "conf.d/nodes.conf"),
        ("./conf.d//./nodes.conf", "conf.d/nodes.conf"),
        ("/etc/slurm/conf.d/nodes.conf", "conf.d/nodes.conf"),
        ("/opt/slurm/etc/pcluster/nodes.conf", "pcluster/nodes.conf"),
        ("../nodes.conf", "nodes.conf"),
        ("conf.d/nodes.conf", "nodes.conf"),  # the files lie in one folder
    ],
)
def test_a_file_in_a_folder_is_included(name: str, path: str) -> None:
    ledger = Ledger()
    [statement] = statements(f"Include {name}\n", {path: "NodeName=c1\n"}.get, ledger)
    assert (statement.words["nodename"].value, statement.words["nodename"].file) == ("c1", path)
