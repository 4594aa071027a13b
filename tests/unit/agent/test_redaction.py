"""Redaction of diagnostics: best effort, linear in time, beside the event loop."""

import asyncio
import base64
from typing import Any

import pytest

from agent.diagnostics.redaction import (
    HIDDEN,
    LINE_BYTES,
    MOST_VALUES,
    Redactor,
    redacted,
    redacted_beside,
)

SECRET = "S3cretValueOfReview"
KUBEADM = "abcdef.0123456789abcdef"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\nc2hvcnQ=\n-----END RSA PRIVATE KEY-----"
PEM_64 = base64.b64encode(PEM.encode()).decode()
AT = "2026-11-22T10:00:00+0000 n1 kubelet[812]: "

PLANTED: dict[str, tuple[str, str]] = {
    "assignment": (f"password={SECRET} user=bob", SECRET),
    "flag and value": (f"mysqld --password {SECRET}", SECRET),
    "flag in a list": (f'args: ["--client-secret", "{SECRET}"]', SECRET),
    "flag with =": (f"kubelet --bootstrap-token={SECRET}", SECRET),
    "second word of a quoted password": (f'password: "correct {SECRET} staple"', SECRET),
    "second word without quotes": (f"passphrase: correct {SECRET}", SECRET),
    "quotes within quotes": (rf'msg="{{\"password\":\"a {SECRET}\"}}"', SECRET),
    "escaped quote": (rf'"password": "a\"{SECRET}"', SECRET),
    "authorization token": (f"Authorization: token {SECRET}", SECRET),
    "authorization digest": (f'Authorization: Digest username="a", response="{SECRET}"', SECRET),
    "authorization of an unknown scheme": (f"authorization: AWS4 Credential={SECRET}", SECRET),
    "digest alone": (f'sent Digest username="a", response="{SECRET}"', SECRET),
    "bearer": (f"sent Bearer {SECRET}", SECRET),
    "basic": ("sent Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "ghp": ("clone with ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c"),
    "gho": ("clone with gho_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c"),
    "github_pat": ("use github_pat_11ABCDEFG0_abcdefghij", "11ABCDEFG0"),
    "xoxb": ("slack xoxb-123456789012-abcDEF", "123456789012-abcDEF"),
    "hvs": ("vault hvs.CAESIJlU0Y", "CAESIJlU0Y"),
    "AIza": ("maps AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "SyD-9tSrke72"),
    "AKIA": ("aws AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    "kubeadm token": (f"kubeadm join 10.0.0.1:6443 as {KUBEADM}", "0123456789abcdef"),
    "JWT": (f"got {JWT} from x", "eyJzdWIiOiJzeXN0ZW0ifQ"),
    "client-key-data": (f"    client-key-data: {PEM_64[:40]}", PEM_64[:40]),
    "docker auth": ('{"auths":{"reg.example":{"auth":"dXNlcjpwYXNz"}}}', "dXNlcjpwYXNz"),
    "cookie": (f"Cookie: theme=dark; session={SECRET}", SECRET),
    "set-cookie": (f"< Set-Cookie: sid={SECRET}; Path=/", SECRET),
    "AccountKey": (f"AccountName=a;AccountKey={SECRET}==;Suffix=x", SECRET),
    "SAS": (f"GET https://a.blob.example/x?sv=2024&sig={SECRET}%3D", SECRET),
    "whole PEM": (PEM, KEY_LINE),
    "PEM whose END was cut": (PEM.partition("\n-----END")[0], KEY_LINE),
    "last line of such a PEM": (PEM.partition("\n-----END")[0], "c2hvcnQ="),
    "PEM whose BEGIN was cut": (PEM.partition("-----\n")[2], KEY_LINE),
    "PEM in the journal": ("\n".join(AT + line for line in PEM.split("\n")), KEY_LINE),
    "PEM in one line": (PEM.replace("\n", "\\n"), KEY_LINE),
    "PEM in base64": (f"found {PEM_64}", PEM_64[20:60]),
    "tls.key": (f"  tls.key: {PEM_64}", PEM_64[20:60]),
    "curl -u": (f"curl -s -u admin:{SECRET} https://x", SECRET),
    "curl --user": (f"curl --user=admin:{SECRET} https://x", SECRET),
    "address": (f"proxy http://bob:{SECRET}@proxy:3128", SECRET),
    "block scalar": (f"password: |\n  line\n  {SECRET}\nuser: bob", SECRET),
    "block scalar in the journal": (f"{AT}password: >-\n{AT}  {SECRET}\n{AT}user: b", SECRET),
    "value below its key": (f"client_secret:\n  {SECRET}", SECRET),
    "variable of a container": (f"- name: DB_PASSWORD\n  value: {SECRET}", SECRET),
    "variable in one line": (f'{{"name":"DB_PASSWORD","value":"{SECRET}"}}', SECRET),
    "random word": ("seen Zk3vQ9xT1bYw8LmN4pRs7dFg in a dump", "Zk3vQ9xT1bYw8LmN4pRs7dFg"),
    "secret access key": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "K7MDENG"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_secrets_are_gone(kind: str) -> None:
    text, secret = PLANTED[kind]
    assert secret in text
    assert secret not in redacted(text) and HIDDEN in redacted(text)


@pytest.mark.parametrize("kind", [kind for kind in PLANTED if "journal" not in kind])
def test_planted_secrets_are_gone_within_a_line_of_the_journal(kind: str) -> None:
    text, secret = PLANTED[kind]
    lines = text.split("\n")
    assert secret not in redacted("\n".join(AT + line for line in lines))


@pytest.mark.parametrize(
    "text",
    [
        AT + 'MountVolume.SetUp failed for volume "creds" : secret "db-creds" not found',
        AT + "failed to sync secret cache: timed out waiting for the condition",
        AT + "Unable to authenticate the request: [invalid bearer token, it has expired]",
        "systemd-ask-password-console.path  loaded active waiting Dispatch Password Requests",
        "kubelet --tls-private-key-file=/var/lib/kubelet/pki/key.pem --v=2",
        "pulled reg.example/a@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0",
        "/usr/lib/x86_64-linux-gnu/security/pam_unix.so opened",
        "a5b9ee18-6c39-4cb9-9a44-5e9dbb4d8a8f: exit status 1",
        "journalctl --unit kubelet.service -u containerd.service",
        "Basic authentication is off",
        "[ 12.3] blk_update_request: I/O error, dev sda, sector 81920",
        "",
    ],
)
def test_lines_without_a_secret_stay(text: str) -> None:
    assert redacted(text) == text


def test_text_behind_a_quoted_value_and_below_a_block_stays() -> None:
    assert redacted('"password": "a b", "user": "bob"') == f'"password": "{HIDDEN}", "user": "bob"'
    assert redacted("secret: |\n  x\nuser: bob").endswith("\nuser: bob")
    assert redacted(f"{PEM}\nuser bob").endswith("\nuser bob")


def test_a_begin_in_a_users_name_hides_no_other_lines() -> None:
    begun = AT + "Invalid user -----BEGIN PRIVATE KEY----- from 10.0.0.9 port 22"
    after = AT + "Connection closed by 10.0.0.9 port 22"
    assert redacted(f"{begun}\n{after}").endswith(f"\n{after}")


def test_long_lines_are_cut_and_say_so() -> None:
    shown = redacted("x" * (LINE_BYTES + 7) + "\nnext")
    assert shown == "x" * LINE_BYTES + " [7 more characters]\nnext"


def test_more_secrets_than_are_hidden_one_by_one_take_the_rest_of_the_line() -> None:
    shown = redacted('token="a" ' * (MOST_VALUES + 1) + "token=b the end")
    assert shown.count(HIDDEN) == MOST_VALUES + 1 and "the end" not in shown


class Work:
    """Counts the characters that patterns are given to look at."""

    def __init__(self) -> None:
        self.characters = 0

    def search(self, pattern: Any, line: bytes, at: int) -> Any:
        self.characters += len(line) - at
        return pattern.search(line, at)


PROBE = AT + 'probe failed output="' + "password token: key=a " * 470 + '"'
USER = AT + "Invalid user -----BEGIN PRIVATE KEY----- from 10.0.0.9 port 22"
HOSTILE = {
    "a pod's output of 10 KB in each line": PROBE,
    "a user called BEGIN": USER,
    "addresses": "://a:b" * 2000,
    "quotes": "password='\"" * 900,
    "dots": "eyJaaaaaaaa." * 900,
    "names": "token" * 2000,
    "slashes": "\\" * 10_000,
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_work_grows_with_the_number_of_lines_and_no_faster(line: str) -> None:
    def work(lines: int) -> int:
        counted = Work()
        redactor = Redactor(counted.search)
        for _ in range(lines):
            redactor.line(line)
        return counted.characters

    one, many = work(20), work(200)
    assert many <= 10 * one + LINE_BYTES
    assert one / 20 <= 30 * MOST_VALUES * min(len(line), LINE_BYTES)


async def test_the_event_loop_goes_on_between_the_pieces_of_a_text() -> None:
    text = "\n".join([PROBE] * 40 + [USER] * 400 + ["password=hunter22"])
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(beat())
        shown = await redacted_beside(text)
        beating.cancel()
    assert shown == redacted(text)
    assert turns > 3, "a piece each, at least"
