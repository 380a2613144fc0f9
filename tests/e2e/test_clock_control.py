"""The clock of the functions is set back whatever fails while it is ahead; needs no stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.batch import clock_ahead

OFFSET = "FAULTBRIDGE_CLOCK_OFFSET_SECONDS"


class Functions:
    """Two functions with variables; the first start of a worker fails if `fails` is set."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.variables: dict[str, dict[str, str]] = {"ingest": {}, "sweep": {}}

    def functions(self) -> list[str]:
        return list(self.variables)

    def set_variables(self, variables: Mapping[str, Mapping[str, str]]) -> None:
        for function, values in variables.items():
            self.variables[function] |= values
        if self.fails:
            self.fails = False
            raise TimeoutError("a worker did not start in time")

    @property
    def offsets(self) -> set[Any]:
        return {values.get(OFFSET) for values in self.variables.values()}


def run_ahead(functions: Functions) -> None:
    """Time out while the clock is ahead."""
    with clock_ahead(cast("Installation", functions), 20):
        assert functions.offsets == {str(20 * 86_400)}
        raise TimeoutError("the fixture timed out")


@pytest.mark.parametrize("fails", [False, True])
def test_the_clock_is_set_back_when_its_block_or_a_start_of_a_worker_fails(fails: bool) -> None:
    functions = Functions(fails=fails)
    with pytest.raises(TimeoutError):
        run_ahead(functions)
    assert functions.offsets == {"0"}
