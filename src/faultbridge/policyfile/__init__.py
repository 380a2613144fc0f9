"""Policies as people write them: YAML, checked, and turned into the document that the table keeps."""

from faultbridge.policyfile.reading import InvalidPolicy, Problem, read_policy
from faultbridge.policyfile.writing import write_policy

__all__ = ["InvalidPolicy", "Problem", "read_policy", "write_policy"]
