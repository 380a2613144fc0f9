"""Search space: the numbers of a policy that a search may change, written as a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

SOFT_CODES = ["net.*", "host.silent", "host.unreachable", "host.not_ready"]
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "all": ("verify", "reset_gpu", "reboot_node", "replace_node"),
    "reboot, replace": ("verify", "reboot_node", "replace_node"),
    "replace": ("verify", "replace_node"),
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one policy that a search may change.

    - `soft_wait` is the wait before the repair of a soft fault, in minutes. Soft faults have one of the `SOFT_CODES`:
      network faults, and nodes that are silent, unreachable or not ready.
    - `hard_wait` is the wait before the repair of any other fault, in minutes.
    - `concurrent` and `per_hour` limit the repairs of a cluster, and `attempts` those of a case.
    - `probation` is in days. `percent` is the limit of the cluster's breaker, in percent of the nodes.
    - `actions` is the name of a set of repair actions in `ACTIONS`.
    - With `keep_in_service`, a node with a soft fault is not isolated before `soft_wait` has passed.

    The defaults are those of the packaged policy, with two exceptions: `soft_wait` is two minutes instead of 90
    seconds, and `SOFT_CODES` also contains `host.not_ready`.
    """

    soft_wait: int = 2
    hard_wait: int = 0
    concurrent: int = 2
    per_hour: int = 20
    attempts: int = 3
    probation: int = 1
    percent: int = 20
    actions: str = "all"
    keep_in_service: bool = False

    def text(self) -> str:
        """Return a policy file with these numbers, as YAML."""
        soft = {"isolate": not self.keep_in_service, "wait_seconds": self.soft_wait * 60}
        document = {
            "limits": {
                "concurrent": self.concurrent,
                "per_hour": self.per_hour,
                "attempts": self.attempts,
                "probation": f"{self.probation}d",
            },
            "breakers": [
                {"scope": "cluster", "nodes": 5, "percent": self.percent},
                {"scope": "domain", "nodes": 4, "percent": 50},
            ],
            "rules": [
                self._rule("network-and-silence-wait", {"codes": SOFT_CODES}, **soft),
                self._rule("catalog", {}, wait_seconds=self.hard_wait * 60),
            ],
        }
        return yaml.safe_dump(document, sort_keys=False)

    def _rule(self, name: str, match: dict[str, Any], **fields: object) -> dict[str, Any]:
        actions = list(ACTIONS[self.actions])
        return {"name": name, "match": match, **fields, "repair_actions": actions, "release_without_capacity": True}


def suggested(trial: Any, *, may_keep_in_service: bool) -> Numbers:
    """Return the numbers that Optuna suggests in one trial of the search.

    With `may_keep_in_service`, Optuna may also suggest that nodes stay in service while their repairs wait.
    """
    return Numbers(
        trial.suggest_int("soft_wait", 0, 60),
        trial.suggest_int("hard_wait", 0, 20),
        trial.suggest_int("concurrent", 1, 16),
        trial.suggest_int("per_hour", 5, 60),
        trial.suggest_int("attempts", 1, 5),
        trial.suggest_int("probation", 0, 7),
        trial.suggest_int("percent", 10, 50),
        trial.suggest_categorical("actions", list(ACTIONS)),
        trial.suggest_categorical("keep_in_service", [False, True]) if may_keep_in_service else False,
    )
