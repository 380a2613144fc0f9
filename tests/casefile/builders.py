"""Case files of simulated histories, and changes that a forger could make to them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from faultbridge.model.enums import CaseStatus
from faultbridge.model.nodes import Head
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete, Key
from faultbridge.record.append import Stack
from faultbridge.record.archive.anchor import Anchor, leaf, merkle_root
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all
from faultbridge.repair.registry.views import CaseView, Views
from faultbridge.serve.casefile.collect import CaseFiles, pack
from tests.sim.history import build_system, draw_actions, play_on

Members = dict[str, bytes]


def case_files(seed: int, kept: int | None = None) -> Iterator[bytes]:
    """Yield the file of each case of a simulated history, whose streams are anchored at its end.

    With `kept`, the table has only this number of the last entries of each case, because the earlier ones expired.
    """
    system = build_system(seed)
    play_on(system, seed, draw_actions(seed))
    ports, stacks = system.ports, []
    system.workers.operate(lambda app: stacks.append(app.stack))
    stack: Stack = stacks[0]
    views = Views(ports.table)
    for cluster in views.clusters():
        Anchor(ports.table, ports.vault, ports.clock, stack)(cluster.config)
    write = CaseFiles(ports.table, ports.vault, ports.clock, stack)
    for cluster in views.clusters():
        for view in views.cases(cluster.config.cluster, tuple(CaseStatus)):
            if kept is not None:
                expire(ports.table, view, kept)
            yield write(view)


def expire(table: Table, view: CaseView, kept: int) -> None:
    """Delete the entries of a node's stream up to the last ones of a case, of which `kept` remain."""
    rows = list(query_all(table, keys.node_partition(view.key), prefix=keys.ENTRY))
    own = [place for place, row in enumerate(rows) if f'"case_id":"{view.case.id}"' in str(row["body"])]
    end = own[len(own) - kept] if kept else len(rows)
    for row in rows[:end]:
        table.transact([Delete(Key(str(row["pk"]), str(row["sk"])))])


def unpack(packed: bytes) -> Members:
    """Return the members of a case file without its manifest."""
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if name != "manifest.json"}


def entries_of(members: Members) -> list[dict[str, Any]]:
    """Return the entries of a case file, each with its parsed event."""
    lines = members["entries.jsonl"].decode().splitlines()
    return [{**(stored := json.loads(line)), "event": json.loads(stored["body"])} for line in lines]


