"""`python -m tests.lab tune`: searches for a better policy on one part of a fault trace.

The other parts of the trace are not searched. They are used to judge the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import yaml

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import Group, Option
from faultbridge.cli.render.output import notice, show
from faultbridge.decode.data.policies import default_document
from faultbridge.model.errors import Misconfigured
from tests.lab.baselines import BASELINES
from tests.lab.comparison import PACKAGED, compare_systems, documents_of, named_policy, run
from tests.lab.scenario import Scenario
from tests.lab.simulate_fleet import COLUMNS, Fleet, fleet_options

TUNE_EXAMPLES = ["$ python -m tests.lab tune --trace trace.json --nodes 200 --trials 100 --out tuned.yaml"]
ACTIONS: Mapping[str, list[str] | None] = {
    "as packaged": None,
    "all": ["verify", "reset_gpu", "reboot_node", "replace_node"],
    "reboot, replace": ["verify", "reboot_node", "replace_node"],
    "replace": ["verify", "replace_node"],
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of the packaged policy that a search may change; the defaults change nothing.

    - `wait` is the wait in seconds of each rule that waits.
    - `concurrent` and `per_hour` limit the repairs of a cluster, `attempts` those of a case, and `isolation` the nodes
      in percent that take no new work. `probation` is in days. `percent` is the limit of the cluster's breaker.
    - `actions` is the name of a set of repair actions in `ACTIONS`, which each rule permits.
    """

    wait: int = 90
    concurrent: int = 2
    per_hour: int = 20
    attempts: int = 3
    isolation: int = 10
    probation: int = 1
    percent: int = 20
    actions: str = "as packaged"

    def text(self) -> str:
        """Return a policy file with these numbers, as YAML."""
        document = {name: value for name, value in default_document().items() if name != "version"}
        limits = {"concurrent": self.concurrent, "per_hour": self.per_hour, "attempts": self.attempts}
        limits |= {"isolation_percent": self.isolation}
        first, *others = document["breakers"]
        rules = [{**rule, "wait_seconds": self.wait} if "wait_seconds" in rule else rule for rule in document["rules"]]
        permitted = ACTIONS[self.actions]
        document |= {
            "limits": {**limits, "probation": f"{self.probation}d"},
            "breakers": [{**first, "percent": self.percent}, *others],
            "rules": [{**rule, "repair_actions": permitted} for rule in rules] if permitted else rules,
        }
        return yaml.safe_dump(document, sort_keys=False)


def search(scenarios: Sequence[Scenario], trials: int, seed: int) -> tuple[Numbers, float]:
    """Run the scenarios under `trials` policies, and return the one that loses the fewest GPU-hours, and this loss.

    The first policy is the packaged one. A policy with more needless evictions than that one is not returned. Equal
    arguments give equal results. Raises Misconfigured without Optuna.
    """
    optuna = _optuna()
    tried: list[tuple[float, float, Numbers]] = []

    def objective(trial: Any) -> float:
        numbers = Numbers(
            trial.suggest_int("wait", 0, 3600),
            trial.suggest_int("concurrent", 1, 16),
            trial.suggest_int("per_hour", 5, 60),
            trial.suggest_int("attempts", 1, 5),
            trial.suggest_int("isolation", 1, 30),
            trial.suggest_int("probation", 0, 7),
            trial.suggest_int("percent", 10, 50),
            trial.suggest_categorical("actions", list(ACTIONS)),
        )
        results = [run(one, named_policy(numbers.text(), "tried")[1]) for one in scenarios]
        lost = fmean(one.lost_gpu_hours for one in results)
        tried.append((lost, fmean(one.needless_evictions for one in results), numbers))
        return lost

    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(5, trials // 5))
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.enqueue_trial(asdict(Numbers()))
    study.optimize(objective, n_trials=trials)
    lost, _, best = min((one for one in tried if one[1] <= tried[0][1]), key=lambda one: one[0])
    return best, lost


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise Misconfigured("Optuna is not installed; install it with `make setup`") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def tune_policy(
    fleet: Annotated[Fleet, Group(fleet_options)],
    out: Annotated[Path, Option("FILE", "Where to write the policy file.")],
    parts: Annotated[int, Option("N", "Parts of the trace: one is searched, the others judge.", min=2, max=12)] = 4,
    trials: Annotated[int, Option("N", "Policies to try.", min=1, max=10_000)] = 50,
    *,
    output: Format,
) -> None:
    """Search for a policy that loses fewer GPU-hours without more needless evictions, in simulation.

    The search uses the first part of a recorded fault trace. On the other parts, the result is compared with the
    packaged policy and with other systems. The command needs Optuna, which `make setup` installs.
    """
    searched, *held_back = [fleet.scenarios(f"{number}/{parts}") for number in range(1, parts + 1)]
    best, lost = search(searched, trials, fleet.seeds.start)
    out.write_text(f"# Found by simulation on part 1 of {parts}: {lost:,.0f} GPU-hours lost.\n{best.text()}")
    policies = dict((named_policy(None, PACKAGED), named_policy(best.text(), out.name)))
    compared = compare_systems([one for part in held_back for one in part], {**policies, **BASELINES})
    show(documents_of(compared), COLUMNS, output)
    if output.for_people:
        notice(f"{out}: nothing is published, `faultbridge policy put` does that")
