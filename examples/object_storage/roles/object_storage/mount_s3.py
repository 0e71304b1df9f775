#!/usr/bin/python3 -IS
"""mount.hpcforge_s3 URL FOLDER [-f] [-o OPTIONS]: mount a bucket by s3fs, once its server has answered.

mount(8) calls it for the type `hpcforge_s3`. URL is https://SERVER[:PORT]/BUCKET[/FOLDER], options are s3fs's. The
server is asked for the bucket's first object with the key that s3fs will have: s3fs itself looks only once it has
mounted, and says what is wrong to the journal alone. `-f`, as mount(8) has it: ask, and mount nothing.

What is wrong is printed, and the exit status is 32, mount(8)'s for a mount that failed. Keys are in a file of root's,
and come into no argument and no message. Standard library, Python 3.9.
"""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.parse
from typing import NamedTuple, NoReturn

KEYS = "/etc/hpcforge/s3_keys"  # as s3fs has them: a line `ID:KEY`, or for one bucket `BUCKET:ID:KEY`
AUTHORITY = "/etc/hpcforge/s3_ca.pem"  # who signed the server's certificate; not there: whom the distribution trusts
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
ASK_S, MOUNT_S = 8.0, 12.0
FAILED = 32
LARGEST = 64 << 10  # bytes of an answer that are looked at
EMPTY = hashlib.sha256(b"").hexdigest()
# Elements of S3's error documents (docs.aws.amazon.com/AmazonS3, Error responses).
CODE, REGION = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>"), re.compile(rb"<Region>([a-z0-9-]{1,64})</Region>")
MEANT = {
    "SignatureDoesNotMatch": "the key is wrong: hpcforge secrets set BLUEPRINT s3_keys",
    "InvalidAccessKeyId": "it does not know whose the key is: hpcforge secrets set BLUEPRINT s3_keys",
    "AccessDenied": "who has the key may not list the bucket",
    "NoSuchBucket": "there is no such bucket: its site makes it",
    "RequestTimeTooSkewed": "the clocks of the server and of this node differ by minutes",
}


class RefusedError(Exception):
    """Why it cannot be mounted, for the person who will read it."""


class Key(NamedTuple):
    """Who asks, and what proves it."""

    name: str
    secret: str


class Bucket(NamedTuple):
    """Where files are."""

    server: str  # with its port, where that is not 443
    name: str
    folder: str  # within it; "": all of it


def main(argv: list[str]) -> None:
    """Do what mount(8) asks. Raises RefusedError."""
    what, where, options, fake = said(argv)
    bucket = bucket_of(what)
    words = options.split(",")
    region = next((word.partition("=")[2] for word in words if word.startswith("endpoint=")), "us-east-1")
    ask(bucket, key_of(bucket.name, KEYS), region)
    if not fake:
        mount(bucket, where, options)


def said(argv: list[str]) -> tuple[str, str, str, bool]:
    """What, where, with which options, and whether nothing is to be mounted."""
    if len(argv) < 2:
        raise RefusedError("usage: mount.hpcforge_s3 URL FOLDER [-f] [-o OPTIONS]")
    what, where, *rest = argv
    options = rest[rest.index("-o") + 1] if "-o" in rest[:-1] else "nosuid,nodev"
    return what, where, options, "-f" in rest


def bucket_of(url: str) -> Bucket:
    """The parts of its address. Raises RefusedError."""
    parts = urllib.parse.urlsplit(url)
    name, _, folder = parts.path[1:].partition("/")
    if parts.scheme != "https" or not parts.netloc or not name:
        raise RefusedError(f"{url} is no https://SERVER/BUCKET")
    return Bucket(parts.netloc, name, folder)


