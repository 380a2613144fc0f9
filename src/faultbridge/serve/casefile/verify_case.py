"""Verify a case file of Faultbridge: `python3 verify_case.py case.zip [anchor]`. Exit code 1 names a defect.

The program needs only the standard library. It checks that the entries are a hash chain up to an anchor, and that they
prove the repair: each status change is permitted, the intent came before the release and names the released
instance, a required approval exists, diagnostics passed before the return, and the policy rule matches the facts.
A second argument is a copy of the anchor in your vault, with which the one of the file is compared.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

TRANSITIONS = "5202fb7ff12890fd47ff756ca30cefeb613ae65c0bf711534bcb9b69e86c6f24"
"""SHA-256 of transitions.json, the published tables of permitted status changes (docs/state-machine.md)."""

_JSON = ("anchor", "case", "catalog", "form", "history", "policies", "transitions")
NAMES = {*(f"{name}.json" for name in _JSON), "entries.jsonl", "form.html", "verify_case.py"}
IN_SERVICE, IN_PLACE, RELEASE = {"healthy", "degraded"}, {"reset_gpu", "reboot_node"}, "release_instance"
LIMIT = 200_000_000
Json = dict[str, Any]


class Defect(Exception):  # noqa: N818 - the word that the reader sees
    """What does not hold."""


def once(pairs: list[tuple[str, Any]]) -> Json:
    """Return a JSON object; readers would disagree about one with a key twice."""
    if len(dict(pairs)) < len(pairs):
        raise Defect("a JSON object has a key twice")
    return dict(pairs)


PARSER = json.JSONDecoder(object_pairs_hook=once)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


class Entry:
    """One entry of the file: its position, hash and exact body, and the parts of the body."""

    def __init__(self, line: str) -> None:
        stored = PARSER.decode(line)
        self.place = stored["epoch"], stored["sequence"]
        self.hash, self.body, self.evidence = str(stored["hash"]), str(stored["body"]), stored["evidence"]
        self.metadata, self.data = (PARSER.decode(self.body)[part] for part in ("metadata", "data"))
        self.type, self.case, self.id = (self.metadata[one] for one in ("event_type", "case_id", "event_id"))
        self.name = f"entry {self.place[0]}/{self.place[1]} ({self.type})"


class CaseFile:
    """The parsed members of a case file, whose hashes are those of its manifest."""

    def __init__(self, path: str, anchor: str | None) -> None:
        self.anchor = anchor
        with zipfile.ZipFile(path) as packed:
            listed = packed.infolist()
            if sum(one.file_size for one in listed) > LIMIT or len({one.filename for one in listed}) < len(listed):
                raise Defect("the file is too large, or has a member twice")
            members = {one.filename: packed.read(one) for one in listed}
        manifest = PARSER.decode(members.pop("manifest.json", b"{}").decode()).get("files", {})
        if wrong := (set(manifest) ^ NAMES) | (set(members) ^ NAMES):
            raise Defect(f"missing or unknown members: {', '.join(sorted(wrong))}")
        for name, body in sorted(members.items()):
            if hashlib.sha256(body).hexdigest() != manifest[name]:
                raise Defect(f"{name} has another hash than the manifest states")
        self.members = members
        self.case: Json = PARSER.decode(members["case.json"].decode())
        self.entries = [Entry(line) for line in members["entries.jsonl"].decode().split("\n") if line]
        self.own = [one for one in self.entries if one.case == self.case["case_id"]]
        self.policies: dict[str, Json] = PARSER.decode(members["policies.json"].decode())
        if not self.own or self.case["missing"]:
            raise Defect(self.case["missing"] or "the file has no entry of the case")

    def steps(self, *names: str) -> list[Entry]:
        """Return the entries of these steps of the case, in their order."""
        return [e for e in self.own if e.type == "Node Replacement Step" and e.data["step"] in names]


def check_chain(file: CaseFile) -> None:
    """Check that the entries follow each other, that their hashes cover them, and that they are where they say."""
    case = file.case
    epoch, sequence, previous = (case["start"][name] for name in ("epoch", "sequence", "hash"))
    for entry in file.entries:
        if entry.place[0] > epoch and entry.place[1] == 1:
            epoch, sequence = entry.place[0], 0
        if entry.place != (epoch, sequence + 1):
            raise Defect(f"{entry.name} does not follow {epoch}/{sequence}")
        sequence += 1
        if sequence == 1:
            previous = sha256("/".join((case["stack_id"], str(epoch), case["cluster"], case["node"])))
        if sha256(previous + entry.body) != entry.hash:
            raise Defect(f"{entry.name}: the hash does not cover the body and the entry before it")
        expected = {"epoch": epoch, "sequence": sequence, **{n: case[n] for n in ("stream", "cluster", "node")}}
        if wrong := [name for name, value in expected.items() if entry.metadata[name] != value]:
            raise Defect(f"{entry.name}: its {wrong[0]} is another one")
        if entry.evidence is not None and sha256(entry.evidence) != entry.data.get("evidence_sha256"):
            raise Defect(f"{entry.name}: the evidence has another hash")
        previous = entry.hash


def check_anchor(file: CaseFile) -> None:
    """Check that the anchor has the hash of an entry after the case, that its root covers it, and that it is yours."""
    anchor = PARSER.decode((body := file.members["anchor.json"]).decode())
    own = Path(file.anchor).read_bytes() if file.anchor else body
    if (gzip.decompress(own) if own[:2] == b"\x1f\x8b" else own) != body:
        raise Defect("the anchor is another one than yours")
    if not anchor:
        raise Defect("no anchor covers the case; write the file again after the next full hour")
    if (anchor["stack_id"], anchor["cluster"]) != (file.case["stack_id"], file.case["cluster"]):
        raise Defect("the anchor is of another cluster")
    head = anchor["heads"].get(file.case["stream"])
    known = {one.place: one.hash for one in file.entries}
    if head is None or known.get((head[0], head[1])) != head[2]:
        raise Defect("the anchor names another entry as the last one of the stream")
    if file.own[-1].place > (head[0], head[1]):
        raise Defect("the anchor does not cover the end of the case")
    if _root(anchor["heads"]) != anchor["root"]:
        raise Defect("the root of the anchor does not cover its heads")


def _root(heads: Json) -> str:
    texts = (json.dumps([n, *head], separators=(",", ":"), ensure_ascii=False) for n, head in sorted(heads.items()))
    level = [hashlib.sha256(b"\x00" + text.encode()).digest() for text in texts]
    while len(level) > 1:
        pairs = [level[first : first + 2] for first in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(p)).digest() if len(p) > 1 else p[0] for p in pairs]
    return level[0].hex()


def check_transitions(file: CaseFile) -> None:
    """Check that each status change is an edge of the published tables, and starts where the one before it ended."""
    body = file.members["transitions.json"]
    if hashlib.sha256(body).hexdigest() != TRANSITIONS:
        raise Defect("transitions.json is not the published table")
    rows = PARSER.decode(body.decode()).items()
    edges = {kind: {(s, t, actor) for s, t, actors, _ in table for actor in actors} for kind, table in rows}
    last: dict[str, str] = {}
    for entry in file.entries:
        kind = entry.type.partition(" Status Change")[0].lower()
        if kind not in edges:
            continue
        subject, source, target = str(entry.case if kind == "case" else "node"), entry.data["from"], entry.data["to"]
        if (source, target, entry.metadata["recorded_by"]) not in edges[kind]:
            raise Defect(f"{entry.name}: {source} to {target} is not permitted")
        if last.get(subject, source) != source:
            raise Defect(f"{entry.name}: it starts at {source}, but the one before it ended at {last[subject]}")
        last[subject] = target
    if last.get(str(file.case["case_id"])) != file.case["status"]:
        raise Defect("the case did not end with the stated status")


def check_intents(file: CaseFile) -> None:
    """Check that each release and each reset or reboot has an earlier intent, which names the same instance."""
    intent: Entry | None = None  # a recovered attempt has the next number, and the intent of the one before it
    for entry in file.steps("intent", "repair_in_place", RELEASE):
        data = entry.data
        if data["step"] == "intent" and data["outcome"] == "committed":
            intent = entry
        if data["outcome"] not in {"begun", "back", "released", "inconclusive"}:
            continue
        if intent is None:
            raise Defect(f"{entry.name}: {data['step']} without an earlier intent")
        instance = data["old_instance"] if data["step"] == RELEASE else data["new_instance"]
        if instance is not None and instance != intent.data["old_instance"]:
            raise Defect(f"{entry.name}: {instance} is not the instance {intent.data['old_instance']} of the intent")
        if (data["step"] == RELEASE) == (intent.data["repair_action"] in IN_PLACE):
            raise Defect(f"{entry.name}: the intent is for {intent.data['repair_action']}")
    others = [e.place for e in file.own if e.data.get("to") == "provisioning" and e.metadata["recorded_by"] != "step"]
    for entry in file.steps("await_successor"):
        released = [e.place for e in file.steps(RELEASE) if e.place < entry.place]
        if entry.data["outcome"] == "claimed" and not (released or others):
            raise Defect(f"{entry.name}: a successor was claimed before the release")


def check_approvals(file: CaseFile) -> None:
    """Check that each intent whose rule requires an approval has one, given for its attempt and repair action."""
    answers: dict[tuple[int, str], Entry] = {}
    for entry in file.own:
        data = entry.data
        if entry.type == "Node Note Recorded" and data["kind"] == "approval" and "order" in data["facts"]:
            answers[data["facts"]["attempt"], data["facts"]["repair_action"]] = entry
        if entry.type != "Node Replacement Step" or data["step"] != "intent" or data["outcome"] != "committed":
            continue
        rule = _rule(file, entry, data["facts"]["policy"], data["facts"]["rule"])
        answer = answers.get((data["attempt"], data["repair_action"]))
        is_given = answer is not None and answer.data["facts"]["order"] == "approved" and answer.data["operator"]
        if data["repair_action"] in rule.get("approval", ()) and not is_given:
            raise Defect(f"{entry.name}: rule {rule['name']} requires an approval of {data['repair_action']}")


def _rule(file: CaseFile, entry: Entry, version: str, name: str) -> Json:
    policy = file.policies.get(version)
    if policy is None:
        raise Defect(f"{entry.name}: policy {version} is not in the file")
    parts = {key: value for key, value in policy.items() if key != "version"}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if re.fullmatch("[0-9a-f]{12}", version) and sha256(text)[:12] != version:
        raise Defect(f"the document of policy {version} has another hash than its version")
    return next((rule for rule in policy["rules"] if rule["name"] == name), {"name": name})


def check_verifications(file: CaseFile) -> None:
    """Check that diagnostics passed on the instance before the case returned its node to service."""
    passed: str | None = None
    for entry in file.own:
        data = entry.data
        if entry.type == "Node Replacement Step" and data["step"] == "verify" and data["outcome"] == "passed":
            passed = data["new_instance"]
        if entry.type == "Node Status Change" and data["from"] == "validating" and data["to"] in IN_SERVICE:
            instance = (data["incarnation"] or {}).get("instance_id")
            if passed is None or passed != instance:
                raise Defect(f"{entry.name}: {instance} returned to service without passed diagnostics")
        elif entry.type == "Node Status Change":
            passed = None


def check_rules(file: CaseFile) -> None:
    """Check that the rule of the case's cause is the first rule of its policy that matches the recorded facts."""
    opened = next((e for e in file.own if e.type == "Case Status Change" and e.data["from"] is None), None)
    if opened is None:
        raise Defect("the opening of the case is not in the file")
    cause = opened.data["cause"]
    for entry in file.entries:
        data = entry.data
        if entry.type != "Node Fault Detected" or data["failure_mode"] != cause["failure_mode"]:
            continue
        _rule(file, entry, data["policy"], data["rule"])
        for rule in file.policies[data["policy"]]["rules"]:
            found = _matches(rule, data, file.case["cluster"])
            if rule["name"] == data["rule"]:
                if found is False:
                    raise Defect(f"{entry.name}: rule {rule['name']} does not match the facts")
                break
            if found:
                raise Defect(f"{entry.name}: rule {rule['name']} matches before rule {data['rule']}")


