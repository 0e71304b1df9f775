from __future__ import annotations

import random

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from hpcforge.blueprint.hostlist import HostlistError, expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("head", ["head"]),
        ("w[01-03]", ["w01", "w02", "w03"]),
        ("n[1,3,5-6]", ["n1", "n3", "n5", "n6"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("r[1-2]n[1-2]-ib0", ["r1n1-ib0", "r1n2-ib0", "r2n1-ib0", "r2n2-ib0"]),
        ("r1[8-10]", ["r18", "r19", "r110"]),  # not r18 to r110
        ("n[1-2][3-4]", ["n13", "n14", "n23", "n24"]),
        ("z,b[2-3],a", ["z", "b2", "b3", "a"]),  # in the order written: addresses go with names
        ("10.1.0.20,10.1.0.[3-4]", ["10.1.0.20", "10.1.0.3", "10.1.0.4"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "a,", "a,,b", "a b", " a", "a\n", "a\nb", "@workers", "@*", "@a:b", "a@b", "w[", "w]", "w[]", "w[1",
        "w[1-]", "w[a-b]", "w[1-2/2]", "w[2-1]", "w[2,1]", "w[1-3,2]", "w[01-2]", "w[9,010]", "a!b", "a&b", "a^b",
        "!a", "n*", "n?", "$(id)", "`id`", "a;b", "a|b", "a>b", "w[1-2],w2", "Gpu1", "gpu١", "hеad", "w[1-16385]",
        "n[1-1000000000]", "n[1-999][1-999][1-999]", "n[1-99999999999999999999]", "a" * 10 + "%d", "a/b", "a\\b",
    ],
)  # fmt: skip
def test_expand_refuses(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


def test_fold_is_what_expand_undoes() -> None:
    assert fold(["head", "w03", "w01", "w02"]) == "head,w[01-03]"
    assert fold([]) == ""
    names = ["n1", "n2", "n10", "rack1-n1", "rack1-n2", "10.1.0.3", "10.1.0.4"]
    assert sorted(expand(fold(names))) == sorted(names)


def test_group_syntax_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.Popen.__init__", refuse)
    for text in ("@a", "@;id", "a,@b", "@@", "@a[1-2]", "n[1-2]@x"):
        with pytest.raises(HostlistError):
            expand(text)
    assert fold(["a1", "a2"]) == "a[1-2]"


def test_fold_is_what_clustershell_makes_of_the_names_one_by_one() -> None:
    dice = random.Random(1)
    kinds = (
        lambda: f"gpu{dice.randrange(1, 1100):0{dice.choice([3, 3, 3, 4])}}",
        lambda: f"n{dice.randrange(130)}",
        lambda: f"10.0.{dice.randrange(3)}.{dice.randrange(1, 120)}",
        lambda: f"r{dice.randrange(3)}n{dice.randrange(8, 12):02}",
        lambda: f"x{dice.randrange(5)}-y{dice.randrange(95, 105)}z",
        lambda: dice.choice(["head", "a1b", "000", "n00", "n0"]),
    )
    for _ in range(400):
        names = [dice.choice(kinds)() for _ in range(dice.randrange(60))]
        names = sorted(set(names)) if dice.random() < 0.6 else names
        assert fold(names) == str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
