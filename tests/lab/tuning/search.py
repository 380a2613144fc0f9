"""Search: tries policies in simulation, and selects those with the best results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from faultbridge.model.errors import Misconfigured
from tests.lab.comparison import named_policy, run
from tests.lab.scenario import Scenario
from tests.lab.tuning.search_space import Numbers, suggested

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Tried:
    """One policy that the search tried: its numbers, and its results as means over the scenarios."""

    numbers: Numbers
    lost_gpu_hours: float
    needless_evictions: float

    def is_beaten_by(self, other: Tried) -> bool:
        """Return whether `other` is better in lost GPU-hours or needless evictions, and worse in neither."""
        mine = self.lost_gpu_hours, self.needless_evictions
        theirs = other.lost_gpu_hours, other.needless_evictions
        return theirs != mine and all(one <= two for one, two in zip(theirs, mine, strict=True))


def search(
    scenarios: Sequence[Scenario], trials: int, seed: int, *, may_keep_in_service: bool, progress: Progress
) -> tuple[Tried, ...]:
    """Run the scenarios under `trials` policies; return each policy with its results, in order of trial.

    The first policy is close to the packaged policy. With the same `seed`, the search tries the same policies. With
    `may_keep_in_service`, the search also tries policies under which nodes stay in service while their repairs wait.
    After each policy, `progress` is called with the share of policies tried so far, from 0 to 1. Raises Misconfigured
    without Optuna.
    """
    optuna = _optuna()
    tried: list[Tried] = []

    def objective(trial: Any) -> tuple[float, float]:
        numbers = suggested(trial, may_keep_in_service=may_keep_in_service)
        _, policy = named_policy(numbers.text())
        results = [run(one, policy) for one in scenarios]
        lost, needless = fmean(one.lost_gpu_hours for one in results), fmean(one.needless_evictions for one in results)
        tried.append(Tried(numbers, lost, needless))
        progress(len(tried) / trials)
        return lost, needless

    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(5, trials // 5))
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    packaged = asdict(Numbers())
    study.enqueue_trial(packaged if may_keep_in_service else {**packaged, "keep_in_service": False})
    study.optimize(objective, n_trials=trials)
    return tuple(tried)


def chosen(tried: Sequence[Tried]) -> Tried:
    """Return the policy with the fewest lost GPU-hours, among those with few needless evictions.

    Few means: not more than the first policy in `tried` has. The first policy is close to the packaged policy.
    """
    limit = tried[0].needless_evictions
    return min((one for one in tried if one.needless_evictions <= limit), key=lambda one: one.lost_gpu_hours)


def best_tradeoffs(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return the Pareto-optimal policies: those that no other policy beats (`Tried.is_beaten_by`)."""
    return tuple(one for one in tried if not any(one.is_beaten_by(other) for other in tried))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise Misconfigured("Optuna is not installed; install it with `make setup`") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
