"""Builders of orders that several test modules use."""

from __future__ import annotations

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import version_of
from faultbridge.record.policies import PolicyStore
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.cli.desk import Desk

APPROVAL_POLICY = "rules: [{name: approve-replace, approval: [replace_node]}]"


def case_for_approval(desk: Desk) -> str:
    """Create a case that waits for approval, and return its id."""
    document = read_policy(APPROVAL_POLICY)
    ports = desk.world.ports
    PolicyStore(ports.table, ports.clock).put({**document, "version": version_of(document)})
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    wire_react(desk.world.app).run([(KEY.cluster, KEY.node)])
    (case,) = desk.json("case", "list", "--cluster", KEY.cluster)
    assert case["waiting_for"] == "approval"
    return str(case["case_id"])
