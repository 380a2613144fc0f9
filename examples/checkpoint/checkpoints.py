"""Saves a checkpoint when Faultbridge requests one; `train` is an example loop for one process, such as rank 0."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Checkpoints:
    """The requests to one job; no failure of the network stops the job."""

    def __init__(self, url: str, job_id: str, token: str, file: Path | None = None) -> None:
        self._url, self._job_id, self._token, self._file = url, job_id, token, file
        self._request: dict[str, str] | None = None
        self._saved = ""

    def report(self, change: str, **fields: object) -> None:
        """Report a change of the job, such as `heartbeat` with `step`, and keep the request in the answer."""
        body = json.dumps({"change": change, "job_id": self._job_id, **fields}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310
        with suppress(OSError, ValueError, KeyError), urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            self._request = json.load(answer)["checkpoint"]

    def requested(self) -> bool:
        """Return whether a checkpoint is requested that this job has not saved; repeats an answer that was lost."""
        if self._file is not None and self._file.exists():
            self._request = json.loads(self._file.read_text(encoding="utf-8") or "null")
        found = self._request and self._request["id"]
        if found == self._saved:
            self.answer()
        return found not in {None, self._saved}

    def answer(self) -> None:
        """Answer that the checkpoint is saved; the same answer twice changes nothing."""
        if self._request is not None:
            self._saved = self._request["id"]
            self.report("checkpoint", checkpoint_id=self._saved)


def train(job: Checkpoints, steps: int, work: Callable[[int], None], save: Callable[[], None]) -> None:
    """Run the steps of a job, with a heartbeat after each, and save whenever a checkpoint is requested."""
    for step in range(1, steps + 1):
        work(step)
        job.report("heartbeat", step=step)
        if job.requested():
            save()
            job.answer()


if __name__ == "__main__":
    url, job_id, token = (os.environ[f"FAULTBRIDGE_{name}"] for name in ("JOBS_URL", "JOB", "TOKEN"))
    train(Checkpoints(url, job_id, token), 3600, lambda _: time.sleep(1), Path("saved").touch)
