"""AWS clients with time-outs, retries and endpoints; each client is created on first use.

botocore creates the clients, as it does for boto3. boto3 is not imported: it also loads resources and the S3 transfer
manager, which Faultbridge does not use, so its import takes a fifth longer than the import of botocore.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
    create_assume_role_refresher,
)
from botocore.loaders import Loader, instance_cache
from botocore.session import Session

from faultbridge.model.errors import Misconfigured

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

    from faultbridge.model.cluster.config import ProviderRole

SESSION_NAME = "faultbridge"
"""Session name of an assumed role; CloudTrail of the other account shows it."""

CONNECT_SECONDS = 3
READ_SECONDS = 15
ATTEMPTS = 4
IN_FUNCTION = "AWS_LAMBDA_FUNCTION_NAME"
"""The variable that Lambda sets in each function."""

# Attribute of `Clients`: service of boto3, suffix of the endpoint variable, attempts per call.
SERVICES: Mapping[str, tuple[str, str, int]] = {
    "dynamodb": ("dynamodb", "DYNAMODB", ATTEMPTS),
    "events": ("events", "EVENTBRIDGE", ATTEMPTS),
    "sqs": ("sqs", "SQS", ATTEMPTS),
    "s3": ("s3", "S3", ATTEMPTS),
    "firehose": ("firehose", "FIREHOSE", ATTEMPTS),
    "secrets": ("secretsmanager", "SECRETS_MANAGER", ATTEMPTS),
    "sns": ("sns", "SNS", ATTEMPTS),
    "stepfunctions": ("stepfunctions", "SFN", ATTEMPTS),
    "logs": ("logs", "CLOUDWATCH_LOGS", ATTEMPTS),
    "ec2": ("ec2", "EC2", ATTEMPTS),
    "ec2_no_retry": ("ec2", "EC2", 1),
    "autoscaling": ("autoscaling", "AUTO_SCALING", ATTEMPTS),
    "autoscaling_no_retry": ("autoscaling", "AUTO_SCALING", 1),
    "ssm": ("ssm", "SSM", ATTEMPTS),
    "ssm_no_retry": ("ssm", "SSM", 1),
    "sagemaker": ("sagemaker", "SAGEMAKER", ATTEMPTS),
    "sagemaker_no_retry": ("sagemaker", "SAGEMAKER", 1),
    "eks": ("eks", "EKS", ATTEMPTS),
    "iam": ("iam", "IAM", ATTEMPTS),
    "sts": ("sts", "STS", ATTEMPTS),
    "cloudformation": ("cloudformation", "CLOUDFORMATION", ATTEMPTS),
    "cloudwatch": ("cloudwatch", "CLOUDWATCH", ATTEMPTS),
}

Observer = Callable[[str, str], None]
"""Called with the service and the operation of each API call; retries inside botocore are not reported."""


def new_session(region: str | None = None, profile: str | None = None) -> Session:
    """Return a session; AWS_REGION, which botocore does not read, precedes AWS_DEFAULT_REGION."""
    session = Session(profile=profile)
    region = region or os.environ.get("AWS_REGION")
    if region:
        session.set_config_variable("region", region)
    session.lazy_register_component("data_loader", lambda: _model_loader(session.get_config_variable("data_path")))
    return session


def session_for_role(role: ProviderRole, sts: STSClient, region: str | None) -> Session:
    """Return a session with the credentials of a role, which `sts` assumes for Faultbridge's account."""
    session = new_session(region)
    session.register_component("credential_provider", CredentialResolver([_AssumedRole(role, sts)]))
    return session


class _AssumedRole(CredentialProvider):
    """Assumes a role on first use, and renews the credentials before they expire."""

    METHOD = "assume-role"

    def __init__(self, role: ProviderRole, sts: STSClient) -> None:
        super().__init__()
        self._role, self._sts = role, sts

    def load(self) -> DeferredRefreshableCredentials:
        request = {"RoleArn": self._role.arn, "RoleSessionName": SESSION_NAME}
        if self._role.external_id:
            request["ExternalId"] = self._role.external_id
        return DeferredRefreshableCredentials(create_assume_role_refresher(self._sts, request), self.METHOD)


class _ModelLoader(Loader):
    """Lists the services without reading the folder of each of botocore's 400 services."""

    @instance_cache
    def list_available_services(self, _type: str) -> list[str]:
        """Return the names of all services: each has a folder of its own."""
        folders = (folder for folder in map(Path, self.search_paths) if folder.is_dir())
        # `os.scandir` already states what is a folder, so no further call per service is needed.
        return sorted({one.name for folder in folders for one in os.scandir(folder) if one.is_dir()})


