"""Nodes that are waited for are named after 5 s, then every 30 s."""

from hpcforge.run.wait_messages import Waits


def test_who_is_waited_for_is_said_after_five_seconds_and_then_every_thirty() -> None:
    now_s, said = [100.0], list[tuple[float, str]]()
    waits = Waits(lambda text: said.append((now_s[0] - 100, text)), "head", clock=lambda: now_s[0])
    for second in range(41):
        now_s[0] = 100.0 + second
        waits(["w03", "head", "w02"] if second < 20 else ["w03"])
    assert said == [
        (5.0, "head,w[02-03]: no answer for 5 s, waiting; --exclude w[02-03] leaves out what does not answer"),
        (35.0, "w03: no answer for 35 s, waiting; --exclude w03 leaves out what does not answer"),
    ]


def test_no_hint_is_given_that_cannot_be_followed() -> None:
    """The head is asked in any case, and verbs such as `status` ask every node."""
    now_s, said = [0.0], list[str]()
    head = Waits(said.append, "head", clock=lambda: now_s[0])
    every = Waits(said.append, None, clock=lambda: now_s[0])
    now_s[0] = 6.0
    head(["head"])
    every(["w01"])
    assert said == ["head: no answer for 6 s, waiting", "w01: no answer for 6 s, waiting"]
