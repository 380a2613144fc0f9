"""What peers' users asked about hanging jobs: each scenario is named after what must happen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from tests.explain.traces import generate


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_ranks_that_did_not_join_a_collective_are_named_with_their_nodes(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NVIDIA/nccl#1260."""
    trace = generate(seed)
    for name, body in trace.files.items():
        (tmp_path / name).write_bytes(body)
    files = [str(one) for one in tmp_path.iterdir()]
    (tmp_path / "nodes.json").write_text(json.dumps({f"n-{rank}": [rank] for rank in range(64)}), encoding="utf-8")
    assert run(["explain", "--json", "--nodes", str(tmp_path / "nodes.json"), *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["collectives"]["ranks"] == sorted(trace.injected)
    assert document["collectives"]["nodes"] == sorted(f"n-{rank}" for rank in trace.injected)
