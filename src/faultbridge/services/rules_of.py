"""The rules of a cluster that must be registered for there to be anything to do."""

from __future__ import annotations

from faultbridge.errors import Misconfigured
from faultbridge.services.rulebook import Rulebook
from faultbridge.stages.decide import Rules


def rules_of(rulebook: Rulebook, cluster: str) -> Rules:
    """Return what decisions about a cluster rest on; raises Misconfigured where nobody registered it."""
    config = rulebook.config(cluster)
    if config is None:
        raise Misconfigured(f"cluster {cluster!r} is not registered (add it with 'faultbridge cluster add')")
    return rulebook.rules(config)
