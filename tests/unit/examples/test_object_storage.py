"""What asks an object server and mounts its buckets: how a key is proved, whose it is, and what a refusal is called."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.util
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Service
from hpcforge.secrets.host_certificates import current_step, new_authority, with_derived

PROGRAM = Path(__file__).parents[3] / "examples" / "object_storage" / "roles" / "object_storage" / "mount_s3.py"
FORBIDDEN = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<Error><Code>{}</Code>{}</Error>"
FULL = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult/>"


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("mount_s3", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.KEYS = str(tmp_path / "keys")
    module.AUTHORITY = str(tmp_path / "ca.pem")
    (tmp_path / "keys").write_text("nodes:secret\n")
    return module


@contextlib.contextmanager
def server(folder: Path, answer: str) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says this to one request, over TLS: its address, and what it was asked."""
    cluster = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    nodes = tuple(dataclasses.replace(node, address="127.0.0.1") for node in cluster.nodes if node.name == "head")
    cluster = dataclasses.replace(cluster, nodes=nodes, services={"any": Service(on=("head",), certified=True)})
    derived = with_derived({"ssh_host_ca": new_authority()}, cluster, current_step())
    (folder / "server.pem").write_bytes(derived["tls_certificate:head"] + derived["tls_key:head"])
    (folder / "ca.pem").write_bytes(derived["tls_authority"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    listening, asked = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        with listening:
            plain, _ = listening.accept()
        with plain, contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as tls:
            asked.append(tls.recv(65536))
            tls.sendall(answer.encode())

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield f"127.0.0.1:{listening.getsockname()[1]}", asked
    serving.join(30)
    assert not serving.is_alive()


def test_a_request_is_signed_as_amazon_s_example_is(program: ModuleType) -> None:
    """docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, GET Bucket (List Objects)."""
    key = program.Key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    now = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)
    headers = program.signed("examplebucket.s3.amazonaws.com", "/", "max-keys=2&prefix=J", key, "us-east-1", now)
    assert headers["Authorization"].endswith(
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )


@pytest.mark.parametrize(
    ("text", "name", "secret"),
    [
        ("nodes:secret\n", "nodes", "secret"),
        ("# of the nodes\n\nsets:lab:nodes:a/b+c=\nother:x:y\n", "lab:nodes", "a/b+c="),
        ("all:one\nsets:own:two\n", "own", "two"),
        ("all:one\nother:own:two\n", "all", "one"),
    ],
)
def test_a_bucket_has_its_own_key_or_the_one_for_all(
    program: ModuleType, tmp_path: Path, text: str, name: str, secret: str
) -> None:
    (tmp_path / "keys").write_text(text)
    assert program.key_of("sets", program.KEYS) == (name, secret)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other:x:the-secret\n", "there is not a valid key for sets, and none for all buckets"),
        ("the-secret\n", "line 1 is not ID:KEY or BUCKET:ID:KEY"),
        ("id: the-secret\n", "line 1 is not ID:KEY"),
        ("\xff:the-secret\n", "it is no text"),
    ],
)
def test_keys_that_are_none_are_named_without_what_they_say(
    program: ModuleType, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "keys").write_text(text, encoding="latin-1")
    with pytest.raises(program.RefusedError, match=words) as refused:
        program.key_of("sets", program.KEYS)
    assert "the-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            FORBIDDEN.format("SignatureDoesNotMatch", ""),
            "403 SignatureDoesNotMatch: the key is wrong: hpcforge secrets",
        ),
        (FORBIDDEN.format("InvalidAccessKeyId", ""), "403 InvalidAccessKeyId: it does not know whose the key is"),
        (FORBIDDEN.format("NoSuchBucket", ""), "403 NoSuchBucket: there is no such bucket"),
        (FORBIDDEN.format("Malformed", "<Region>eu-1</Region>"), r"its region is eu-1: options: \[endpoint=...\]"),
        (FORBIDDEN.format("Novel", ""), "403 Novel$"),
        (FORBIDDEN.format("\x1b[31m", ""), "403$"),
        ("SSH-2.0-OpenSSH\r\n", "SSH-2.0-OpenSSH"),
    ],
)
def test_a_refusal_says_what_to_do(program: ModuleType, tmp_path: Path, answer: str, words: str) -> None:
    with server(tmp_path, answer) as (address, _), pytest.raises(program.RefusedError, match=words) as refused:
        program.main([f"https://{address}/sets", "/sets", "-f"])
    assert "secret" not in str(refused.value).replace("hpcforge secrets", "")


