"""What launches the successor of an instance, where no group of the provider does so by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.ports.repair import Answer, Candidate


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A node that is to have another instance: in whose group, for which case, and whom it takes the place of.

    `token` names one try: with the same token at most one instance is ever launched. `instance_types` are tried in
    their order; none: the one that the launch template says. `spare` is a
    machine that the case took out of the pool.
    """

    cluster: ClusterConfig
    group: str
    case: str
    token: str
    instead_of: str | None = None
    instance_types: tuple[str, ...] = ()
    spare: str | None = None


class Launcher(Protocol):
    """What launches one instance a try, of the first instance type that there is capacity for."""

    def launched(self, vacancy: Vacancy) -> tuple[Candidate, ...]:
        """List the living instances that were launched or taken for the case, but for the one to be replaced.

        Oldest first, `running` or still on their way. What was launched a moment ago may not be told yet.
        """
        ...

    def launch(self, vacancy: Vacancy) -> Answer:
        """Launch an instance, marked with its case; repeating it with the same token is harmless.

        `AMBIGUOUS` and `TIMEOUT` leave open whether it was launched; `THROTTLED` did not look at the token. Any other
        failure says for sure that nothing was launched, and holds for its token for ever.
        """
        ...

    def mark(self, instance_id: str, case: str) -> Answer:
        """Mark a machine with the case that took it; repeating it is harmless."""
        ...

    def end(self, instance_id: str) -> Answer:
        """End a machine that sits in no node; one that is gone already is done."""
        ...
