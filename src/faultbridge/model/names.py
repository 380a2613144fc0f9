"""Names: validates names of clusters, nodes, records and instances, and expands Slurm host lists.

A valid name fits unchanged into table keys, events and SNS topics. A host list is Slurm's short form of many node
names: `gpu-[001-004,007],login-1`. When a name is unknown, this module proposes similar names. `dns_suffix` returns the
DNS domain of AWS services in a region.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, product

from faultbridge.model.errors import Rejected

# As Amazon EKS, HyperPod and ParallelCluster name clusters, without the separators of table keys.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
# Host, Kubernetes, Slurm and HyperPod names, and instance ids.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,252}")
# Client tokens, UUIDs, hashes; a record id becomes the end of a sort key.
RECORD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+=-]{0,127}")
INSTANCE_ID = re.compile(r"m?i-[0-9a-f]{8,17}")
IP_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
# A token is sent to this address, so only the loopback may be addressed without TLS.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?![^:/]{{254}}){_LABEL}(?:\.{_LABEL})*"
_PORT = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
# Compiled when an address is checked, because that is rare and takes as long as all other patterns here.
_REST_ADDRESS = rf"(?:https://{_HOST}|http://(?:localhost|127\.0\.0\.1))(?::{_PORT})?(?:/[A-Za-z0-9._-]{{1,64}}){{0,4}}"

MAX_CLOSEST = 3
_MIN_SIMILARITY = 0.5
MAX_HOSTS = 5000
_MAX_HOST_LIST_CHARACTERS = 16_384
_PART = re.compile(r"[^\[\],]|\[[0-9,-]{1,4096}\]")
_HOST_PATTERN = re.compile(r"(?:[^\[\],]|\[[0-9,-]{1,4096}\])+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def cluster_name(text: str) -> str:
    """Check a cluster name and return it; any other text raises Rejected (`bad_cluster_name`)."""
    return _matching(CLUSTER_NAME, text, "bad_cluster_name", "letters, digits, - and _, at most 100")


def node_name(text: str) -> str:
    """Check a node name and return it; any other text raises Rejected (`bad_node_name`)."""
    return _matching(NODE_NAME, text, "bad_node_name", "letters, digits and . _ : @ -, at most 253")


def record_id(text: str) -> str:
    """Check a record id and return it; any other text raises Rejected (`bad_record_id`)."""
    return _matching(RECORD_ID, text, "bad_record_id", "letters, digits and . _ : @ + = -, at most 128")


def instance_id(text: str) -> str:
    """Check an EC2 or managed instance id and return it; other text raises Rejected (`bad_instance_id`)."""
    return _matching(INSTANCE_ID, text, "bad_instance_id", "i- or mi- and 8 to 17 hexadecimal digits", kind="value")


def dns_suffix(region: str | None) -> str:
    """Return the DNS suffix of AWS endpoints: `amazonaws.com.cn` in China, else `amazonaws.com`."""
    return "amazonaws.com.cn" if (region or "").startswith("cn-") else "amazonaws.com"


def rest_address(text: str) -> str:
    """Check the address of a slurmrestd and return it; any other text raises Rejected (`bad_address`)."""
    pattern, allowed = re.compile(_REST_ADDRESS, re.ASCII), "an https URL without user, query and final slash"
    return _matching(pattern, text, "bad_address", allowed, kind="value")


def _matching(pattern: re.Pattern[str], text: str, reason: str, allowed: str, *, kind: str = "name") -> str:
    if pattern.fullmatch(text) is None:
        raise Rejected(reason, f"invalid {kind}: {text[:80]!r}; allowed: {allowed}")
    return text


def short_name(name: str) -> str:
    """Return the name of a host without its DNS domain. An IP address is returned unchanged."""
    return name if IP_ADDRESS.fullmatch(name) else name.partition(".")[0]


def is_host_name(name: str, host_names: Iterable[str]) -> bool:
    """Return whether a name is one of a host's names. DNS domains are ignored in the comparison."""
    return short_name(name) in map(short_name, host_names)


def expand_host_list(text: str) -> tuple[str, ...]:
    """Return the node names of a Slurm host list.

    Raises Rejected (`bad_host_list`) if the list is invalid or too long, or has more than `MAX_HOSTS` names.

    >>> expand_host_list("gpu-[01-02],login-1")
    ('gpu-01', 'gpu-02', 'login-1')
    """
    if len(text) > _MAX_HOST_LIST_CHARACTERS:
        raise Rejected(
            "bad_host_list", f"host list too long: {len(text)} characters; allowed: {_MAX_HOST_LIST_CHARACTERS}"
        )
    names = tuple(islice(_host_names(text), MAX_HOSTS + 1))
    if len(names) > MAX_HOSTS:
        raise Rejected("bad_host_list", f"too many names in the host list: {text[:64]}; allowed: {MAX_HOSTS}")
    return names


def _host_names(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        pattern = _HOST_PATTERN.match(text, position)
        if pattern is None:
            raise Rejected("bad_host_list", f"invalid host list: {text[:64]!r}; example: gpu-[001-004,007],login-1")
        choices = [_choices(part) for part in _PART.findall(pattern[0])]
        yield from map("".join, product(*choices))
        position = pattern.end()
        if position < len(text) and text[position] != ",":
            raise Rejected("bad_host_list", f"invalid host list: {text[:64]!r}; separate names with commas")
        position += 1


def _choices(part: str) -> list[str]:
    if not part.startswith("["):
        return [part]
    choices: list[str] = []
    for written in part[1:-1].split(","):
        numbers = _RANGE.fullmatch(written)
        if numbers is None:
            raise Rejected("bad_host_list", f"invalid number range: {written[:32]!r}; example: 001-004")
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not 0 <= last - first < MAX_HOSTS:
            raise Rejected("bad_host_list", f"invalid number range: {written[:32]!r}; allowed: {MAX_HOSTS} numbers")
        choices += [str(number).zfill(len(numbers[1])) for number in range(first, last + 1)]
        if len(choices) > MAX_HOSTS:
            raise Rejected("bad_host_list", f"too many numbers in a bracket: {part[:64]}; allowed: {MAX_HOSTS}")
    return choices


def closest_names(name: str, existing: Iterable[str], limit: int = MAX_CLOSEST) -> tuple[str, ...]:
    """Return up to `limit` existing names that start with `name`, else similar names. Case is ignored."""
    by_lower_case = {one.lower(): one for one in sorted(existing, reverse=True)}
    given = name.lower()
    found = sorted(one for one in by_lower_case if given and one.startswith(given))
    if not found:
        from difflib import get_close_matches  # only an error text needs it

        found = get_close_matches(given, by_lower_case, limit, _MIN_SIMILARITY)
    return tuple(by_lower_case[one] for one in found[:limit])


def did_you_mean(name: str, existing: Iterable[str], limit: int = MAX_CLOSEST) -> str:
    """Return the end of an error text that proposes the closest names; empty if no name is similar."""
    *most, last = closest_names(name, existing, limit) or ("",)
    return f"; did you mean {' or '.join(filter(None, (', '.join(most), last)))}?" if last else ""