def _matches(rule: Json, data: Json, cluster: str) -> bool | None:
    """Return whether a rule matches a fault; None if the entry does not decide it."""
    match = rule.get("match") or {}
    kind = (data.get("placement") or {}).get("instance_type") or ""
    patterns = (("modes", [data["failure_mode"]]), ("codes", data["codes"]), ("clusters", [cluster]))
    for name, texts in (*patterns, ("instance_types", [kind])):
        if match.get(name) and not any(fnmatchcase(text, one) for text in texts for one in match[name]):
            return False
    if match.get("components") and data["component"]["type"] not in match["components"]:
        return False
    if match.get("sources") and not {*data["reporters"], data["source"]} & set(match["sources"]):
        return False
    # The entry does not state the severity and the action as reported, nor each observation that a count needs.
    is_decided = not match.get("severities") and not match.get("actions") and match.get("count", 1) == 1
    return True if is_decided else None


def check_form(file: CaseFile) -> None:
    """Check that each value of the form is the value in the entry that it names, and that the form is of the case."""
    form = PARSER.decode(file.members["form.json"].decode())
    by_id = {one.id: one for one in file.entries}
    for field in form["fields"]:
        if field["entry"] not in {None, *by_id}:
            raise Defect(f"form: {field['name']} names an entry that is not in the file")
        found: Any = by_id[field["entry"]].data if field["entry"] else field["value"]
        for part in field["path"]:
            found = found[part]
        if found != field["value"]:
            raise Defect(f"form: {field['name']} is {field['value']}, but its entry states {found}")


CHECKS = (check_chain, check_anchor, check_transitions, check_intents, check_approvals, check_verifications)


def verify(path: str, anchor: str | None = None) -> str:
    """Return one line about a case file that holds; raises `Defect` for the first thing that does not hold."""
    try:
        file = CaseFile(path, anchor)
        for check in (*CHECKS, check_rules, check_form):
            check(file)
    except Exception as error:  # noqa: BLE001 - a forged file can raise any error
        text = f"the file cannot be read: {type(error).__name__}: {error}"
        raise (error if isinstance(error, Defect) else Defect(text)) from None
    return f"{file.case['case_id']}: {len(file.entries)} entries hold, {len(file.own)} of the case"


if __name__ == "__main__":
    try:
        print(ascii(verify(*(sys.argv[1:3] or ["case.zip"]))))  # a forged text could control the terminal
    except Defect as defect:
        sys.exit(ascii(str(defect)))
