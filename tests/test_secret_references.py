"""References to secrets: resolved, hidden, and named when they lead nowhere."""

import os
from pathlib import Path

import pytest

from cluster_reconciler.executors.secret_references import (
    ReferenceUnresolved,
    looks_like_secret,
    mask,
    resolve,
    resolve_env,
)
from cluster_reconciler.executors.secret_words import (
    hidden_as_in,
    line_without_secrets,
    secrets_of,
    without_secrets,
    words_without_secrets,
)
from cluster_reconciler.messages import BootSpec


def test_a_literal_is_its_own_value() -> None:
    assert resolve("hello", {}) == "hello"
    assert resolve("", {}) == ""


def test_a_variable_and_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes("gehe\u00efm \r\n".encode())
    assert resolve("env:KEY", {"KEY": "value"}) == "value"
    assert resolve(f"file:{tmp_path / 'key'}", {}) == "gehe\u00efm "


def test_everything_that_is_missing_is_named_at_once_and_no_value_with_it() -> None:
    env = {"A": "env:MISSING", "B": "file:/nowhere/at/all", "C": "env:THERE"}
    with pytest.raises(ReferenceUnresolved) as refused:
        resolve_env(env, {"THERE": "the-secret"})
    said = refused.value.reason
    assert "boot.env A = env:MISSING: the variable MISSING is not set" in said
    assert "boot.env B = file:/nowhere/at/all: cannot be read: No such file" in said
    assert "the-secret" not in said


@pytest.mark.parametrize("reference", ["env:", "env:A=B", "file:", "file:\0"])
def test_a_reference_that_names_nothing_is_refused(reference: str) -> None:
    with pytest.raises(ReferenceUnresolved):
        resolve(reference, {})


def test_a_directory_a_pipe_a_huge_file_and_bytes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge").write_bytes(b"x" * 70_000)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "nul").write_bytes(b"a\0b")
    for name in ("", "pipe", "huge", "bytes", "nul"):
        with pytest.raises(ReferenceUnresolved):
            resolve(f"file:{tmp_path / name}", {})


def test_resolved_values_do_not_show_in_a_repr() -> None:
    resolved = resolve_env({"KEY": "env:KEY", "GREETING": "hello"}, {"KEY": "the-secret"})
    assert dict(resolved) == {"KEY": "the-secret", "GREETING": "hello"}
    assert "the-secret" not in f"{resolved!r} {resolved}"


def test_a_literal_that_looks_like_a_secret_is_one_to_hide_too() -> None:
    env = {"DB_PASSWORD": "hunter2", "GREETING": "hello", "MAX_TOKENS": "4096", "K": "env:K"}
    resolved = {**env, "K": "the-secret"}
    assert secrets_of(BootSpec(env=env), resolved) == ("hunter2", "the-secret")


def test_secrets_are_masked_the_longer_first_and_short_ones_never() -> None:
    assert mask("abcdefgh abcd ab", ["abcd", "abcdefgh", "ab"]) == "*** *** ab"


@pytest.mark.parametrize(
    "literal",
    [
        "sk-proj-" + "a1B2c3D4e5F6g7H8",
        "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2",
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "-----BEGIN RSA PRIVATE KEY-----\nMII",
        "postgres://me:hunter2@db/x",
        "dGhpcyBpcyBub3Qgc2VjcmV0IGJ1dCBsb29rcw0x",
        "9f86d081884c7d659a2feaa0c55ad015",
    ],
)
def test_literals_that_look_like_secrets(literal: str) -> None:
    assert looks_like_secret(literal)


@pytest.mark.parametrize(
    "literal",
    [
        "",
        "hello",
        "env:API_KEY",
        "file:/run/secrets/key",
        "/usr/local/lib/python3.11/site-packages",
        "https://example.org/a/b?c=d",
        "postgres://me@db/x",
        "123e4567-e89b-12d3-a456-426614174000",
        "a sentence of several words, 42 of them",
        "meta-llama/Llama-3.1-8B-Instruct",
    ],
)
def test_literals_that_do_not(literal: str) -> None:
    assert not looks_like_secret(literal)


