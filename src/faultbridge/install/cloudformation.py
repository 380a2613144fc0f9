"""Create, update and delete the stack of a packaged template: bucket, archives, change set. No SAM is needed.

Every step finds what an interrupted run has left: archives have a hash in their names, an unfinished operation of the
stack is waited for, and a change set without changes is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of, message_of
from faultbridge.install.packaging import BUCKET_PARAMETER, FOLDER_IN_BUCKET, Artifact, Packaged
from faultbridge.model.errors import Misconfigured, Transient

if TYPE_CHECKING:
    from mypy_boto3_cloudformation.client import CloudFormationClient
    from mypy_boto3_s3.client import S3Client

CAPABILITIES: Final = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
MAX_STACK_NAME = 24
"""AWS shortens the generated names of rules with a longer one, and the dead-letter queue then refuses their events."""

KEEP_DATA: Final = frozenset({"AWS::DynamoDB::Table", "AWS::S3::Bucket"})
"""The types of resources that no deployment may replace or remove."""

Progress = Callable[[str], None]

_OPERATION_SECONDS = 3600
_NOTHING_CHANGED = ("didn't contain changes", "No updates are to be performed")
_NOT_FOUND = frozenset({"404", "NoSuchKey", "NotFound"})
_USABLE = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE"})
_NEVER_CREATED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
_REVIEW = "REVIEW_IN_PROGRESS"  # only a change set was created


class FoundStack(msgspec.Struct, frozen=True):
    """A stack as CloudFormation describes it."""

    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    reason: str = ""

    @property
    def in_progress(self) -> bool:
        """Return whether an operation of the stack runs."""
        return self.status.endswith("_IN_PROGRESS") and self.status != _REVIEW

    @property
    def exists(self) -> bool:
        """Return whether the stack has resources that an update changes."""
        return self.status in _USABLE

    @property
    def was_never_created(self) -> bool:
        """Return whether the first creation failed: the stack must be deleted before it is created again."""
        return self.status in _NEVER_CREATED


def find_stack(cloudformation: CloudFormationClient, name: str) -> FoundStack | None:
    """Return a stack, or None if there is none of this name."""
    try:
        found = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if code_of(error) == "ValidationError" and "does not exist" in message_of(error):
            return None
        raise
    if found["StackStatus"] == "DELETE_COMPLETE":
        return None
    parameters = {one["ParameterKey"]: one.get("ParameterValue", "") for one in found.get("Parameters", [])}
    outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", [])}
    return FoundStack(found["StackStatus"], parameters, outputs, found.get("StackStatusReason", ""))


def missing_artifacts(s3: S3Client, bucket: str, packaged: Packaged, owner: str) -> list[Artifact]:
    """Return the artifacts that the bucket does not have; all of them if there is no bucket."""
    return [one for one in _artifacts(packaged) if not _has(s3, bucket, one.key, owner)]


def upload(s3: S3Client, bucket: str, packaged: Packaged, owner: str, region: str) -> int:
    """Create the bucket if needed, upload what it does not have, and return the number of uploaded files.

    `owner` is the account that must own the bucket: its name can be guessed, so another account may have taken it.
    """
    _ensure_bucket(s3, bucket, owner, region)
    missing = missing_artifacts(s3, bucket, packaged, owner)
    for artifact in missing:
        s3.put_object(Bucket=bucket, Key=artifact.key, Body=artifact.content, ExpectedBucketOwner=owner)
    return len(missing)


def template_artifact(packaged: Packaged) -> Artifact:
    """Return the template as a file of the bucket: CloudFormation reads one above 51,200 bytes only from there."""
    return Artifact.of("template", ".json", packaged.body)


def _artifacts(packaged: Packaged) -> tuple[Artifact, ...]:
    return (*packaged.artifacts, template_artifact(packaged))


def _has(s3: S3Client, bucket: str, key: str, owner: str) -> bool:
    try:
        s3.head_object(Bucket=bucket, Key=key, ExpectedBucketOwner=owner)
    except ClientError as error:
        if code_of(error) in _NOT_FOUND:
            return False
        raise
    return True


def has_bucket(s3: S3Client, bucket: str, owner: str) -> bool:
    """Return whether the bucket exists; raises `Misconfigured` if another account owns it."""
    try:
        s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=owner)
    except ClientError as error:
        if code_of(error) in {*_NOT_FOUND, "NoSuchBucket"}:
            return False
        if code_of(error) in {"403", "AccessDenied", "Forbidden"}:
            raise Misconfigured(
                f"the bucket {bucket} belongs to another account, or you may not read it; give --bucket NAME"
            ) from None
        raise
    return True


def _ensure_bucket(s3: S3Client, bucket: str, owner: str, region: str) -> None:
    if not has_bucket(s3, bucket, owner):
        # us-east-1 refuses its own name as a location.
        located: Any = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=bucket, **located)
    closed: Any = dict.fromkeys(
        ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
    )
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=closed, ExpectedBucketOwner=owner)


# ---------------------------------------------------------------- the stack


class Deployer(msgspec.Struct, frozen=True):
    """Deploys and deletes one stack; `poll_seconds` is the pause between two looks at it."""

    cloudformation: Any
    stack: str
    progress: Progress
    poll_seconds: float = 5.0
    tags: Sequence[Any] = ()

    def settle(self) -> FoundStack | None:
        """Wait until no operation of the stack runs, and return the stack; raises `Transient` after an hour."""
        deadline = time.monotonic() + _OPERATION_SECONDS
        waiting = ""
        while (found := find_stack(self.cloudformation, self.stack)) is not None and found.in_progress:
            if time.monotonic() > deadline:
                raise Transient(f"the stack {self.stack} is still {found.status}; run the command again to wait for it")
            if found.status != waiting:
                waiting = found.status
                self.progress(f"the stack is {waiting}")
            time.sleep(self.poll_seconds)
        return found

    def deploy(self, packaged: Packaged, url: str, bucket: str, parameters: Mapping[str, str]) -> FoundStack:
        """Create or update the stack, and return it; a stack that is up to date stays as it is.

        Parameters that are not given keep their values. Raises `Misconfigured` if the update would replace or remove
        a resource that keeps data.
        """
        before = self.settle()
        if before is not None and before.was_never_created:
            self.progress("deleting what the failed creation left")
            self.delete()
            before = None
        if before is not None and not (before.exists or before.status == _REVIEW):
            raise Misconfigured(_unusable(self.stack, before))
        kept = before.parameters if before is not None and before.exists else {}
        given = {**parameters, BUCKET_PARAMETER: bucket}
        declared = packaged.template.get("Parameters", {})
        entries: list[Any] = [
            {"ParameterKey": name, "ParameterValue": given[name]}
            if name in given
            else {"ParameterKey": name, "UsePreviousValue": True}
            for name in declared
            if name in given or name in kept
        ]
        change_set = self._change_set(url, entries, kind="UPDATE" if before is not None and before.exists else "CREATE")
        if change_set is not None:
            self._refuse_losses(change_set)
            self._execute(change_set)
        after = self.settle()
        if after is None or not after.exists or (change_set is not None and "ROLLBACK" in after.status):
            raise Transient(f"the deployment of {self.stack} failed: {self.failure() or 'see the events of the stack'}")
        return after

    def delete(self) -> None:
        """Delete the stack and wait until it is gone; raises `Transient` with the reason if something remains."""
        self.cloudformation.delete_stack(StackName=self.stack)
        left = self.settle()
        if left is not None:
            raise Transient(f"the stack {self.stack} is {left.status}: {self.failure() or left.reason}")

    def failure(self) -> str:
        """Return the reason of the first resource that failed in the last operation, or an empty text."""
        reason, begun = "", None
        pages = self.cloudformation.get_paginator("describe_stack_events").paginate(StackName=self.stack)
        # The latest event is first: the last one that is read is the first failure of the operation.
        for event in (event for page in pages for event in page["StackEvents"]):
            if begun is not None and event["Timestamp"] < begun:
                break
            status, of_stack = event["ResourceStatus"], event["LogicalResourceId"] == self.stack
            if of_stack and status in {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}:
                begun = event["Timestamp"]  # events of one millisecond may be in any order
            text = event.get("ResourceStatusReason", "")
            if status.endswith("_FAILED") and "cancelled" not in text:
                reason = f"{event['LogicalResourceId']}: {text or status}"
        return reason

    def _change_set(self, url: str, parameters: list[Any], *, kind: str) -> str | None:
        """Create a change set and return its id; None if the stack is up to date."""
        arn = self.cloudformation.create_change_set(
            StackName=self.stack,
            ChangeSetName=f"faultbridge-{uuid4().hex}",
            ChangeSetType=kind,
            TemplateURL=url,
            Parameters=parameters,
            Capabilities=[*CAPABILITIES],
            Tags=[*self.tags],
        )["Id"]
        while True:
            made = self.cloudformation.describe_change_set(ChangeSetName=arn, StackName=self.stack)
            if made["Status"] == "CREATE_COMPLETE":
                return str(arn)
            reason = made.get("StatusReason", "")
            if made["Status"] == "FAILED":
                self.cloudformation.delete_change_set(ChangeSetName=arn, StackName=self.stack)
                if any(text in reason for text in _NOTHING_CHANGED):
                    return None
                raise Misconfigured(f"CloudFormation refuses the change of {self.stack}: {reason}")
            time.sleep(self.poll_seconds)

    def _execute(self, change_set: str) -> None:
        self.cloudformation.execute_change_set(ChangeSetName=change_set, StackName=self.stack)
        # The status of the stack changes a moment after the answer.
        while True:
            made = self.cloudformation.describe_change_set(ChangeSetName=change_set, StackName=self.stack)
            if made["ExecutionStatus"] not in {"AVAILABLE", "EXECUTE_IN_PROGRESS"}:
                return
            found = find_stack(self.cloudformation, self.stack)
            if found is not None and found.in_progress:
                return
            time.sleep(self.poll_seconds)

    def _refuse_losses(self, change_set: str) -> None:
        """Raise `Misconfigured` if a change set replaces or removes a resource that keeps data."""
        lost, token = [], None
        while True:
            more: Any = {"NextToken": token} if token else {}
            page = self.cloudformation.describe_change_set(ChangeSetName=change_set, StackName=self.stack, **more)
            for change in (one.get("ResourceChange", {}) for one in page["Changes"]):
                goes = change.get("Action") == "Remove" or change.get("Replacement") == "True"
                if goes and change.get("ResourceType") in KEEP_DATA:
                    lost.append(change["LogicalResourceId"])
            token = page.get("NextToken")
            if not token:
                break
        if lost:
            self.cloudformation.delete_change_set(ChangeSetName=change_set, StackName=self.stack)
            raise Misconfigured(
                f"the update would replace or remove what keeps data: {', '.join(sorted(lost))}; nothing was changed"
            )


def _unusable(stack: str, found: FoundStack) -> str:
    command = f"aws cloudformation continue-update-rollback --stack-name {stack}"
    if found.status == "DELETE_FAILED":
        command = f"faultbridge destroy --stack {stack}"
    return f"the stack {stack} is {found.status} ({found.reason or 'no reason is given'}); first run `{command}`"


def template_url(s3: S3Client, bucket: str, packaged: Packaged) -> str:
    """Return the URL from which CloudFormation reads the uploaded template."""
    return f"{str(s3.meta.endpoint_url).rstrip('/')}/{bucket}/{FOLDER_IN_BUCKET}/{template_artifact(packaged).name}"
