"""Secrets are removed from a record before it is stored, and nothing else is."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faultbridge.pipeline.normalize.mask_secrets import MASKED, PATTERNS, mask

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def text_of(alphabet: str, size: int, max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=max_size or size)


# Each template holds one secret, made up by the test, where `{}` stands.
TEMPLATES = {
    "NVRM: loader AWS_ACCESS_KEY_ID=AKIA{} x": text_of(UPPER, 16),
    "export AWS_SECRET_ACCESS_KEY={}": text_of(LETTERS + "/+", 40),
    '{{"aws_secret_access_key": "{}"}}': text_of(LETTERS + "/+", 40),
    "cloning https://user:{}@git.example.com/repo": text_of(LETTERS, 8, 40),
    "Authorization: Bearer {}": text_of(LETTERS + "-._~+", 20, 60),
    "curl -H 'authorization: Basic {}'": text_of(LETTERS, 12, 60),
    "python train.py --api-key {} --lr 0.1": text_of(LETTERS, 8, 40),
    "WANDB_API_KEY={} torchrun": text_of("0123456789abcdef", 40),
    "token hf_{} found": text_of(LETTERS, 30),
    "pushing with ghp_{} now": text_of(LETTERS, 36),
    "hook xoxb-{}": text_of("0123456789", 24),
    "jwt eyJhbGciOiJI.eyJ{}.c2lnbmF0dXJl": text_of(LETTERS, 20, 60),
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----": text_of(LETTERS, 64, 200),
    "db password: {} host": text_of(LETTERS, 8, 30),
    r"{{\"password\":\"{}\"}}": text_of(LETTERS, 8, 30),
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_secret_is_removed_and_the_text_around_it_stays(template: str) -> None:
    @given(TEMPLATES[template])
    def holds(secret: str) -> None:
        before, after = template.format("\0").split("\0")
        assume(secret not in before + after)
        masked = mask(template.format(secret).encode()).decode()
        assert secret not in masked
        assert MASKED.decode() in masked
        assert masked.startswith(before[:4])
        assert masked.endswith((after.lstrip(), MASKED.decode()))

    holds()


@given(st.binary(max_size=400))
def test_masking_twice_changes_nothing(body: bytes) -> None:
    once = mask(body)
    assert mask(once) == once


@given(st.sampled_from(sorted(TEMPLATES)), st.data(), st.binary(max_size=60), st.binary(max_size=60))
def test_a_secret_is_removed_between_any_other_lines(
    template: str, data: st.DataObject, before: bytes, after: bytes
) -> None:
    secret = data.draw(TEMPLATES[template]).encode()
    around = template.replace("{}", "\0").encode() + before + after
    assume(secret not in around)
    assert secret not in mask(before + b"\n" + template.format(secret.decode()).encode() + b"\n" + after)


HARMLESS = (
    "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:c1:00): 119, pid=1234, Timeout waiting for RPC from GPU0 GSP!",
    "GPU UUID GPU-7d8e2b5a-1111-2222-3333-444455556666 serial 1320923045678",
    "sshd[123]: pam_unix(sshd:session): session opened for user root",
    '{"DCGM GPU Diagnostic": {"test_categories": []}}',
    'level=info msg="renewed lease" url=https://kubernetes.default.svc:443/apis/coordination.k8s.io',
    "keyboard: input device key 42 pressed; tokenizer loaded 32000 tokens",
    "asia-south1 region; AKIATOOSHORT",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert mask(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "hostile",
    [
        b"password" * 20_000,
        b"eyJ" * 60_000,
        b"://a:" * 40_000,
        b"bearer " * 30_000,
        b"-----BEGIN PRIVATE KEY-----" * 6_000,
        b"key_" * 50_000,
    ],
)
def test_a_hostile_record_takes_no_excessive_time(hostile: bytes) -> None:
    started = time.process_time()
    mask(hostile)
    assert time.process_time() - started < 2.0


def test_every_pattern_has_a_group_named_secret_and_lower_case_hints() -> None:
    for pattern in PATTERNS:
        assert "secret" in pattern.expression.groupindex, pattern.name
        assert pattern.hints == tuple(hint.lower() for hint in pattern.hints)
