from __future__ import annotations

import random
import time
from itertools import product

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from tests.support.long_hostlists import LONG


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
        ("n[1-2][1-2]", ["n11", "n12", "n21", "n22"]),  # side by side, and before digits: ClusterShell takes neither
        ("[1-2]18446744073709551615", ["118446744073709551615", "218446744073709551615"]),
        ("n[08-11]x,n[0-1]", ["n08x", "n09x", "n10x", "n11x", "n0", "n1"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "a,", "a,,b", "a b", " a", "a\n", "a\nb", "@workers", "@*", "@a:b", "a@b", "w[", "w]", "w[]", "w[1",
        "w[1-]", "w[a-b]", "w[1-2/2]", "w[2-1]", "w[2,1]", "w[1-3,2]", "w[01-2]", "w[9,010]", "a!b", "a&b", "a^b",
        "!a", "n*", "n?", "$(id)", "`id`", "a;b", "a|b", "a>b", "w[1-2],w2", "Gpu1", "gpu١", "hеad", "w[1-131073]",
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
        names = [dice.choice(kinds)() for _ in range(dice.randrange(1, 60))]
        names = sorted(set(names)) if dice.random() < 0.6 else names
        text = str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
        try:
            expand(text)
        except HostlistError:  # numbers of several widths: see the next test
            assert sorted(expand(fold(names))) == sorted(set(names))
        else:
            assert fold(names) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["c1", "c01", "c10"], "c1,c[01,10]"),
        (["c01", "c1", "c02", "c2"], "c[1-2],c[01-02]"),
        (["c08", "c09", "c10", "c100"], "c[08-10],c100"),
        (["a1-1", "a1-01", "head"], "a1-1,a1-01,head"),
        (["r1n1", "r1n01", "r2n1", "r2n01"], "r[1-2]n1,r[1-2]n01"),
        (["n1234567890123456789", "n1234567890123456790"], None),  # more digits than a range may have
        ([f"a{rack}b{node:0{width}}c1" for rack in range(60) for node in range(4) for width in (1, 2)], None),
    ],
)
def test_names_whose_numbers_differ_in_width_fold_to_what_expand_takes(names: list[str], text: str | None) -> None:
    assert sorted(expand(fold(names))) == sorted(names)
    assert text in (None, fold(names))


@pytest.mark.parametrize("text", LONG, ids=lambda text: f"{text[:12]} of {len(text)}")
def test_what_takes_no_time_although_it_is_long(text: str) -> None:
    start = time.process_time()
    with pytest.raises(HostlistError):
        expand(text)
    assert time.process_time() - start < 1


def test_irregular_names_are_folded_in_no_time() -> None:
    """ClusterShell takes 10 s for the first and second, and minutes for the third."""
    dice = random.Random(2)
    for names in (
        [f"r{dice.randrange(100)}n{dice.randrange(100)}c{dice.randrange(100)}" for _ in range(2_000)],
        ["a" + "b".join(str(dice.randrange(10)) for _ in range(20)) for _ in range(2_000)],
        [f"r{dice.randrange(40):02}n{dice.randrange(40)}c{dice.randrange(100)}-ib" for _ in range(16_000)],
    ):
        once = sorted(set(names))
        start = time.process_time()
        text = fold(once)
        assert time.process_time() - start < 5  # at most 1 s of one core
        assert sorted(expand(text)) == once
    assert fold(f"r{rack:03}n{node:02}" for rack, node in product(range(1, 300), range(1, 33))) == "r[001-299]n[01-32]"
