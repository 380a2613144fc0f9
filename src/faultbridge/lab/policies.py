"""Policies of the lab: read from a policy file, or the packaged one."""

from __future__ import annotations

import logging

from faultbridge.data.policies import default_policy, version_of
from faultbridge.domain.policy import Policy
from faultbridge.policyfile.parser import read_policy
from faultbridge.storage.codec import load


def named_policy(text: str | None) -> tuple[str, Policy]:
    """Return the name of a policy in a table and the policy; without a text the packaged one.

    Raises InvalidPolicy for an invalid policy file. A simulated fleet logs thousands of refusals, so the product's
    warnings are disabled for this process.
    """
    logging.getLogger("faultbridge").setLevel(logging.ERROR)
    if text is None:
        return "faultbridge-default", default_policy()
    document = read_policy(text)
    version = version_of(document)
    return f"faultbridge-{version}", load(Policy, {**document, "version": version})
