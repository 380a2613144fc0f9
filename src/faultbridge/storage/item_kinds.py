"""Item kinds: every kind of table item, and which of its attributes `faultbridge verify` proves.

A test fails if the product stores a kind of item or an attribute that is not listed here. The page
`docs/reference/proof.md` is generated from this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from faultbridge.storage.proof import ItemKind, Proof
from faultbridge.storage.writes import Key

_NODE, _CLUSTER, _SHARD = r"NODE#[^#]+#.+", r"CLUSTER#[^#]+", r"CLUSTER#[^#]+#\d+"
_HEARTBEATS = r"CLUSTER#[^#]+#HEARTBEATS"
_INDEX_KEYS = "gsi1pk gsi1sk gsi2pk gsi2sk gsi3pk gsi3sk gsi4pk gsi4sk gsi5pk gsi6pk"
_WORK = "Directs current work. It does not describe the past."
_OPEN = "Its beginning, its end and its marks are entries of the node."
_BY_FAULTS = "Found by the entries of the device."
_IS_ENTRY = " Its changes are entries of the cluster's stream."

ITEM_KINDS = (
    ItemKind(
        "entry",
        rf"{_NODE}|{_CLUSTER}",
        r"ENTRY#.*",
        hashed="body hash evidence",
        derived="schema updated_at type cluster node epoch sequence event_id severity recorded_at case_id device "
        + _INDEX_KEYS,
        unproven="instance_id expires_at",
        may_lack="gsi4pk gsi4sk",
        limit="`gsi4pk` and `gsi4sk` exist until the entry is published. `instance_id` selects the resource of the "
        "published event; the body of a fault or status change contains the instance too. `expires_at` is reported "
        "on an entry that is not sealed in the archive; on a sealed entry its value is not checked. When the entry "
        "before a sealed entry has expired, only the archive proves its body.",
    ),
    ItemKind(
        "node state",
        _NODE,
        "STATE",
        derived="schema version gsi4pk gsi4sk state.key state.head state.status state.status_event state.case",
        unproven="state.shard state.placement state.incarnation state.former_instances state.conditions "
        "state.tombstones state.floor state.evicted state.snapshots state.noted state.damped state.devices "
        "state.isolation "
        "state.isolation_since state.isolation_overdue state.isolation_tries state.isolation_again_at "
        "state.permitted_at state.discouraged "
        "state.orchestrator_lost_at state.unverified state.ignored state.case_deferred_until state.due_at "
        "state.case_event state.probations state.custody state.jobs state.moving_volumes",
        limit="`state.status` and the status of `state.case` are compared with the last entries that changed them, as "
        "long as these are in the table. The other keys decide what is done next; the entries show what was done.",
    ),
    ItemKind(
        "cluster state",
        _CLUSTER,
        "STATE",
        derived="schema version state.cluster state.head state.status",
        unproven="state.counts state.incidents state.provider state.target state.verified state.occupied",
        limit="`state.counts` is computed again when a node changes its status, and what the provider reports when it "
        "is asked again.",
    ),
    ItemKind(
        "case",
        r"CASE#.+",
        "CASE",
        derived="schema case_id cluster node status opened closed resolution waiting_for severity gsi2pk gsi2sk "
        "case.id case.status case.opened_at case.closed_at case.resolution case.waiting_for case.severity",
        unproven="case.code case.component case.action case.repair_action case.rule case.policy case.isolate "
        "case.not_before case.attempts case.uncounted case.attempt case.approval case.cancelled case.reason case.marks "
        "case.previous_case case.gpus case.incident case.held_from case.relapse_of "
        "case.governed_by case.capacity_since case.capacity_checks case.wait_paged case.claimed",
        limit="The current case of a node is compared completely with the node's state; earlier cases are not. A "
        "case is found by the entries that name it, as long as these are in the table.",
    ),
    ItemKind(
        "unhealthy node",
        _SHARD,
        r"BAD#.+",
        derived="schema node status severity group domain case opened event deferred_until domains families incident "
        "unverified ended failed_step repeated awaits_correlation isolated needs_permit joining left_at code sources "
        "not_drained vacant",
    ),
    ItemKind("node with a requested isolation", _SHARD, r"CORDON#.+", derived="schema node"),
    ItemKind("refuted or expired claims of a node", _SHARD, r"FALSE#.+", derived="schema node until"),
    ItemKind("case held by an incident", _SHARD, r"HELD#.+", derived="schema node case incident opened"),
    ItemKind("incident", _CLUSTER, r"INCIDENT#.+", unproven="incident expires_at", limit=_WORK + _IS_ENTRY),
    ItemKind("known group", _CLUSTER, r"GROUP#.+", unproven="known_since", limit=_WORK),
    ItemKind("fault onsets", _CLUSTER, "ONSETS", unproven="version history", limit=_WORK),
    ItemKind(
        "queued case",
        _SHARD,
        r"ADMISSION#.+",
        derived="schema node case repair_action waiting_for not_before rule domain domains families "
        "group approved approval_pending reason opened repeated needs_permit lost capacity_since",
    ),
    ItemKind(
        "node in the node list",
        _SHARD,
        r"NODE#.+",
        derived="node",
        unproven="generation instance group type domain domains zone names slot described opted_out retired",
        limit="What the provider reported. Inventory writes it again. Only anchors detect that a node was deleted "
        "together with its record.",
    ),
    ItemKind(
        "seal of a stream",
        rf"{_NODE}|{_CLUSTER}",
        "ANCHOR",
        derived="epoch seq hash place",
        unproven="segment expires_to",
        limit="`verify --anchor` compares the position and the hash with the manifest in the vault.",
    ),
    ItemKind(
        "job link",
        r"JOB#[^#]+#.+",
        r"\d{4}-.+",
        derived="schema updated_at entry_pk entry_sk",
        limit="A link is compared as long as its entry is in the table.",
    ),
    ItemKind(
        "sighting of a device",
        r"DEV#.+",
        r"\d{4}-.+",
        derived="schema updated_at cluster node instance_id pci uuid seen_at entry_pk entry_sk",
        limit="A sighting is compared as long as its entry is in the table.",
    ),
    ItemKind(
        "devices seen by an entry",
        _NODE,
        r"SEEN#.+",
        derived="schema updated_at recorded_at epoch sequence devices",
        limit="It is compared as long as its entry is in the table.",
    ),
    ItemKind("finding", _CLUSTER, r"FINDING#.+", unproven="finding expires_at", limit=_OPEN),
    ItemKind("totals of peers", _CLUSTER, r"PEERS#.+", unproven="at baselines", limit=_WORK),
    ItemKind("device with a fault", r"DEVICES#.+", ".+", derived="device", limit=_BY_FAULTS),
    ItemKind("device link", r"DEV#.+", "DEVICE", derived="serial", limit=_BY_FAULTS),
    ItemKind("cluster registration", _CLUSTER, "CONFIG", derived="version", unproven="config", limit=_WORK),
    ItemKind("cluster in the cluster list", "CLUSTERS", r".+", unproven="cluster", limit=_WORK),
    ItemKind(
        "repair slots",
        _CLUSTER,
        "CONTROL",
        unproven="version cluster holders starts paused breakers budget_used_up no_capacity_until events holds "
        "permits evictions eviction_limits unverified",
        limit=_WORK + _IS_ENTRY,
    ),
    ItemKind("spare", _CLUSTER, r"SPARE#\d+", unproven="version spare", limit=_WORK),
    ItemKind("last anchor", _CLUSTER, "ANCHORED", unproven="key", limit="The vault lists the anchors."),
    ItemKind("last sealed day", _CLUSTER, "SEALED", unproven="day", limit="The vault lists the sealed days."),
    ItemKind(
        "followed job",
        _SHARD,
        r"FOLLOWED#.+",
        unproven="job_id nodes affected callbacks is_marked ended_at version",
        limit=_WORK,
    ),
    ItemKind("lease of job callbacks", _CLUSTER, "CALLBACKS", unproven="version until", limit=_WORK),
    ItemKind(
        "job",
        r"JOB#[^#]+#.+",
        "JOB",
        unproven="cluster job_id name nodes started_at ended_at outcome version hits affected resumable_at verdict "
        "callbacks to_mark ranks stall_after stalled_at alarm",
        limit=_WORK + " The entries about the job are proven.",
    ),
    ItemKind(
        "job progress",
        r"JOB#[^#]+#.+",
        "PROGRESS",
        unproven="version run step advanced_at seen_at losses rollback gsi4pk gsi4sk",
        limit=_WORK,
    ),
    ItemKind(
        "heartbeats of a batch", _HEARTBEATS, r"BATCH#.+", unproven="heartbeats snapshots expires_at", limit=_WORK
    ),
    ItemKind("last heartbeats", _HEARTBEATS, r"LAST#\d+", unproven="version read_to last", limit=_WORK),
    ItemKind("counter samples", _NODE, r"READING#.+", unproven="at samples", limit=_WORK),
    ItemKind(
        "alias",
        r"ALIAS#.+",
        "ALIAS",
        unproven="row valid_from expires_at",
        limit="Decides which node a record is about.",
    ),
    ItemKind(
        "claim", r"INSTANCE#.+", "CLAIM", unproven="cluster node case attempt", limit=_WORK + " Its step is an entry."
    ),
    ItemKind("lease of a peer", r"INSTANCE#.+", "PEER", unproven="holder until expires_at", limit=_WORK),
    ItemKind(
        "page of a case",
        r"CASE#.+",
        r"PAGE#.+",
        unproven="epoch event_id expires_at message_id page_state possibly_sent sent_at sequence state",
        limit="Prevents repeated pages.",
    ),
    ItemKind("open page", r"PAGES#.+", r"LIVE#.+|SUMMARY", unproven="live sent event_id", limit=_WORK),
    ItemKind("sent pages in an hour", r"PAGES#.+", r"HOUR#.+", unproven="sent expires_at", limit=_WORK),
    ItemKind("poison message", r"TRY#.+", "TRY", unproven="n expires_at", limit=_WORK),
    ItemKind("webhook request", r"WEBHOOK#.+", "WEBHOOK", unproven="expires_at", limit="Prevents repeated requests."),
    ItemKind(
        "request to a provider",
        r"REQUEST#.+",
        "REQUEST",
        unproven="recorded_at progress holder expires_at",
        limit="Prevents repeated requests.",
    ),
    ItemKind(
        "reject",
        r"CLUSTER#.+#REJECT",
        r"\d{4}-.+",
        unproven="reason rejected_at reject expires_at gsi4pk gsi4sk",
        limit="Deleted after 30 days.",
    ),
    ItemKind(
        "reject counter",
        r"CLUSTER#.+#REJECT",
        r"HOUR#.+",
        unproven="reason source n dropped expires_at",
        limit="Deleted after 30 days.",
    ),
    ItemKind("policy", r"POLICY#.+", "POLICY", unproven="policy", limit="Entries name the version of their policy."),
    ItemKind("policy in the policy list", "POLICY", "VERSION#.+", unproven="version put_by", limit=_WORK),
    ItemKind("current policy", "POLICY", "CURRENT", unproven="version shadow", limit=_WORK),
    ItemKind("mapping", r"MAPPING#.+", "MAPPING", unproven="mappings", limit=_WORK),
    ItemKind("current mapping", "MAPPING", "CURRENT", unproven="version", limit=_WORK),
    ItemKind("last sweep", "SWEEP", "LAST", unproven="unfinished failures", limit=_WORK),
    ItemKind("canary", "CANARY", "RECORDED|RECEIVED", unproven="sent_at", limit=_WORK),
)
"""Every kind of item in the table."""


def unlisted_attributes(key: Key, names: Iterable[str]) -> list[str]:
    """Return each attribute that an item's kind does not list, as text; one text if the kind is unknown."""
    kind = kind_of(key)
    if kind is None:
        return [f"unknown kind of item: {key.pk} {key.sk}"]
    return sorted(f"{kind.name}: {name}" for name in names if not kind.lists(name))


_BY_NAME = {kind.name: kind for kind in ITEM_KINDS}


@lru_cache(maxsize=4096)
def kind_of(key: Key) -> ItemKind | None:
    """Return the kind of the table item with this key, or None if no kind matches."""
    return next((kind for kind in ITEM_KINDS if kind.matches(key)), None)


def proof_of(kind: str, attribute: str) -> Proof | None:
    """Return how `faultbridge verify` proves an attribute of a kind of item; None if the kind does not list it."""
    return _BY_NAME[kind].proof(attribute)
