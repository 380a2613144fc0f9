"""Access to the Kubernetes API from a pod, with the token of its service account."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from faultbridge.adapters.kubernetes.client import ApiAccess
from faultbridge.errors import Misconfigured

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster_access(environment: Mapping[str, str], folder: Path = FOLDER) -> ApiAccess:
    """Return the access of the current pod to the API, with the mounted service account token.

    The kubelet renews the token in its file, so each call reads the file. Raises Misconfigured if the process does not
    run in a pod, or if the token or the certificate authority cannot be read.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Misconfigured("not in a pod: KUBERNETES_SERVICE_HOST is not set; name the cluster with --eks-cluster")
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise Misconfigured(f"the token of the service account cannot be read: {error}") from None
    address = f"[{host}]" if ":" in host else host
    return ApiAccess(f"https://{address}:{port}", authority, token)
