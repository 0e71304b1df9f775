"""What is sent of a file that holds secrets, and what is kept of an answer about one."""

from __future__ import annotations

import base64
import hashlib

from hpcforge.kinds.files import File
from hpcforge.secrets.secret_files import Contents

TEXT = 'host a\npassword=\ntwo  and \nlicence = ""\n'
FILLS = ((16, "password"), (21, "password"), (26, "licence"), (38, "licence"))
SECRETS = {"plan_key": b"k" * 32, "password": b"hunter22", "licence": b"rosebud"}
FILLED = 'host a\npassword=hunter22\ntwo hunter22 and rosebud\nlicence = "rosebud"\n'
UNFILLED = "0" * 64
FILE = File("/f", "0640", "root", "root", "d" * 64, None, False, (), FILLS, UNFILLED)
CONTENTS = Contents({UNFILLED: TEXT}, SECRETS)
SHA = hashlib.sha256(FILLED.encode()).hexdigest()


def _said(text: str | None, digest: str, written: str | None = SHA) -> dict[str, object]:
    return {"path": "/f", "exists": True, "text": text, "digest": digest, "written": written}


def test_a_node_is_sent_the_filled_text_and_its_own_digest() -> None:
    assert (FILE.shown(TEXT), CONTENTS.content(FILE)) == (
        'host a\npassword=(secret)\ntwo (secret) and (secret)\nlicence = "(secret)"\n',
        FILLED.encode(),
    )
    put = CONTENTS.put(FILE, {"exists": False})
    assert put == {"digest": SHA, "content_base64": base64.b64encode(FILLED.encode()).decode()}
    assert CONTENTS.put(FILE, {"exists": True, "digest": FILE.digest}) == {"digest": SHA, "content_base64": None}
    assert Contents({UNFILLED: TEXT}, {}).sent(FILE) == {}
    assert "hunter22" not in repr(CONTENTS)


def test_digests_that_come_in_are_changed_for_ones_that_nobody_can_guess_by() -> None:
    same = CONTENTS.heard(FILE, _said(FILLED, SHA))
    assert (same["digest"], same["written"], same["secrets"]) == (FILE.digest, FILE.digest, [])
    assert FILE.same_content(same)
    other = "1" * 64
    edited = CONTENTS.heard(FILE, _said(FILLED, other, written=other))
    assert edited["digest"] == edited["written"] not in (other, FILE.digest)
    assert not FILE.drifted(edited)
    assert FILE.drifted(CONTENTS.heard(FILE, _said(FILLED, other)))
    assert CONTENTS.heard(FILE, _said(None, other, written=None))["written"] is None


def test_of_an_old_text_only_what_the_wanted_one_says_is_kept() -> None:
    old = FILLED.replace("password=hunter22", "password=former").replace("two hunter22", "two former")
    heard = CONTENTS.heard(FILE, _said(old + "mine: former\n", "1" * 64))
    assert heard["secrets"] == ["password"] or heard["secrets"] == ["password", "licence"]
    assert "former" not in repr(heard)
    assert "rosebud" not in repr(heard)
    assert heard["text"] == FILE.shown(TEXT) + "(not shown)\n"
    moved = CONTENTS.heard(FILE, _said("pass former\nhost a\nrosebud\n", "1" * 64))
    assert moved["text"] == "(not shown)\nhost a\n(not shown)\n"


def test_a_whole_secret_has_no_text_and_a_plain_file_shows_no_value_that_there_is() -> None:
    whole = File("/k", "0400", "root", "root", "d" * 64, "licence", False)
    assert CONTENTS.heard(whole, _said("rosebud", SHA))["text"] is None
    plain = File("/p", "0644", "root", "root", "e" * 64, None, False)
    heard = CONTENTS.heard(plain, _said("one\nlicence rosebud\n", "1" * 64))
    assert heard["text"] == "one\n(not shown)\n"
    untouched = _said("one\ntwo\n", "1" * 64)
    assert CONTENTS.heard(plain, untouched) is untouched
    assert CONTENTS.heard(None, untouched) is untouched
