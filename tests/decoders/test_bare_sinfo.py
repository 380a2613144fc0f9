"""`sinfo` without a heading: the columns of its usual forms are known if the source is named."""

from __future__ import annotations

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from tests.decoders.captures import faults_and_clears

PARTITIONS = (
    "gpu*         up   infinite      1 {state} node002\ngpu*         up 1-00:00:00      7   idle node[001,003-008]\n"
)
NODES = "node001      1      gpu* idle \nnode002      1      gpu* {state} \n"
CELLS = "192 2:48:2 2000000 0 1 (null) none"
LONG = f"node001 1 gpu* idle {CELLS}\nnode002 1 gpu* {{state}} {CELLS}\n"
OWN_FORMAT = "node001 idle none\nnode002 {state} none\n"
FORMS = [PARTITIONS, NODES, LONG, OWN_FORMAT]


@pytest.mark.parametrize("form", FORMS)
def test_a_node_that_is_down_is_found_without_a_heading(form: str) -> None:
    found = list(faults_and_clears(registry.decode("slurm-node", form.format(state="down*").encode())))
    assert {one.node for one in found} == {"node002"}
    assert list(faults_and_clears(registry.decode("slurm-node", form.format(state="idle").encode()))) == []


def test_the_reason_of_the_long_form_is_read() -> None:
    body = LONG.replace("(null) none\n", "(null) Not responding\n").format(state="down*")
    found = list(faults_and_clears(registry.decode("slurm-node", body.encode())))
    assert any("Not responding" in (one.evidence or "") for one in found if one.node == "node002")


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_another_form_among_them_are_rejected(form: str) -> None:
    with pytest.raises(Rejected):
        registry.decode("slurm-node", (form.format(state="down*") + "the end of it\n").encode())
