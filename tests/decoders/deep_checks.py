"""Builders of deep checks that several test modules use."""

from __future__ import annotations

TYPE = "p4d.24xlarge"

DOMAINS = tuple(f"rdmap{number}s27-rdm" for number in (16, 32, 144, 160))

HEADING = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"

ROW = "1m      100     =100     200m        0.03s   6102.44     171.83       0.01\n"


def loopback(domains: tuple[str, ...] = DOMAINS, row: str = ROW, status: int = 0) -> str:
    return "".join(f"domain: {name}\n{HEADING}{row}exit: {status}\n" for name in domains)
