"""What was asked of a stack and cannot be: wrong usage, and how to mend it, by the stable reason."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, str] = {
    "alias_taken": "a name leads to one node only; leave it out or choose another",
    "bad_cluster_name": "choose another name",
    "bad_instance_id": "give the id as EC2 writes it",
    "bad_job": "give it the id that the scheduler gave it",
    "bad_node_name": "choose another name",
    "bad_nodes": "name the nodes with --node",
    "bad_shards": "see `faultbridge cluster add --help`",
    "bad_time": "give another with --at",
    "bad_token": "start again without it",
    "case_over": "`faultbridge case show` tells how it ended",
    "cluster_exists": "change it with `faultbridge cluster set`",
    "job_runs": "`faultbridge job end` ends it",
    "node_exists": "`faultbridge node show` tells who sits there",
    "node_retired": "choose another name",
    "cluster_lives": "`faultbridge case list --cluster C` lists them; end them first",
    "no_stack_id": "give --stack-id, or copy the manifests and anchors too",
    "not_settable": "see `faultbridge cluster set --help`",
    "not_asked": "`faultbridge case show` tells what it waits for",
    "not_cancellable": "`faultbridge case show` tells why",
    "nothing_asked": "name a cluster with --cluster, or a case with --case",
    "past_intent": "wait for its end; `faultbridge case show` tells how far it is",
    "raw_gone": "send it again from its source",
    "too_late": "the case is with a person now; `faultbridge case show` tells with whom",
    "too_many_aliases": "leave some out",
    "unknown_case": "`faultbridge case list --cluster C` lists them",
    "unknown_cluster": "`faultbridge cluster list` lists them, `faultbridge cluster add` registers one",
    "unknown_epoch": "leave --epoch out to begin a new one",
    "unknown_group": "check its name, and --region and --profile",
    "unknown_job": "`faultbridge job start` notes it",
    "unknown_node": "`faultbridge node list --cluster C` lists them, `faultbridge node add` registers one",
    "unknown_policy": "`faultbridge policy show` shows the one that holds",
    "unknown_reject": "`faultbridge reject list` lists them",
}
