"""Package sources on a real node: a source of ours, signed by a key that was made for the test."""

import base64
import subprocess
from pathlib import Path

import pytest

from tests.stories.node.kinds.conftest import Json, Life

_CONTROL = """\
Package: signed
Version: 1
Architecture: all
Maintainer: none <none@example.org>
Description: signed
"""
_BUILD = """
set -e
mkdir -p repo tree/DEBIAN; cp control tree/DEBIAN/control; dpkg-deb -b tree repo/signed_1_all.deb >/dev/null; cd repo
{ cat ../control; echo Filename: ./signed_1_all.deb; echo Size: $(stat -c %s signed_1_all.deb);
  echo SHA256: $(sha256sum < signed_1_all.deb | cut -d' ' -f1); } > Packages
printf 'Origin: signed\\nDate: %s\\nSHA256:\\n %s %s Packages\\n' "$(date -Ru | sed 's/+0000/UTC/')" \
  $(sha256sum < Packages | cut -d' ' -f1) $(stat -c %s Packages) > Release
gpg --batch --quiet --local-user one --clearsign -o InRelease Release
cd ..; tar -C repo -cf - . | base64 > repo.tar
"""


def keys(folder: Path) -> dict[str, str]:
    """Two public keys in armour; the source is signed by `one`."""
    (folder / "control").write_text(_CONTROL)
    (folder / "gpg").mkdir(mode=0o700)
    for name in ("one", "two"):
        make = ["--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "1d"]
        subprocess.run(["gpg", "--batch", "--quiet", *make], env=_env(folder), check=True)
    subprocess.run(["sh", "-c", _BUILD], cwd=folder, env=_env(folder), check=True)
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=_env(folder), check=True)  # which gpg leaves behind
    export = ["gpg", "--batch", "--armor", "--export"]
    return {
        name: subprocess.run([*export, name], env=_env(folder), check=True, capture_output=True, text=True).stdout
        for name in ("one", "two")
    }


def _env(folder: Path) -> dict[str, str]:
    return {"GNUPGHOME": str(folder / "gpg"), "PATH": "/usr/bin:/bin"}


def source(key: str) -> Json:
    return {
        "name": "signed",
        "uris": ["file:///srv/signed"],
        "suites": ["./"],
        "signed_by": key,
        "components": [],
        "architectures": [],
    }


@pytest.mark.lab
def test_packages_of_a_source_are_believed_by_its_own_key_alone(life: Life, tmp_path: Path) -> None:
    keys_by_name = keys(tmp_path)
    packed = (tmp_path / "repo.tar").read_text()
    assert base64.b64decode(packed)
    life.node.shell("sudo mkdir -p /srv/signed; base64 -d | sudo tar -C /srv/signed -xf -", stdin=packed)
    refused = life.refused(source(keys_by_name["two"]), packages=["signed"])
    assert "not signed" in refused or "NO_PUBKEY" in refused or "couldn't be verified" in refused, refused
    assert life.put(source(keys_by_name["one"]), packages=["signed"]) == {"signed": "installed"}
    assert "signed" in life.node.shell("apt-cache policy signed")
    written = life.node.shell("cat /etc/apt/sources.list.d/signed.sources")
    assert written.startswith("Types: deb\nURIs: file:///srv/signed\nSuites: ./\nSigned-By:\n -----BEGIN PGP PUBLIC")
    life.node.shell("echo '# by hand' | sudo tee -a /etc/apt/sources.list.d/signed.sources")
    assert life.found(source(keys_by_name["one"])) == [{"name": "signed", "exists": True, "put": True}]
    life.put(source(keys_by_name["one"]))
    life.remove()
    life.node.shell("! ls /etc/apt/sources.list.d/signed.sources; sudo dpkg --purge signed; sudo rm -r /srv/signed")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"name": "a source"}, "cannot be the name of a package source"),
        ({"signed_by": "0xDEADBEEF"}, "neither an absolute path nor a public key"),
        ({"suites": ["stable main"]}, "one word each"),
    ],
)
def test_what_apt_would_pass_over_is_refused(life: Life, more: Json, why: str) -> None:
    assert why in life.refused({**source("/usr/share/keyrings/x.gpg"), **more})
