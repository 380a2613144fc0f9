"""Instances: the one model of an instance that backs, or can back, a node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from faultbridge.model.enums import DomainKind
from faultbridge.model.nodes import narrowest


class Instance(Struct, frozen=True):
    """One instance, as its provider and its orchestrator describe it; unknown values are None or empty.

    - `names` are all names under which records refer to the instance, the provider's preferred name first.
    - `domains` are the failure domains by kind. `has_all_domains` is False if these must be read again later.
    - `slot` is the provider's permanent id of the node that the instance backs (HyperPod's logical id).
    - `opted_out` is True if a tag or label excludes the instance from repair. `opt_out_node` is the name of the
      Kubernetes node with this label, or None if a tag excludes the instance.
    - `cordoned` is True if the orchestrator gives the instance no new work for a reason that is not Faultbridge's.
    - `role_id` is the id of the IAM role in the instance profile.
    """

    instance_id: str
    names: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    instance_type: str | None = None
    launched_at: datetime | None = None
    slot: str | None = None
    opted_out: bool = False
    opt_out_node: str | None = None
    has_all_domains: bool = True
    role_id: str | None = None
    cordoned: bool = False

    @property
    def opt_out(self) -> str | bool:
        """Return the Kubernetes node whose label excludes the instance, True if a tag excludes it, else False."""
        return (self.opt_out_node or True) if self.opted_out else False

    @property
    def name(self) -> str:
        """Return the provider's preferred name of the instance, or the instance id if it has no name."""
        return self.names[0] if self.names else self.instance_id

    @property
    def domain(self) -> str | None:
        """Return the narrowest failure domain of the instance, such as its nearest switch; None if unknown."""
        return narrowest(self.domains)

    @property
    def zone(self) -> str | None:
        """Return the availability zone of the instance, or None if it is not known."""
        return self.domains.get(DomainKind.ZONE)
