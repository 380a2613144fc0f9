"""Tick of a node: ends expired waits and conditions, and recovers a lost repair attempt."""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.ledger.append import Append
from faultbridge.ops.sweep_result import SweepResult
from faultbridge.pipeline.observe import tick
from faultbridge.repair.attempt.recovery import RecoverAttempts, RecoveryResult
from faultbridge.rules.rulebook import Rulebook, rules_of


@dataclass(frozen=True, slots=True)
class TickNode:
    """Ends the expired waiting periods, approval requests and conditions of a node.

    A condition expires if it was not observed during its quiet period. `TickNode` also recovers the node's repair
    attempt if the Step Functions execution of the attempt was lost.
    """

    append: Append
    rulebook: Rulebook
    recover_attempts: RecoverAttempts

    def __call__(self, key: NodeKey, result: SweepResult) -> None:
        """End the expired waiting periods, approval requests and conditions of one node.

        Also recover the node's repair attempt if its execution was lost. The node and a recovery are counted in
        `result`.
        """
        rules = rules_of(self.rulebook, key.cluster)

        def pass_time(state: NodeState, now: datetime) -> Transition:
            passed = tick(state, rules=rules, now=now)
            return Transition(passed.state, passed.drafts)

        self.append(key, pass_time, actor=Actor.SWEEP)
        result.ticked += 1
        recovered = self.recover_attempts(key)
        if recovered is not RecoveryResult.NOTHING:
            result.recovered_attempts[recovered.value] = result.recovered_attempts.get(recovered.value, 0) + 1
