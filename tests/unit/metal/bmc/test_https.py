"""Answers of controllers that lie, hang or are other ones: bounded, and no password for a wrong certificate."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Login, https
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import Wish
from tests.support.fake_bmc import PASSWORD, SYSTEM, USER, FakeBmc, Reply, serving
from tests.support.tls_server import certificate
from tests.unit.metal.bmc.test_redfish import SHORT, bmc, done


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("answers-too-much", "more than 1048576 bytes"),
        ("answers-nonsense", "the answer is not JSON"),
        ("answers-too-deep", "not JSON"),
        ("breaks-off", "closed the connection without a whole answer"),
        ("trickles", "no whole answer within 0.5 s"),
        ("sends-elsewhere", "outside its own service"),
    ],
)
def test_liars_fail_alone_and_in_time(tmp_path: Path, does: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "EXCHANGE_S", 0.5)
    with bmc(tmp_path, FakeBmc(does=(does,))) as machine, pytest.raises(BmcError, match=why):
        done(machine, Wish("on"))


def test_the_password_goes_to_no_other_certificate(tmp_path: Path) -> None:
    fake = FakeBmc()
    for pinned, why in (("0" * 64, "another certificate"), (None, "not recorded")):
        with bmc(tmp_path, fake, pinned=pinned) as machine, pytest.raises(BmcError, match=why) as raised:
            done(machine, Wish("status"))
        assert raised.value.reason == "certificate"
    assert fake.asked == []


def test_any_certificate_will_do_where_the_site_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc()]) as at:
        access = Login(at.addresses[0], USER, PASSWORD, at.port, None, verified=False)
        assert Redfish(access, SHORT).power() == "off"
        assert https.certificate(access) == at.certificate
    assert PASSWORD not in repr(access)
    with pytest.raises(BmcError, match="no connection") as raised:
        Redfish(access, SHORT).power()
    assert raised.value.reason == "unreachable"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(raw=b"\n<!DOCTYPE html><title>Log in</title>"), r"a web page \(HTML\), not JSON"),
        (Reply(raw=b'{"PowerState": "O', length=400), "cut off after 17 of 400 bytes"),
        (Reply(raw=b'{"PowerState": "O'), "cut off after 17 bytes"),
        (Reply(raw=b'{"PowerState": '), "cut off after 15 bytes"),
        (Reply(raw=b"{}", length=50 << 20), "an answer of 52428800 bytes: more than 1048576 bytes are not read"),
        (Reply(raw=b" " * 65536, length=-1), "an answer without an end: more than 1048576 bytes"),
        (Reply(raw=b"FFFF\r\n{}", headers={"Transfer-Encoding": "chunked"}, length=-2), "cut off in its middle"),
    ],
)
def test_each_wrong_answer_has_its_own_sentence(tmp_path: Path, reply: Reply, why: str) -> None:
    with bmc(tmp_path, FakeBmc(replies={SYSTEM: reply})) as machine, pytest.raises(BmcError, match=why) as raised:
        machine.power()
    assert raised.value.reason == "answer"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
def test_old_tls_and_none_have_their_own_sentences(tmp_path: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.load_cert_chain(*certificate(tmp_path))
    for context, why in ((old, "it has no TLS 1.2 or later"), (None, "the answer is not TLS")):
        with one_answer(context) as port, pytest.raises(BmcError, match=why) as raised:
            https.exchange(Login("127.0.0.1", USER, PASSWORD, port, None, verified=False), "GET", "/redfish/v1/")
        assert raised.value.reason == "service"


@contextmanager
def one_answer(context: ssl.SSLContext | None) -> Iterator[int]:
    """Answer a connection: with a handshake of this kind, or with plain HTTP."""

    def answer() -> None:
        connection, _ = listener.accept()
        connection.settimeout(10)
        with connection, suppress(OSError):
            if context is None:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            else:
                context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_answers_are_read_though_compressed_or_latin(tmp_path: Path) -> None:
    system = json.dumps({**FakeBmc(on=True).system(), "Model": "Größe"}, ensure_ascii=False)
    for raw, headers in (
        (gzip.compress(system.encode()), {"Content-Encoding": "gzip"}),
        (system.encode("latin-1"), {}),
    ):
        with bmc(tmp_path, FakeBmc(replies={SYSTEM: Reply(raw=raw, headers=headers)})) as machine:
            assert machine.system().data["Model"] == "Größe"
    for raw, why in ((b"no gzip", "compressed, and cannot be read"), (gzip.compress(b" " * (2 << 20)), "more than")):
        reply = Reply(raw=raw, headers={"Content-Encoding": "gzip"})
        with bmc(tmp_path, FakeBmc(replies={SYSTEM: reply})) as machine, pytest.raises(BmcError, match=why):
            machine.power()


def test_a_server_without_a_safe_cipher_has_its_own_sentence(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES256-GCM-SHA384")  # with RSA key exchange alone
    context.load_cert_chain(*certificate(tmp_path))
    with one_answer(context) as port, pytest.raises(BmcError, match="it has no safe cipher of TLS") as raised:
        https.exchange(Login("127.0.0.1", USER, PASSWORD, port, None, verified=False), "GET", "/redfish/v1/")
    assert raised.value.reason == "service" and "_ssl.c" not in str(raised.value)


def test_an_expired_certificate_that_is_recorded_is_used_and_named(tmp_path: Path) -> None:
    with bmc(tmp_path, FakeBmc(does=("expired-certificate",))) as machine:
        assert machine.power() == "off"
        assert "expired-certificate" in machine.quirks
    with bmc(tmp_path, FakeBmc()) as machine:
        assert machine.power() == "off"
        assert "expired-certificate" not in machine.quirks
