"""Verify a case file of Faultbridge: `python3 verify_case.py case.zip [anchor]`. Exit code 1 names a defect.

The program needs only the standard library. It checks that the entries are a hash chain up to an anchor, and that they
prove the repair: each status change is permitted, the intent came before the release and names the released instance, a
required approval exists, diagnostics passed before the return, and the policy rule matches the facts. The form and the
history must be what the published program `form.py` computes from the entries; this program has its hash.
A second argument is a copy of the anchor in your vault, with which the one of the file is compared.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import zipfile
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any

PUBLISHED = {
    "catalog.json": "3d00c184b91ddc05ed5f9aa6339a383998786086f9cca98bf88f52e24ce95c12",
    "form.py": "301e7eb30b4453bfaa8addf36e02409c81f7013ab8480d7c413d41a99dd4ebfd",
    "transitions.json": "5202fb7ff12890fd47ff756ca30cefeb613ae65c0bf711534bcb9b69e86c6f24",
}
"""SHA-256 of the catalog, the program of the form, and the tables of permitted status changes, as of this release."""

_JSON = ("anchor", "case", "catalog", "form", "history", "policies", "transitions")
NAMES = {*(f"{name}.json" for name in _JSON), "entries.jsonl", "form.html", "form.py", "verify_case.py"}
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
        self.parts: Json = {**PARSER.decode(self.body), "evidence": self.evidence}
        self.metadata, self.data = self.parts["metadata"], self.parts["data"]
        self.type, self.case = self.metadata["event_type"], self.metadata["case_id"]
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
        known = {**manifest, "verify_case.py": sha256(Path(__file__).read_text("utf-8")), **PUBLISHED}
        for name, body in sorted(members.items()):
            if {hashlib.sha256(body).hexdigest()} != {manifest[name], known[name]}:
                raise Defect(f"{name} has another hash than the manifest or this release states")
        self.members, self.form = members, Json()
        exec(compile(members["form.py"], "form.py", "exec"), self.form)  # noqa: S102 - it has the published hash
        self.case: Json = PARSER.decode(members["case.json"].decode())
        self.ends: dict[str, list[Any]] = {**self.case["starts"]}
        self.all = [Entry(line) for line in members["entries.jsonl"].decode().split("\n") if line]
        self.policies: dict[str, Json] = PARSER.decode(members["policies.json"].decode())
        self.entries = [one for one in self.all if one.metadata["stream"] == self.case["stream"]]
        del self.entries[: self.form["first_fault"]([one.parts for one in self.entries], self.case["case_id"])]
        self.own = [one for one in self.entries if one.case == self.case["case_id"]]
        if not self.own or self.case["missing"]:
            raise Defect(self.case["missing"] or "the file has no entry of the case")

    def steps(self, *names: str) -> list[Entry]:
        """Return the entries of these steps of the case, in their order."""
        return [e for e in self.own if e.type == "Node Replacement Step" and e.data["step"] in names]


def check_chain(file: CaseFile) -> None:
    """Check that the entries follow each other, that their hashes cover them, and that they are where they say."""
    for entry in file.all:
        stream, node = entry.metadata["stream"], entry.metadata["node"]
        epoch, sequence, previous = file.ends.get(stream, (1, 0, ""))
        if entry.place[0] > epoch and entry.place[1] == 1:
            epoch, sequence = entry.place[0], 0
        if entry.place != (epoch, sequence := sequence + 1):
            raise Defect(f"{entry.name} does not follow {epoch}/{sequence - 1}")
        if sequence == 1:
            previous = sha256("/".join((file.case["stack_id"], str(epoch), file.case["cluster"], node)))
        if sha256(previous + entry.body) != entry.hash:
            raise Defect(f"{entry.name}: the hash does not cover the body and the entry before it")
        stated = (("epoch", epoch), ("sequence", sequence), ("stream", f"{file.case['cluster']}/{node}"))
        if wrong := [name for name, value in stated if entry.metadata[name] != value]:
            raise Defect(f"{entry.name}: its {wrong[0]} is another one")
        if entry.evidence is not None and sha256(entry.evidence) != entry.data.get("evidence_sha256"):
            raise Defect(f"{entry.name}: the evidence has another hash")
        file.ends[stream] = [epoch, sequence, entry.hash]


def check_anchor(file: CaseFile) -> None:
    """Check that the anchor has the hash of an entry after the case, that its root covers it, and that it is yours."""
    anchor = PARSER.decode((body := file.members["anchor.json"]).decode())
    own = Path(file.anchor).read_bytes() if file.anchor else body
    if (gzip.decompress(own) if own[:2] == b"\x1f\x8b" else own) != body:
        raise Defect("the anchor is another one than yours")
    if not anchor:
        raise Defect("no anchor covers the case; write the file again after the next full hour")
    if [anchor["stack_id"], f"{anchor['cluster']}/{file.case['node']}"] != [
        file.case[n] for n in ("stack_id", "stream")
    ]:
        raise Defect("the anchor is of another cluster")
    if wrong := [stream for stream, end in file.ends.items() if anchor["heads"].get(stream) != end]:
        raise Defect(f"the anchor names another entry as the last one of {wrong[0]}")
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
    tables = PARSER.decode(file.members["transitions.json"].decode())
    last: dict[str, str] = {}
    for entry in file.entries:
        kind = entry.type.partition(" Status Change")[0].lower()
        if kind not in tables:
            continue
        subject, source, target = str(entry.case if kind == "case" else "node"), entry.data["from"], entry.data["to"]
        if not any([source, target] == row[:2] and entry.metadata["recorded_by"] in row[2] for row in tables[kind]):
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
    answers: dict[tuple[int, str], bool] = {}
    for entry in file.own:
        data = entry.data
        if entry.type == "Node Note Recorded" and data["kind"] == "approval" and "order" in data["facts"]:
            is_given = data["facts"]["order"] == "approved" and bool(data["operator"])
            answers[data["facts"]["attempt"], data["facts"]["repair_action"]] = is_given
        if entry.type != "Node Replacement Step" or data["step"] != "intent" or data["outcome"] != "committed":
            continue
        name, rules = data["facts"]["rule"], _rules(file, entry, data["facts"]["policy"])
        required = (action for rule in rules if rule["name"] == name for action in rule.get("approval", ()))
        if data["repair_action"] in required and not answers.get((data["attempt"], data["repair_action"])):
            raise Defect(f"{entry.name}: rule {name} requires an approval of {data['repair_action']}")


def _rules(file: CaseFile, entry: Entry, version: str) -> list[Json]:
    if version not in file.policies:
        raise Defect(f"{entry.name}: policy {version} is not in the file")
    return list(file.policies[version]["rules"])


def check_policies(file: CaseFile) -> None:
    """Check that the version of each policy is the hash of its document."""
    for version, policy in file.policies.items():
        parts = {key: value for key, value in policy.items() if key != "version"}
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if {sha256(text)[:12]} != {version, policy["version"]}:
            raise Defect(f"the document of policy {version} has another hash than its version")


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
    opened = file.form["opening"](one.parts for one in file.own)
    if opened is None:
        raise Defect("the opening of the case is not in the file")
    for entry in file.entries:
        data = entry.data
        if entry.type != "Node Fault Detected" or data["failure_mode"] != opened["data"]["cause"]["failure_mode"]:
            continue
        for rule in _rules(file, entry, data["policy"]):
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
    patterns = (("modes", [data["failure_mode"]]), ("codes", data["codes"]), ("clusters", [cluster]))
    for name, texts in (*patterns, ("instance_types", [(data.get("placement") or {}).get("instance_type") or ""])):
        if match.get(name) and not any(fnmatchcase(text, one) for text in texts for one in match[name]):
            return False
    if match.get("components") and data["component"]["type"] not in match["components"]:
        return False
    if match.get("sources") and not {*data["reporters"], data["source"]} & set(match["sources"]):
        return False
    # The entry does not state the severity and the action as reported, nor each observation that a count needs.
    is_decided = not match.get("severities") and not match.get("actions") and match.get("count", 1) == 1
    return True if is_decided else None


def check_documents(file: CaseFile) -> None:
    """Check that the form and the history are what the published program computes from the entries."""
    parts, catalog = [one.parts for one in file.all], PARSER.decode(file.members["catalog.json"].decode())
    for name, text in file.form["documents"](file.case, parts, catalog, {}).items():
        pairs = zip_longest(file.members[name].split(b"\n"), text.encode().split(b"\n"))
        if wrong := next((pair for pair in pairs if pair[0] != pair[1]), None):
            raise Defect(f"{name} has the line {wrong[0]!r}, but the entries state {wrong[1]!r}")


_RECORD = (check_chain, check_anchor, check_policies, check_transitions)
CHECKS = (*_RECORD, check_intents, check_approvals, check_verifications, check_rules, check_documents)


def verify(path: str, anchor: str | None = None) -> str:
    """Return one line about a case file that holds; raises `Defect` for the first thing that does not hold."""
    try:
        file = CaseFile(path, anchor)
        for check in CHECKS:
            check(file)
    except Exception as error:  # noqa: BLE001 - a forged file can raise any error
        raise (error if isinstance(error, Defect) else Defect(f"the file cannot be read: {error!r}")) from None
    return f"{file.case['case_id']}: {len(file.all)} entries hold, {len(file.own)} of the case"


if __name__ == "__main__":
    try:
        print(ascii(verify(*(sys.argv[1:3] or ["case.zip"]))))  # a forged text could control the terminal
    except Defect as defect:
        sys.exit(ascii(str(defect)))
