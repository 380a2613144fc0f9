"""Notify a webhook of the cluster that a job may resume; requests are signed with HMAC-SHA256."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from urllib.parse import urlsplit

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.paging.http_post import post_json
from faultbridge.errors import Misconfigured
from faultbridge.ports import CallResult, Clock, JobNotice

MIN_SECRET = 16
ANY_CLUSTER = "*"


class JobWebhook:
    """A JobCallback that posts the event of each notice to the webhook of the job's cluster.

    - `read_document` returns the JSON document `{"CLUSTER": {"url": URL, "secret": TEXT}}`. A cluster without an entry
      uses the entry `*`. If the entry `*` is missing too, the delivery fails.
    - The signature of a request covers the time of the request, the method and the path with its query, each followed
      by a newline, and then the body. Faultbridge's own webhook accepts signatures of this format.
    """

    def __init__(self, read_document: Callable[[], bytes], clock: Clock) -> None:
        self._read_document, self._clock = read_document, clock

    @property
    def ordered(self) -> bool:
        """Return True: the events of a cluster are posted in order, so a failed post delays later posts."""
        return True

    def deliver(self, notice: JobNotice) -> CallResult:
        """Post the event to the webhook.

        After HTTP 429, HTTP 5xx, a missing response or another temporary error, the result is TIMEOUT, and the caller
        may try again. After any other status of 300 or more, or if no valid webhook is configured for the cluster, the
        result is PERMISSION_DENIED, which is final.
        """
        return result_of(lambda: self._post(notice))

    def _post(self, notice: JobNotice) -> CallResult:
        url, secret = self._address(notice.cluster.cluster)
        body = notice.event.encode()
        headers = self._headers(url, secret, body) | {"X-Faultbridge-Event-Id": notice.event_id}
        post_json("the webhook", url, body, page=notice.event_id, headers=headers)
        return CallResult(reason="the webhook accepted the event")

    def _headers(self, url: str, secret: str, body: bytes) -> dict[str, str]:
        parts, timestamp = urlsplit(url), str(int(self._clock.now().timestamp()))
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        signed = "".join(f"{line}\n" for line in (timestamp, "POST", path)).encode() + body
        signature = hmac.new(secret.encode(), signed, "sha256").hexdigest()
        return {"X-Faultbridge-Timestamp": timestamp, "X-Faultbridge-Signature": f"v1={signature}"}

    def _address(self, cluster: str) -> tuple[str, str]:
        try:
            document = json.loads(self._read_document())
            given = document.get(cluster) or document.get(ANY_CLUSTER)
            url, secret = (str(given["url"]), str(given["secret"])) if given else ("", "")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise Misconfigured("the job callbacks cannot be read; correct the JSON in the secret") from None
        if not url:
            raise Misconfigured(f"no webhook is configured for {cluster}; add it to the secret of JobCallbacks")
        if not url.startswith(("https://", "http://127.0.0.1:")):
            raise Misconfigured(f"the webhook of {cluster} is not an https URL; correct it in the secret")
        if len(secret) < MIN_SECRET:
            raise Misconfigured(f"the webhook secret of {cluster} is shorter than {MIN_SECRET} characters; replace it")
        return url, secret
