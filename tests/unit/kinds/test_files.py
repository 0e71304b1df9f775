"""Files: the secrets in them, and who changed them."""

from __future__ import annotations

import pytest

from hpcforge.kinds.files import HIDDEN, File, drifted

DIGEST, OTHER, TEXT = "ab" * 32, "cd" * 32, "ef" * 32
PLAIN = File("/etc/x", "0644", "root", "root", DIGEST, None, False)
SECRET = File("/etc/key", "0400", "munge", "munge", DIGEST, "munge", False)
FILLED = File(
    "/etc/y", "0600", "root", "root", DIGEST, None, False, fills=((2, "one"), (4, "two"), (4, "one")), unfilled=TEXT
)


def test_secrets_take_their_places_in_a_text() -> None:
    values = {"one": "1", "two": "22"}
    assert FILLED.filled("a=b=c", values.__getitem__) == "a=1b=221c"
    assert FILLED.shown("a=b=c") == f"a={HIDDEN}b={HIDDEN}{HIDDEN}c"
    assert PLAIN.filled("a=b", values.__getitem__) == PLAIN.shown("a=b") == "a=b"


@pytest.mark.parametrize(
    ("file", "secrets", "text"), [(PLAIN, (), DIGEST), (SECRET, ("munge",), None), (FILLED, ("one", "two"), TEXT)]
)
def test_a_file_names_its_secrets_once_and_the_text_without_them(
    file: File, secrets: tuple[str, ...], text: str | None
) -> None:
    assert (file.holds, file.text) == (secrets, text)


@pytest.mark.parametrize(
    ("present", "written", "result"),
    [
        (OTHER, None, False),  # not hpcforge's so far
        (OTHER, OTHER, False),  # as hpcforge wrote it; the blueprint has changed
        (OTHER, DIGEST, True),
        (OTHER, TEXT, True),
        (None, DIGEST, True),
        (DIGEST, DIGEST, True),  # the content is right: others changed its rights
    ],
)
def test_a_file_that_is_not_as_hpcforge_wrote_it_has_drifted(
    present: str | None, written: str | None, result: bool
) -> None:
    assert drifted(DIGEST, {"exists": present is not None, "digest": present, "written": written}) is result


@pytest.mark.parametrize(
    ("exists", "digest", "same"), [(True, DIGEST, True), (True, OTHER, False), (False, DIGEST, False)]
)
def test_only_rights_differ_where_the_content_is_the_same(exists: bool, digest: str, same: bool) -> None:
    assert PLAIN.same_content({"exists": exists, "digest": digest}) is same
