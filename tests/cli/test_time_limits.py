"""Every option for a time of a stack refuses a time outside the limits of the API, with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import KEY
from tests.cli.builders import PACKAGED
from tests.cli.desk import Desk

IN = ("--cluster", KEY.cluster)


def assert_refused(desk: Desk, command: tuple[str, ...], option: str, time: str) -> None:
    ran = desk(*command, option, time)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        f"faultbridge: invalid {option}: '{time}'; allowed: times of the years 2000 to 2199 (see "
    )
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2000w"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("report", *IN), "--since"),
        (("report", *IN), "--until"),
        (("timeline", *IN), "--since"),
        (("timeline", *IN), "--until"),
        (("audit",), "--since"),
        (("policy", "backtest", "policy.yaml", *IN), "--since"),
        (("policy", "backtest", "policy.yaml", *IN), "--until"),
        (("device", "offenders", *IN), "--since"),
        (("gpus", *IN), "--since"),
        (("explain", *IN), "--at"),
        (("job", "start", "8", "--node", KEY.node, *IN), "--at"),
        (("job", "end", "8", *IN), "--at"),
    ],
)
def test_a_time_outside_the_limits_of_the_api_is_wrong_usage(
    desk: Desk, command: tuple[str, ...], option: str, time: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(PACKAGED, encoding="utf-8")
    assert_refused(desk, command, option, time)


@pytest.mark.parametrize("time", ["2200-01-01T00:00:00Z", "9999w"])
@pytest.mark.parametrize("command", [("cluster", "maintain", KEY.cluster), ("node", "ignore", KEY.node, *IN)])
def test_a_future_time_outside_the_limits_of_the_api_is_wrong_usage(
    desk: Desk, command: tuple[str, ...], time: str
) -> None:
    assert_refused(desk, command, "--until", time)
