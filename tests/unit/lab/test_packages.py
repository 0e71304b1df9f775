"""What the package proxy of a lab is told to allow."""

from __future__ import annotations

from hpcforge.lab import packages


def test_what_the_proxy_allows_is_written_whole() -> None:
    said = {
        "https://developer.download.nvidia.com": True,
        "https://mirror.example.org:8443": True,
        "https://[2001:db8::1]:8443": True,
        "http://mirror.example.org": True,
        "http://mirror.example.org:8080": True,
    }
    assert list(packages.allowed(said)) == [
        r"PassThroughPattern: "
        r"^(\[2001:db8::1\]:8443|developer\.download\.nvidia\.com:443|mirror\.example\.org:8443)$",
        "AllowUserPorts: 80 8080",
    ]
    assert list(packages.allowed({})) == []
