"""AWS clients: one place for time-outs, retries and endpoints, each client made when it is first used."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.session import Session
from botocore.client import BaseClient
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_ec2.client import EC2Client
    from mypy_boto3_eks.client import EKSClient
    from mypy_boto3_events.client import EventBridgeClient
    from mypy_boto3_firehose.client import FirehoseClient
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_sns.client import SNSClient
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_ssm.client import SSMClient
    from mypy_boto3_stepfunctions.client import SFNClient
    from mypy_boto3_sts.client import STSClient

    from faultbridge.domain.clusters import ProviderRole

CONNECT_SECONDS = 3
READ_SECONDS = 15
ATTEMPTS = 4

ClientT = TypeVar("ClientT", bound=BaseClient)

Observer = Callable[[str, str], None]
"""Told the service and the operation of each call that our code makes, retries not counted."""


class Clients:
    """The clients of one process.

    `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` are honoured; `endpoint_url` replaces the former only.
    """

    def __init__(
        self,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        observe: Observer | None = None,
        session: Callable[[], Session] | None = None,
    ) -> None:
        self._make_session = session or (lambda: Session(region_name=region, profile_name=profile))
        self._endpoint_url = endpoint_url
        self._observe = observe
        self._assumed: dict[ProviderRole, Clients] = {}

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """Return the client of the table."""
        return self._watched(self.session.client("dynamodb", **self._options("DYNAMODB")))

    @cached_property
    def events(self) -> EventBridgeClient:
        """Return the client of the bus."""
        return self._watched(self.session.client("events", **self._options("EVENTBRIDGE")))

    @cached_property
    def sqs(self) -> SQSClient:
        """Return the client of the queues."""
        return self._watched(self.session.client("sqs", **self._options("SQS")))

    @cached_property
    def s3(self) -> S3Client:
        """Return the client of the bucket."""
        return self._watched(self.session.client("s3", **self._options("S3")))

    @cached_property
    def firehose(self) -> FirehoseClient:
        """Return the client of the delivery stream into the archive."""
        return self._watched(self.session.client("firehose", **self._options("FIREHOSE")))

    @cached_property
    def secrets(self) -> SecretsManagerClient:
        """Return the client of the secrets."""
        return self._watched(self.session.client("secretsmanager", **self._options("SECRETS_MANAGER")))

    @cached_property
    def sns(self) -> SNSClient:
        """Return the client of the topics."""
        return self._watched(self.session.client("sns", **self._options("SNS")))

    @cached_property
    def stepfunctions(self) -> SFNClient:
        """Return the client of the workflow engine."""
        return self._watched(self.session.client("stepfunctions", **self._options("SFN")))

    @cached_property
    def logs(self) -> CloudWatchLogsClient:
        """Return the client of the log groups."""
        return self._watched(self.session.client("logs", **self._options("CLOUDWATCH_LOGS")))

    @cached_property
    def ec2(self) -> EC2Client:
        """Return the client that reads instances."""
        return self._watched(self.session.client("ec2", **self._options("EC2")))

    @cached_property
    def ec2_once(self) -> EC2Client:
        """Return the client that launches and terminates instances: it never repeats a call by itself."""
        return self._watched(self.session.client("ec2", **self._options("EC2", attempts=1)))

    @cached_property
    def autoscaling(self) -> AutoScalingClient:
        """Return the client that reads groups."""
        return self._watched(self.session.client("autoscaling", **self._options("AUTO_SCALING")))

    @cached_property
    def autoscaling_once(self) -> AutoScalingClient:
        """Return the client that gives instances up: it never repeats a call by itself."""
        options = self._options("AUTO_SCALING", attempts=1)
        return self._watched(self.session.client("autoscaling", **options))

    @cached_property
    def ssm(self) -> SSMClient:
        """Return the client that runs commands on instances."""
        return self._watched(self.session.client("ssm", **self._options("SSM")))

    @cached_property
    def ssm_once(self) -> SSMClient:
        """Return the client that restarts instances: it never repeats a call by itself."""
        return self._watched(self.session.client("ssm", **self._options("SSM", attempts=1)))

    @cached_property
    def sagemaker(self) -> SageMakerClient:
        """Return the client of HyperPod clusters."""
        return self._watched(self.session.client("sagemaker", **self._options("SAGEMAKER")))

    @cached_property
    def eks(self) -> EKSClient:
        """Return the client that says where the Kubernetes API of a cluster is."""
        return self._watched(self.session.client("eks", **self._options("EKS")))

    @cached_property
    def sts(self) -> STSClient:
        """Return the client that tells who calls, and takes roles."""
        return self._watched(self.session.client("sts", **self._options("STS")))

    @cached_property
    def cloudformation(self) -> CloudFormationClient:
        """Return the client that reads stacks."""
        return self._watched(self.session.client("cloudformation", **self._options("CLOUDFORMATION")))

    @cached_property
    def cloudwatch(self) -> Any:  # noqa: ANN401 - its stubs would be a dependency for one call
        """Return the client of the metrics."""
        return self._watched(self.session.client("cloudwatch", **self._options("CLOUDWATCH")))

    @property
    def region(self) -> str | None:
        """Return the region in which calls are made."""
        return self.session.region_name

    def assuming(self, role: ProviderRole) -> Clients:
        """Return clients that act as a role of another account; its credentials are renewed as they run out."""
        if role not in self._assumed:
            from faultbridge.adapters.assumed import session_of

            self._assumed[role] = Clients(
                endpoint_url=self._endpoint_url,
                observe=self._observe,
                session=lambda: session_of(role, self.sts, self.region),
            )
        return self._assumed[role]

    @cached_property
    def session(self) -> Session:
        """Return the session whose credentials all clients use."""
        return self._make_session()

    def _options(self, service: str, attempts: int = ATTEMPTS) -> dict[str, Any]:
        own = os.environ.get(f"AWS_ENDPOINT_URL_{service}")
        emulated = own or self._endpoint_url or os.environ.get("AWS_ENDPOINT_URL")
        return {
            "endpoint_url": None if own else self._endpoint_url,
            "config": Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": attempts},
                # No wildcard name leads to an emulator, so the bucket cannot be part of the host's name.
                s3={"addressing_style": "path"} if emulated else None,
            ),
        }

    def _watched(self, client: ClientT) -> ClientT:
        observe = self._observe
        if observe is not None:
            client.meta.events.register(
                "before-call", lambda model, **_: observe(model.service_model.service_name, model.name)
            )
        return client