def resealed(members: Members, entries: list[dict[str, Any]]) -> Members:
    """Return the members with these entries, with new sequence numbers, hashes and anchor: the most a forger can do."""
    case, anchor = json.loads(members["case.json"]), json.loads(members["anchor.json"])
    ends, lines = dict(case["starts"]), []
    for entry in entries:
        stream = entry["event"]["metadata"]["stream"]
        epoch, sequence, previous = ends[stream]
        if entry["epoch"] != epoch:
            epoch, sequence = entry["epoch"], 0
        sequence += 1
        if sequence == 1:
            genesis = f"{case['stack_id']}/{epoch}/{stream}"
            previous = hashlib.sha256(genesis.encode()).hexdigest()
        entry["event"]["metadata"]["sequence"] = sequence
        body = json.dumps(entry["event"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256((previous + body).encode()).hexdigest()
        stored = {**entry, "sequence": sequence, "body": body, "hash": previous}
        lines.append(json.dumps({name: value for name, value in stored.items() if name != "event"}))
        ends[stream] = anchor["heads"][stream] = [epoch, sequence, previous]
    heads = {name: Head(epoch=one[0], sequence=one[1], hash=one[2]) for name, one in anchor["heads"].items()}
    anchor["root"] = merkle_root([leaf(name, head) for name, head in sorted(heads.items())])
    text = "".join(f"{line}\n" for line in lines).encode()
    return {**members, "entries.jsonl": text, "anchor.json": json.dumps(anchor).encode()}


Change = Callable[[Members, Random], Members | None]


def flip_a_byte(members: Members, random: Random) -> Members | None:
    """Change one character of a member of the file; the manifest is written again."""
    name = random.choice(sorted(members))
    body = bytearray(members[name])
    # Only the copy in the vault proves the time of the anchor and the name of its stack.
    first, last = (body.find(b'"heads"'), body.find(b'"stack"')) if name == "anchor.json" else (0, len(body))
    place = random.choice([at for at in range(first, last) if not chr(body[at]).isspace()])
    body[place] = ord("a") if body[place] != ord("a") else ord("b")
    return {**members, name: bytes(body)}


def drop_an_entry(members: Members, random: Random) -> Members | None:
    """Leave out one entry without new hashes."""
    lines = members["entries.jsonl"].splitlines(keepends=True)
    lines.pop(random.randrange(len(lines)))
    return {**members, "entries.jsonl": b"".join(lines)}


def _steps(entries: list[dict[str, Any]], step: str, *outcomes: str) -> list[dict[str, Any]]:
    return [
        one
        for one in entries
        if one["event"]["metadata"]["event_type"] == "Node Replacement Step"
        and one["event"]["data"]["step"] == step
        and one["event"]["data"]["outcome"] in outcomes
    ]


def _own(members: Members, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    case = json.loads(members["case.json"])["case_id"]
    return [one for one in found if one["event"]["metadata"]["case_id"] == case]


def forge_without_intent(members: Members, random: Random) -> Members | None:
    """Leave out the intent of a release, and seal everything again."""
    entries = entries_of(members)
    if not _own(members, _steps(entries, "release_instance", "released")):
        return None
    intents = _own(members, _steps(entries, "intent", "committed"))
    return resealed(members, [one for one in entries if one not in intents])


def forge_another_instance(members: Members, random: Random) -> Members | None:
    """Let the intent name another instance, and seal everything again."""
    entries = entries_of(members)
    if not _own(members, _steps(entries, "release_instance", "released", "begun")):
        return None
    for one in _own(members, _steps(entries, "intent", "committed")):
        one["event"]["data"]["old_instance"] = "i-0123456789abcdef0"
    return resealed(members, entries)


def forge_without_diagnostics(members: Members, random: Random) -> Members | None:
    """Leave out the passed diagnostics of a node that returned to service, and seal everything again."""
    entries = entries_of(members)
    changes = [one["event"]["data"] for one in _own(members, entries)]
    if not any(one.get("from") == "validating" and one.get("to") in {"healthy", "degraded"} for one in changes):
        return None
    passed = _own(members, _steps(entries, "verify", "passed"))
    return resealed(members, [one for one in entries if one not in passed])


def forge_a_status(members: Members, random: Random) -> Members | None:
    """Let a status change start from a status that permits no such change, and seal everything again."""
    entries = entries_of(members)
    changes = [
        one for one in _own(members, entries) if one["event"]["metadata"]["event_type"].endswith(" Status Change")
    ]
    random.choice(changes)["event"]["data"]["from"] = "retired"
    return resealed(members, entries)


def forge_without_approval(members: Members, random: Random) -> Members | None:
    """Leave out the approvals of a case whose rule required them, and seal everything again."""
    entries = entries_of(members)
    given = [
        one
        for one in _own(members, entries)
        if one["event"]["data"].get("kind") == "approval" and "order" in one["event"]["data"]["facts"]
    ]
    if not given or not _own(members, _steps(entries, "intent", "committed")):
        return None
    return resealed(members, [one for one in entries if one not in given])


def forge_the_rule(members: Members, random: Random) -> Members | None:
    """Let the rule of a fault match another failure mode, in the policy that the file contains."""
    policies = json.loads(members["policies.json"])
    for document in policies.values():
        for rule in document["rules"]:
            rule["match"] = {**(rule.get("match") or {}), "modes": ["none.such"]}
    entries = entries_of(members)
    opened = [one["event"]["data"] for one in _own(members, entries) if one["event"]["data"].get("cause")]
    mode = opened[0]["cause"]["failure_mode"] if opened else None
    faults = [one["event"] for one in entries if one["event"]["metadata"]["event_type"] == "Node Fault Detected"]
    named = {one["data"]["rule"] for one in faults if one["data"]["failure_mode"] == mode}
    if not named & {rule["name"] for document in policies.values() for rule in document["rules"]}:
        return None
    return {**members, "policies.json": json.dumps(policies).encode()}


def forge_the_policy_with_its_hash(members: Members, random: Random) -> Members | None:
    """Let a policy require no approval, and give it the hash of its new document as the version."""
    policies = json.loads(members["policies.json"])
    for version, document in list(policies.items()):
        parts = {name: value for name, value in document.items() if name != "version"} | {"note": "changed"}
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        changed_version = hashlib.sha256(text.encode()).hexdigest()[:12]
        policies[changed_version] = {**parts, "version": changed_version}
        del policies[version]
    return {**members, "policies.json": json.dumps(policies).encode()}


def name_a_policy_without_a_hash(members: Members, random: Random) -> Members | None:
    """Name the policies with texts that are no hashes, in the entries too, and seal everything again."""
    entries, policies = entries_of(members), json.loads(members["policies.json"])
    for entry in entries:
        for part in (entry["event"]["data"], entry["event"]["data"].get("facts") or {}):
            if part.get("policy") in policies:
                part["policy"] = f"policy {part['policy']}"
    named = {f"policy {name}": {**document, "version": f"policy {name}"} for name, document in policies.items()}
    return {**resealed(members, entries), "policies.json": json.dumps(named).encode()}


def forge_the_form(members: Members, random: Random) -> Members | None:
    """Change a value of the form, or the label of one."""
    form = json.loads(members["form.json"])
    random.choice(form["fields"])[random.choice(["value", "name"])] = "something else"
    return {**members, "form.json": json.dumps(form, indent=1, ensure_ascii=False).encode()}


def exclude_a_cause(members: Members, random: Random) -> Members | None:
    """Let the form say that a cause was excluded, or how."""
    form = json.loads(members["form.json"])
    cause = random.choice([one for one in form["causes"] if one["excluded"] is not True])
    cause.update({"excluded": True, "how": "tested twice"})
    return {**members, "form.json": json.dumps(form, indent=1, ensure_ascii=False).encode()}


def forge_the_page(members: Members, random: Random) -> Members | None:
    """Add a row to the page that people read."""
    row = b"<tr><th>Diagnostics</th><td>passed</td><td></td></tr>\n</table>"
    return {**members, "form.html": members["form.html"].replace(b"</table>", row, 1)}


def forge_the_history(members: Members, random: Random) -> Members | None:
    """Add a line to the history of the device, or leave one out."""
    history = json.loads(members["history.json"])
    if history:
        history.pop(random.randrange(len(history)))
    else:
        history.append({"at": "2026-02-03T04:55:25.942Z", "kind": "fault", "node": "node-1", "text": "fatal xid.79"})
    return {**members, "history.json": json.dumps(history, indent=1, ensure_ascii=False).encode()}


def forge_the_catalog(members: Members, random: Random) -> Members | None:
    """Change the meaning of the fault's code in the catalog."""
    catalog, form = json.loads(members["catalog.json"]), json.loads(members["form.json"])
    code = next(one["value"] for one in form["fields"] if one["name"] == "Fault code")
    if code not in catalog:
        return None
    catalog[code]["name"] = "broken by the tenant"
    text = json.dumps(catalog, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**members, "catalog.json": text.encode()}


def forge_the_program(members: Members, random: Random) -> Members | None:
    """Let the program of the form exclude each cause, or let the verifier in the file accept everything."""
    name, changed_text = random.choice([("form.py", b"return _cause("), ("verify_case.py", b"raise Defect(")])
    return {**members, name: members[name].replace(changed_text, b"pass; " + changed_text)}


def forge_the_table(members: Members, random: Random) -> Members | None:
    """Permit every change in the table that the file contains."""
    return {**members, "transitions.json": members["transitions.json"].replace(b"quarantined", b"healthy")}


def drop_the_anchor(members: Members, random: Random) -> Members | None:
    """Leave out the anchor."""
    return {**members, "anchor.json": b"{}"}


CHANGES: dict[Change, str] = {
    flip_a_byte: "",
    drop_an_entry: "does not follow|anchor|end of the case|opening|hash",
    forge_without_intent: "without an earlier intent|claimed before|names an entry that is not",
    forge_another_instance: "is not the instance i-0123456789abcdef0",
    forge_without_diagnostics: "without passed diagnostics",
    forge_a_status: "is not permitted|but the one before it ended",
    forge_without_approval: "requires an approval",
    forge_the_rule: "has another hash than its version",
    forge_the_policy_with_its_hash: r"policy [0-9a-f]{12} is not in the file",
    name_a_policy_without_a_hash: "has another hash than its version",
    forge_the_form: r"form\.json has the line .* but the entries state",
    exclude_a_cause: r"form\.json has the line .* but the entries state",
    forge_the_page: r"form\.html has the line .* but the entries state",
    forge_the_history: r"history\.json has the line .* but the entries state",
    forge_the_catalog: r"catalog\.json has another hash than the manifest or this release states",
    forge_the_program: r"(form|verify_case)\.py has another hash than the manifest or this release states",
    forge_the_table: r"transitions\.json has another hash than the manifest or this release states",
    drop_the_anchor: "no anchor covers",
}
"""Each change, and what the verifier says about it."""


def changed(packed: bytes, change: Change, random: Random) -> bytes | None:
    """Return a case file after a change, with a new manifest; None if the case has nothing to change in this way."""
    members = change(unpack(packed), random)
    return None if members is None else pack(members)
