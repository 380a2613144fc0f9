"""Patch that replaces the incomplete SageMaker HyperPod of moto.

`hyperpod_clusters`
AWS: clusters have nodes with logical ids and EC2 instance ids. Nodes can be replaced, rebooted and checked, and their
events go to EventBridge.
moto: nodes have names instead of instance ids and never change. Some calls, such as the one that replaces nodes, return
HTTP 500.
Here: `faultbridge.local.hyperpod` answers the calls, and its events go to the default bus of MiniStack.
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3

from faultbridge.local.environment import EVENT_PLANE_VARIABLE
from faultbridge.local.gaps.patching import Gap, add_method, resolve
from faultbridge.local.hyperpod import OPERATIONS, ApiError, FakeSageMaker

RESPONSE = "moto.sagemaker.responses:SageMakerResponse"
RESULT = "moto.core.responses:ActionResult"
ERROR = "moto.sagemaker.exceptions:SagemakerClientError"

SAGEMAKER = FakeSageMaker()


def _lacks_replacement() -> bool:
    return not hasattr(resolve(RESPONSE), "batch_replace_cluster_nodes")


def _serve() -> None:
    for operation in ("CreateCluster", "DeleteCluster", *OPERATIONS):
        add_method(RESPONSE, _method_name(operation), _responder(operation))


def _method_name(operation: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in operation).lstrip("_")


def _responder(operation: str) -> Any:  # noqa: ANN401 - a method of moto's response
    def respond(response: Any) -> Any:  # noqa: ANN401 - moto's types
        parameters = json.loads(response.body or "{}")
        try:
            answer = SAGEMAKER.answer(operation, parameters)
        except ApiError as error:
            failure = resolve(ERROR)(str(error))
            failure.code = error.code
            raise failure from error
        if operation == "CreateCluster":
            SAGEMAKER.clusters[parameters["ClusterName"]].publish = publish
        return resolve(RESULT)(answer)

    return respond


def publish(event: dict[str, Any]) -> None:
    """Publish an event of a node to the default bus, as HyperPod does: its time in milliseconds."""
    entry: Any = {
        "Source": "aws.sagemaker",
        "DetailType": "SageMaker HyperPod Cluster Event",
        "Resources": [event["ClusterArn"]],
        "Detail": json.dumps({"EventDetails": {**event, "EventTime": int(event["EventTime"].timestamp() * 1000)}}),
    }
    boto3.client("events", endpoint_url=os.environ[EVENT_PLANE_VARIABLE]).put_events(Entries=[entry])


GAPS = (Gap("hyperpod_clusters", (RESPONSE, RESULT, ERROR), _lacks_replacement, _serve),)