def test_a_name_tells_a_password_that_no_pattern_can() -> None:
    assert looks_like_secret("hunter2", "DB_PASSWORD")
    assert not looks_like_secret("hunter2", "GREETING")
    assert not looks_like_secret("4096", "MAX_TOKENS")
    assert not looks_like_secret("env:X", "DB_PASSWORD")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("serve --password hunter2 -v", "serve --password *** -v"),
        ("serve --api-key=hunter2", "serve --api-key=***"),
        ("serve --token 'hun ter2'", "serve --token '***'"),
        ('TOKEN="hun ter2" serve', 'TOKEN="***" serve'),
        ("sh -c 'export DB_PWD=\"hun ter2\"'", "sh -c 'export DB_PWD=\"***\"'"),
        ("TOKEN='hunter2 unclosed", "TOKEN='***"),
        ("curl -H 'Authorization: Bearer hunter2' x", "curl -H 'Authorization: Bearer ***' x"),
        ("curl -H 'Authorization: hunter2' x", "curl -H 'Authorization: ***' x"),
        ('"X-Api-Key": "hunter2",', '"X-Api-Key": "***",'),
        ("Bearer hunter2", "Bearer ***"),
        ("curl -u me:hunter2 x", "curl -u me:*** x"),
        ("git clone https://me:hunter2@host/x", "git clone ***"),
        ("redis://:hunter2@host/0", "***"),
        ("scp me:hunter2@host", "scp me:***@host"),
        ('args = ["--secret", "hunter2"]', 'args = ["--secret", "***"]'),
        ("API_KEY: hunter2 # mine", "API_KEY: *** # mine"),
        ("curl -H 'Cookie: session=hunter2; b=c' x", "curl -H 'Cookie: ***' x"),
        ("curl 'https://s/x?X-Amz-Signature=hunter2'", "curl 'https://s/x?X-Amz-Signature=***'"),
        ("curl 'https://s/x?sig=hunter2&a=b#c'", "curl 'https://s/x?sig=***&a=b#c'"),
        ("X-Amz-Signature=hunter2&a=b", "X-Amz-Signature=***&a=b"),
        ("https://s/x?token=hunter2&api_key=hunter2&n=1", "https://s/x?token=***&api_key=***&n=1"),
        ("PASSWORD='hun&ter=2' serve", "PASSWORD='***' serve"),
        ("PW=hunter2 serve", "PW=*** serve"),
        ("mysql -u root -phunter2 db", "mysql -u root -p*** db"),
        ("mysqldump -h db -p'hunter2' x", "mysqldump -h db -p'***' x"),
        ("sshpass -phunter2 ssh -p22 x", "sshpass -p*** ssh -p22 x"),
        ("{'args': ['--password', 'hunter2']}", "{'args': ['--password', '***']}"),
    ],
)
def test_what_looks_like_a_secret_in_words_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m http.server 0 --bind 127.0.0.1",
        "while :; do echo the token is ready, it is $(date); sleep 1; done",
        'serve --password "$PASSWORD" --token ${TOKEN} --max-tokens 4096',
        "curl -H 'Authorization: Bearer $TOKEN' x",
        "docker run -u 1000:1000 image:tag@sha256:abc",
        "serve --token-file /run/token --password-path x",
        'API_KEY = "env:KEY"',
        "docker run -p80:80 x -p 80; ssh -p22 x",
        '"a' + '\\": \\"b' * 20 + '..."',
        "mysql -p db; mysql -h x -P 3306; mysql -p$PW db",
        'args = ["--verbose", "--port", "80"]',
    ],
)
def test_words_without_a_secret_are_shown_as_they_are(text: str) -> None:
    assert without_secrets(text) == text


def test_an_option_tells_what_the_next_word_of_a_list_is() -> None:
    words = ["--token", "hunter2", "--verbose", "-u", "me:hunter2", "Bearer", "hunter2", "--port"]
    words += ["80", "--password", "--secret", "$S", "--token-file", "/x", "--secret=hunter2"]
    assert words_without_secrets(words) == (
        *("--token", "***", "--verbose", "-u", "me:***", "Bearer", "***", "--port"),
        *("80", "--password", "--secret", "$S", "--token-file", "/x", "--secret=***"),
    )


def test_the_password_of_a_client_is_hidden_among_the_words_of_a_command() -> None:
    words = ("/bin/mysql", "-h", "x", "-phunter2", "-p")
    assert words_without_secrets(words) == ("/bin/mysql", "-h", "x", "-p***", "-p")
    assert words_without_secrets(("nc", "-p80")) == ("nc", "-p80")


@pytest.mark.parametrize(
    ("before", "line", "shown"),
    [
        ('args = ["--password",', '"hunter2", 3]', '"***", 3]'),
        ("{'args': ['--password',", "'hunter2', 3]", "'***', 3]"),
        ("- --password", "- hunter2", "- ***"),
        ("- --port", "- 80a", "- 80a"),
        ("- --password", "- env:X", "- env:X"),
    ],
)
def test_an_option_on_the_line_before_tells_what_a_line_of_a_file_is(
    before: str, line: str, shown: str
) -> None:
    assert line_without_secrets(line, before) == shown


def test_what_the_query_of_an_address_hides_is_hidden_where_it_stands_alone_too() -> None:
    line = "curl 'https://s/x?sig=hunter2&a=b'"
    assert hidden_as_in("hunter2 at a", line, without_secrets(line)) == "*** at a"
