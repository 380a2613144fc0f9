"""What to do next for each reason of `Rejected`, by the stable reason."""

from __future__ import annotations

from collections.abc import Mapping

USAGE_HINTS: Mapping[str, str] = {
    "alias_taken": "an alias belongs to one node only; omit it or choose another",
    "answered": "`faultbridge case show` shows the answer and the operator",
    "bad_cluster_name": "choose another name",
    "bad_instance_id": "give an EC2 instance id such as i-0123456789abcdef0",
    "bad_job": "give the job id of the scheduler",
    "bad_node_name": "choose another name",
    "bad_nodes": "name the nodes with --node",
    "bad_shards": "see `faultbridge cluster add --help`",
    "bad_time": "give another time with --at",
    "bad_token": "start again without the token",
    "case_over": "`faultbridge case show` shows its resolution",
    "cluster_exists": "`faultbridge cluster set` changes it",
    "cluster_lives": "`faultbridge case list --cluster C` lists live cases; close them first",
    "job_runs": "`faultbridge job end` ends it",
    "no_instance": "`faultbridge node show` shows the node",
    "no_stack_id": "give --stack-id, or copy the manifests and anchors as well",
    "node_exists": "`faultbridge node show` shows its instance",
    "node_retired": "choose another name",
    "not_acting": "`faultbridge cluster set --mode act` enables repairs",
    "not_confirmed": "answer y, or give --yes",
    "not_asked": "`faultbridge case show` shows what the case waits for",
    "not_cancellable": "`faultbridge case show` shows its status",
    "not_replaceable": "`faultbridge node show` shows its status",
    "not_settable": "see `faultbridge cluster set --help`",
    "not_with_a_person": "`faultbridge node show` shows its case",
    "nothing_asked": "give a cluster with --cluster, or a case with --case",
    "out_of_service": "`faultbridge node show` shows the reason",
    "past_intent": "wait until the repair ends; `faultbridge case show` shows its progress",
    "raw_gone": "send the record again from its source",
    "too_late": "the case is escalated to an operator; `faultbridge case show` shows it",
    "too_many_aliases": "give fewer aliases",
    "unknown_case": "`faultbridge case list --cluster C` lists cases",
    "unknown_cluster": "`faultbridge cluster list` lists clusters; `faultbridge cluster add` registers one",
    "unknown_epoch": "omit --epoch to start a new epoch",
    "unknown_event": "`faultbridge timeline --json` shows the ids",
    "unknown_group": "check the group name, --region and --profile",
    "unknown_job": "`faultbridge job start` records its start",
    "unknown_node": "`faultbridge node list --cluster C` lists nodes; `faultbridge node add` registers one",
    "unknown_policy": "`faultbridge policy show` shows the current policy",
    "unknown_reject": "`faultbridge reject list` lists rejected records",
}
"""Reasons that mean wrong usage (exit code 2)."""

INPUT_HINTS: Mapping[str, str] = {
    "ambiguous_format": "name the source with --source",
    "binary": "give text; decompress the file first if it is compressed",
    "empty": "give the text of a source; `faultbridge sources` lists them",
    "entity_declaration": "give the unchanged output of `nvidia-smi -q -x`",
    "malformed_json": "give the complete output of the tool",
    "malformed_xml": "give the complete output of `nvidia-smi -q -x`",
    "malformed_yaml": "give plain YAML or JSON",
    "no_framing": "`faultbridge sources` shows an example of each format",
    "not_csv": "give CSV with a heading line, or one JSON object per line",
    "not_json": "give JSON",
    "not_yaml": "give YAML or JSON",
    "too_large": "split it into smaller parts",
    "unknown_format": "name the source with --source; `faultbridge sources` lists them",
    "unknown_source": "`faultbridge sources` lists them",
    "wrong_shape": "`faultbridge sources` shows an example of each format",
}
"""Reasons that mean input which cannot be decoded (exit code 65)."""
