"""Package sources."""

from __future__ import annotations

import pytest

from hpcforge.kinds.sources import PackageSource


@pytest.mark.parametrize(
    "uri", ["https://ada:x@repo.example.org/debian", "https://ada@repo.example.org", "http://@a/b"]
)
def test_an_address_with_a_name_or_password_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"auth\.conf\.d"):
        PackageSource("site", ("https://repo.example.org", uri), ("bookworm",), "/key.gpg")


@pytest.mark.parametrize("uri", ["https://repo.example.org/a@b", "file:///srv/a@b"])
def test_a_path_may_have_the_character_of_a_name(uri: str) -> None:
    source = PackageSource("site", (uri,), ("bookworm", "updates"), "/key.gpg")
    assert source.line({"exists": False}) == f"+ package source site: {uri} bookworm updates"
