"""Host lists: expansion of Slurm's short form into node names; and addresses of slurmrestd."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Rejected
from faultbridge.model.names import (
    MAX_HOSTS,
    closest_names,
    did_you_mean,
    expand_host_list,
    is_host_name,
    rest_address,
    short_name,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-1", "gpu-1"),
        ("gpu-[001-004,007]", "gpu-001 gpu-002 gpu-003 gpu-004 gpu-007"),
        ("gpu-[9-11],login-1", "gpu-9 gpu-10 gpu-11 login-1"),
        ("r[1-2]n[08-09]x", "r1n08x r1n09x r2n08x r2n09x"),
        ("a,b", "a b"),
        ("", ""),
    ],
)
def test_a_host_list_expands_to_its_names_in_order(text: str, names: str) -> None:
    assert expand_host_list(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text",
    ["gpu-[", "gpu-]", "gpu-[1-", "gpu-[2-1]", "gpu-[a]", "a,,b", f"a[0-{MAX_HOSTS}]", "a[0-99]b[0-99]", "x" * 20_000],
)
def test_an_invalid_or_too_long_host_list_is_rejected(text: str) -> None:
    with pytest.raises(Rejected, match="bad_host_list"):
        expand_host_list(text)


@given(st.integers(0, 500), st.integers(0, 100), st.integers(1, 5))
def test_a_range_expands_to_every_number_with_its_leading_zeros(first: int, more: int, width: int) -> None:
    names = expand_host_list(f"n[{first:0{width}}-{first + more}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) > width for name in names)


@given(st.text(alphabet="ab[]-,0123", max_size=40))
def test_any_text_is_expanded_or_rejected(text: str) -> None:
    with contextlib.suppress(Rejected):
        assert len(expand_host_list(text)) <= MAX_HOSTS


@pytest.mark.parametrize(
    "text",
    [
        "https://slurm.example",
        "https://slurm.example.internal:6820",
        "https://10.0.0.7:6820/slurm-a",
        "http://127.0.0.1:6820",
        "http://localhost",
        f"https://{'a' * 63}.example:65535",
    ],
)
def test_an_address_of_a_slurmrestd_is_accepted(text: str) -> None:
    assert rest_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "http://slurm.example:6820",
        "http://127.0.0.1.example",
        "https://user:secret@slurm.example",
        "https://slurm.example/?token=x",
        "https://slurm.example/",
        "https://slurm.example#x",
        "https://slurm.example:6820\n",
        "https://",
        "https://a..b",
        "https://.example",
        "https://slurm.example.",
        f"https://{'a' * 64}.example",
        f"https://{'a.' * 127}a",
        "https://slurm.example:65536",
        "https://slurm.example:99999",
        "https://slurm.example:0",
        "https://slurm.example:\u0661",
        "slurm.example:6820",
        "ftp://slurm.example",
    ],
)
def test_an_address_that_could_give_a_token_away_is_rejected(text: str) -> None:
    with pytest.raises(Rejected, match="bad_address"):
        rest_address(text)


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        ("n[1-5000]", "n[1-5001]"),
        ("n[1-4999,6000]", "n[1-4999,6000-6001]"),
        ("n[1-4999],m", "n[1-4999],m,o"),
        (f"n[{'0' * 8}1]{'x' * 16_372}", f"n[{'0' * 8}1]{'x' * 16_373}"),
    ],
)
def test_a_host_list_has_up_to_5000_names_and_16384_characters(longest: str, too_long: str) -> None:
    assert len(expand_host_list(longest)) in {1, 5000}
    with pytest.raises(Rejected, match="bad_host_list"):
        expand_host_list(too_long)


@pytest.mark.parametrize(
    ("name", "short"), [("gpu-1.cluster.internal", "gpu-1"), ("gpu-1", "gpu-1"), ("10.0.0.7", "10.0.0.7")]
)
def test_a_host_is_compared_without_its_domain_and_an_address_as_a_whole(name: str, short: str) -> None:
    assert short_name(name) == short
    assert is_host_name(name, ["other", short])
    assert not is_host_name(name, ["other", "10.0.0.8"])


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("GPU-", ("gpu-1", "gpu-2", "gpu-3")),
        ("gpu1", ("gpu-1", "gpu-4", "gpu-3")),
        ("", ()),
        ("nothing-like-it", ()),
    ],
)
def test_names_with_the_same_start_or_else_similar_ones_are_proposed(name: str, closest: tuple[str, ...]) -> None:
    assert closest_names(name, [f"gpu-{number}" for number in (4, 3, 2, 1)]) == closest


def test_of_names_that_differ_in_case_only_the_first_is_proposed() -> None:
    assert closest_names("gpu", ["gpu-1", "GPU-1"]) == ("GPU-1",)


@pytest.mark.parametrize(
    ("existing", "text"),
    [
        ((), ""),
        (("gpu-1",), "; did you mean gpu-1?"),
        (("gpu-1", "gpu-2"), "; did you mean gpu-1 or gpu-2?"),
        (("gpu-1", "gpu-2", "gpu-3"), "; did you mean gpu-1, gpu-2 or gpu-3?"),
    ],
)
def test_the_proposal_is_one_phrase(existing: tuple[str, ...], text: str) -> None:
    assert did_you_mean("gpu-", existing) == text
