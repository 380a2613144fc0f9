"""Frame of AWS APIs: the console output of an EC2 instance, and the output of an SSM command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.line import Line, lines_in


def _console(answer: Mapping[str, Any]) -> Iterator[Line]:
    instance_id = answer.get("InstanceId")
    return lines_in(answer["Output"], node=instance_id) if isinstance(instance_id, str) else iter(())


def _command(answer: Mapping[str, Any]) -> Iterator[Line]:
    instance_id = answer.get("InstanceId")
    node = instance_id if isinstance(instance_id, str) and instance_id.startswith("i-") else None
    return lines_in(answer["StandardOutputContent"], node=node) if "CommandId" in answer else iter(())


READERS = {"Output": _console, "StandardOutputContent": _command}