def _model_loader(data_path: str | None) -> Loader:
    """Return a loader that searches the folders of the variable AWS_DATA_PATH before those of botocore."""
    folders = [os.path.expandvars(folder) for folder in data_path.split(os.pathsep)] if data_path else []
    return _ModelLoader(extra_search_paths=[str(Path(folder).expanduser()) for folder in folders])


class Clients:
    """The clients of AWS services as attributes; `observe` receives service and operation of each call.

    The endpoint of a service is `AWS_ENDPOINT_URL_<SERVICE>`, else `endpoint_url`, else `AWS_ENDPOINT_URL`, else that
    of botocore. A client whose name ends in `_no_retry` sends each call once, for calls that must not be repeated.
    """

    dynamodb: DynamoDBClient
    events: EventBridgeClient
    sqs: SQSClient
    s3: S3Client
    firehose: FirehoseClient
    secrets: SecretsManagerClient
    sns: SNSClient
    stepfunctions: SFNClient
    logs: CloudWatchLogsClient
    ec2: EC2Client
    ec2_no_retry: EC2Client
    autoscaling: AutoScalingClient
    autoscaling_no_retry: AutoScalingClient
    ssm: SSMClient
    ssm_no_retry: SSMClient
    sagemaker: SageMakerClient
    sagemaker_no_retry: SageMakerClient
    eks: EKSClient
    sts: STSClient
    cloudformation: CloudFormationClient
    # A typed client would need one more dependency.
    cloudwatch: Any
    iam: Any

    def __init__(
        self,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        observe: Observer | None = None,
        session: Callable[[], Session] | None = None,
    ) -> None:
        self._make_session = session or (lambda: new_session(region, profile))
        self._endpoint_url = endpoint_url
        self._observe = observe
        self._role_clients: dict[ProviderRole, Clients] = {}

    def __getattr__(self, name: str) -> BaseClient:
        """Create and store the client for the attribute `name`; raises AttributeError for an unknown name."""
        if name not in SERVICES:
            raise AttributeError(name)
        service, variable, attempts = SERVICES[name]
        create: Any = self.session.create_client  # typed only for literal service names
        client: BaseClient = create(service, **self._options(variable, attempts))
        if (observe := self._observe) is not None:
            client.meta.events.register(
                "before-call", lambda model, **_: observe(model.service_model.service_name, model.name)
            )
        setattr(self, name, client)
        return client

    @property
    def region(self) -> str | None:
        """Return the AWS Region that the clients call; None if no Region is configured."""
        region: str | None = self.session.get_config_variable("region")
        return region

    def for_role(self, role: ProviderRole | None) -> Clients:
        """Return clients with the self-renewing credentials of a role in another account; None means `self`."""
        if role is None:
            return self
        if role not in self._role_clients:
            self._role_clients[role] = Clients(
                endpoint_url=self._endpoint_url,
                observe=self._observe,
                session=lambda: session_for_role(role, self.sts, self.region),
            )
        return self._role_clients[role]

    @cached_property
    def session(self) -> Session:
        """Return the botocore session that creates all clients and provides their credentials."""
        return self._make_session()

    def _options(self, service: str, attempts: int) -> dict[str, Any]:
        """Return the botocore options of a client; `service` is the suffix of its endpoint variable, as `EC2`."""
        service_endpoint = os.environ.get(f"AWS_ENDPOINT_URL_{service}")
        emulated = service_endpoint or self._endpoint_url or os.environ.get("AWS_ENDPOINT_URL")
        return {
            "endpoint_url": None if service_endpoint else self._endpoint_url,
            "config": Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": attempts},
                # botocore's check of a transaction takes two fifths of its processor time, and DynamoDB checks it too.
                # It stays on for the other services: S3 takes a request with an empty key for one about the bucket.
                parameter_validation=service != "DYNAMODB" or IN_FUNCTION not in os.environ,
                # botocore presigns for the global host, in old regions with Signature Version 2. Newer regions and
                # buckets with a customer managed key accept neither.
                signature_version="s3v4" if service == "S3" else None,
                # An emulator has no wildcard DNS name, so the bucket name goes into the path.
                s3={"addressing_style": "path" if emulated else "virtual", "us_east_1_regional_endpoint": "regional"},
            ),
        }


def signed_headers(clients: Clients, url: str) -> Mapping[str, str]:
    """Return the headers that sign a GET of an API Gateway address with the credentials of the clients."""
    credentials, region = clients.session.get_credentials(), clients.region
    if credentials is None or region is None:
        raise Misconfigured("no AWS credentials or Region for the API; configure them")
    request = AWSRequest("GET", url)
    SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(request)
    return dict(request.headers.items())