def test_what_is_asked_for_is_one_object_of_the_folder(program: ModuleType, tmp_path: Path) -> None:
    with server(tmp_path, FULL) as (address, asked):
        program.main([f"https://{address}/sets/image/net", "/sets", "-f", "-o", "ro,endpoint=eu-1"])
    assert asked[0].startswith(b"GET /sets?max-keys=1&prefix=image%2Fnet HTTP/1.1\r\n")
    assert b"/eu-1/s3/aws4_request," in asked[0]
    assert b"secret" not in asked[0]


def test_a_certificate_of_another_s_is_refused(program: ModuleType, tmp_path: Path) -> None:
    with server(tmp_path, FULL) as (address, asked):
        (tmp_path / "ca.pem").unlink()
        with pytest.raises(program.RefusedError, match="its certificate is refused: unable to get local issuer"):
            program.main([f"https://{address}/sets", "/sets", "-f"])
    assert asked == []


@pytest.mark.parametrize("says_nothing", [False, True])
def test_a_server_that_is_away_is_named_in_seconds(program: ModuleType, says_nothing: bool) -> None:
    program.ASK_S, begun = 0.5, time.monotonic()
    listening = socket.create_server(("127.0.0.1", 0))
    if not says_nothing:
        listening.close()
    address = f"127.0.0.1:{listening.getsockname()[1]}" if says_nothing else "127.0.0.1:1"
    with pytest.raises(program.RefusedError, match="no answer within 0.5 s" if says_nothing else "refused"):
        program.main([f"https://{address}/sets", "/sets", "-f"])
    assert time.monotonic() - begun < 10
    listening.close()


@pytest.mark.parametrize("url", ["http://s/sets", "https://s", "https:///sets", "sets"])
def test_an_address_is_https_and_names_a_bucket(program: ModuleType, url: str) -> None:
    with pytest.raises(program.RefusedError, match="is no https://SERVER/BUCKET"):
        program.bucket_of(url)


@pytest.fixture
def programs(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Programs of these names instead of the node's: s3fs writes down how it was called."""
    real = subprocess.run

    def called(argv: list[str], **options: object) -> object:
        options["env"] = {**os.environ, **(options.get("env") or {}), "PATH": str(tmp_path)}  # type: ignore[dict-item]
        return real([str(tmp_path / argv[0]), *argv[1:]], **options)  # type: ignore[call-overload]

    def made(mountpoint: str) -> None:
        writes = f"open({str(tmp_path / 'called')!r}, 'w').write"
        said = f"import os, sys; {writes}(str([sys.argv[1:], os.environ['CURL_CA_BUNDLE']]))"
        for name, text in {"s3fs": said, "mountpoint": mountpoint}.items():
            (tmp_path / name).write_text(f"#!{sys.executable}\n{text}\n")
            (tmp_path / name).chmod(0o755)

    monkeypatch.setattr(program.subprocess, "run", called)
    return made


def test_s3fs_mounts_with_the_options_and_no_key(
    program: ModuleType, tmp_path: Path, programs: Callable[[str], None]
) -> None:
    programs("")
    program.mount(program.Bucket("s:8443", "sets", "image/net"), "/sets", "ro,nosuid")
    ours = f"ro,nosuid,url=https://s:8443,passwd_file={tmp_path}/keys"
    wanted = [["sets:/image/net", "/sets", "-o", ours], "/etc/ssl/certs/ca-certificates.crt"]
    assert (tmp_path / "called").read_text() == str(wanted)


@pytest.mark.parametrize("mountpoint", ["raise SystemExit(1)", "import time; time.sleep(60)"])
def test_a_mount_that_s3fs_gives_up_has_failed(
    program: ModuleType, programs: Callable[[str], None], mountpoint: str
) -> None:
    program.MOUNT_S = 1.0
    programs(mountpoint)
    with pytest.raises(program.RefusedError, match="s3fs has not mounted /sets: journalctl -t s3fs"):
        program.mount(program.Bucket("s", "sets", ""), "/sets", "ro")


def test_as_a_program_it_fails_as_mount_does(tmp_path: Path) -> None:
    argv = [sys.executable, "-IS", str(PROGRAM), "http://s/sets", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (32, "mount.hpcforge_s3: http://s/sets is no https://SERVER/BUCKET\n")