def key_of(bucket: str, path: str) -> Key:
    """The key for a bucket: its own, else the one for all. Raises RefusedError."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise RefusedError(f"{path}: it is no text") from None
    found = {}
    for number, line in enumerate(lines, 1):
        first, last = line.find(":"), line.rfind(":")
        if not line or line.startswith("#"):
            continue
        if first < 1 or last == len(line) - 1 or " " in line:
            raise RefusedError(f"{path}: line {number} is not ID:KEY or BUCKET:ID:KEY")
        owner = line[:first] if last > first else ""
        found[owner] = Key(line[first + 1 if owner else 0 : last], line[last + 1 :])
    if bucket in found:
        return found[bucket]
    if "" not in found:
        raise RefusedError(f"{path}: there is not a valid key for {bucket}, and none for all buckets")
    return found[""]


def signed(server: str, path: str, query: str, key: Key, region: str, now: datetime.datetime) -> dict[str, str]:
    """The headers of a GET that prove the key (AWS Signature Version 4); `query` in the order of its names."""
    moment, scope = now.strftime("%Y%m%dT%H%M%SZ"), f"{now:%Y%m%d}/{region}/s3/aws4_request"
    headers = {"host": server, "x-amz-content-sha256": EMPTY, "x-amz-date": moment}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"GET\n{path}\n{query}\n{lines}\n{names}\n{EMPTY}"
    secret = f"AWS4{key.secret}".encode()
    for word in scope.split("/"):
        secret = hmac.new(secret, word.encode(), "sha256").digest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    proof = hmac.new(secret, text.encode(), "sha256").hexdigest()
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={key.name}/{scope},SignedHeaders={names},Signature={proof}"
    return headers


def ask(bucket: Bucket, key: Key, region: str) -> None:
    """List one object. Raises RefusedError where the server does not answer in time, or does not give it."""
    outcome: list[Exception] = []
    answered = threading.Event()

    def try_it() -> None:
        try:
            listed(bucket, key, region)
        except (RefusedError, OSError, http.client.HTTPException) as error:
            outcome.append(error)
        answered.set()

    # Beside: nothing bounds the search for an address, or an answer that comes byte by byte.
    threading.Thread(target=try_it, daemon=True).start()
    where = f"https://{bucket.server}/{bucket.name}"
    if not answered.wait(ASK_S):
        raise RefusedError(f"{where}: no answer within {ASK_S:g} s")
    for error in outcome:
        raise RefusedError(f"{where}: {in_words(error)}") from error


def in_words(error: Exception) -> str:
    """What went wrong, without a traceback's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__


def listed(bucket: Bucket, key: Key, region: str) -> None:
    """Ask for the first object. Raises RefusedError, OSError, HTTPException."""
    context = ssl.create_default_context(cafile=authority())
    path = f"/{bucket.name}"
    query = f"max-keys=1&prefix={urllib.parse.quote(bucket.folder, safe='')}"
    headers = signed(bucket.server, path, query, key, region, datetime.datetime.now(datetime.timezone.utc))
    # Who waits goes before: what it is told is one and the same.
    with contextlib.closing(http.client.HTTPSConnection(bucket.server, timeout=2 * ASK_S, context=context)) as asks:
        asks.request("GET", f"{path}?{query}", headers=headers)
        with asks.getresponse() as answer:
            if answer.status != http.client.OK:
                raise RefusedError(why(answer.status, answer.read(LARGEST)))


def why(status: int, body: bytes) -> str:
    """What the server's refusal means."""
    code, region = CODE.search(body), REGION.search(body)
    word = code[1].decode() if code else ""
    meant = f"its region is {region[1].decode()}: options: [endpoint=...]" if region else MEANT.get(word, "")
    return f"{status} {word}".strip() + (f": {meant}" if meant else "")


def authority() -> str:
    """The file of those whose certificates are taken."""
    return AUTHORITY if os.path.exists(AUTHORITY) else TRUSTED


def mount(bucket: Bucket, where: str, options: str) -> None:
    """Let s3fs mount it, and wait until it is there: s3fs goes on by itself before. Raises RefusedError."""
    source = bucket.name + (f":/{bucket.folder}" if bucket.folder else "")
    ours = f"url=https://{bucket.server},passwd_file={KEYS}"
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "CURL_CA_BUNDLE": authority()}
    subprocess.run(["s3fs", source, where, "-o", f"{options},{ours}"], env=environment, check=True)
    if not answers(where):
        raise RefusedError(f"s3fs has not mounted {where}: journalctl -t s3fs")


def answers(where: str) -> bool:
    """Whether it is mounted. Who asks waits until s3fs, which is mounted before, has looked for the bucket."""
    try:
        return subprocess.run(["mountpoint", "--quiet", where], timeout=MOUNT_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run() -> NoReturn:
    """As a program. It ends at once, whoever of its threads still waits."""
    status = 0
    try:
        main(sys.argv[1:])
    except (RefusedError, OSError, subprocess.SubprocessError) as error:
        print(f"mount.hpcforge_s3: {error}", file=sys.stderr)
        status = FAILED
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
