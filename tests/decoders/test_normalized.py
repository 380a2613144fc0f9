"""`faultbridge`: a value of any JSON type in a normalized fault is read or rejected."""

from __future__ import annotations

import json

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected

FAULT = {"kind": "fault", "code": "xid.79", "component": {"type": "gpu", "pci": "0000:c1:00"}, "message": "lost"}


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, 7, True, None])
def test_a_component_type_that_is_no_text_is_rejected(value: object) -> None:
    document = {**FAULT, "component": {"type": value}}
    with pytest.raises(Rejected) as rejected:
        registry.decode("faultbridge", json.dumps(document).encode())
    assert rejected.value.reason == "wrong_shape"


def test_a_normalized_fault_is_read() -> None:
    (fault,) = registry.decode("faultbridge", json.dumps(FAULT).encode())
    assert fault.source == "faultbridge"
