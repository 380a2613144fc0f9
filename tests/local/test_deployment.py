"""`up` deploys changes and keeps data; a failed first deployment leaves no process running."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.local import environment
from faultbridge.local.stack import deployment
from faultbridge.local.stack.deployment import Deployment
from faultbridge.model.errors import Misconfigured, Transient
from tests.local.stack import PrivateStack, failure, processes_of, up
from tests.waiting import eventually

pytestmark = pytest.mark.embedded

CHANGED_QUEUE = "  DeadLetters:\n    Type: AWS::SQS::Queue\n    Properties: { VisibilityTimeout: 77 }\n"


def test_a_changed_template_is_deployed_and_data_is_kept(kept_home: Path, kept_project: Deployment) -> None:
    info, _ = up(kept_project)
    stack = PrivateStack(kept_home, info)
    dynamodb = stack.client("dynamodb")
    dynamodb.put_item(TableName=info.outputs["TableName"], Item={"pk": {"S": "kept"}})
    stack.client("sqs").send_message(QueueUrl=info.outputs["DeadLettersUrl"], MessageBody="kept")
    template = kept_project.template.read_text()
    kept_project.template.write_text(
        template.replace("  DeadLetters:\n    Type: AWS::SQS::Queue\n", CHANGED_QUEUE).replace(
            "AttributeName: !Ref ExpireBy", "AttributeName: gone_at"
        )
    )
    again, progress = up(kept_project)
    assert again.pids == info.pids
    assert "deploying" in progress
    expiry = dynamodb.describe_time_to_live(TableName=info.outputs["TableName"])["TimeToLiveDescription"]
    assert expiry["AttributeName"] == "gone_at"
    assert dynamodb.get_item(TableName=info.outputs["TableName"], Key={"pk": {"S": "kept"}})["Item"]
    queues = {queue.logical_id: queue for queue in stack.status().queues}
    assert queues["DeadLetters"].waiting == 1


def test_a_failed_update_leaves_a_running_stack_as_it_was(kept_home: Path, kept_project: Deployment) -> None:
    info, _ = up(kept_project)
    text = kept_project.template.read_text()
    kept_project.template.write_text(text.replace("  Topic:\n", "  Odd:\n    Type: AWS::No::Such\n\n  Topic:\n"))
    error = failure(kept_project)
    assert isinstance(error, Transient)
    assert "AWS::No::Such" in str(error)
    assert PrivateStack(kept_home, info).status().up
    kept_project.template.write_text(text)
    again, progress = up(kept_project)
    assert again == info
    assert progress == ["nothing changed since the last deployment"]


def test_down_stops_the_processes_of_up_and_deletes_the_state(kept_home: Path, kept_project: Deployment) -> None:
    info, _ = up(kept_project)
    assert len(processes_of(kept_home)) >= 3  # two emulators and a worker
    assert local.down()
    eventually(lambda: processes_of(kept_home) == [])
    assert environment.is_free(int(info.endpoint.rpartition(":")[2]))
    assert local.stack_info() is None
    assert not local.down()
    eventually(lambda: [one.name for one in kept_home.iterdir() if one.is_dir()] == [".packages"])


def test_a_second_stack_uses_the_build_of_the_first(kept_home: Path, kept_project: Deployment) -> None:
    up(kept_project)
    progress: list[str] = []
    local.up(False, progress.append, stack="second", default_ports=False, deployment=kept_project)
    assert "skipping the build: it is up to date" in progress
    built = list((kept_home / ".packages").iterdir())
    assert local.down(stack="second")
    assert built == list((kept_home / ".packages").iterdir()), "`down` keeps the builds"


@pytest.mark.nightly
def test_a_template_that_cannot_be_deployed_leaves_nothing_running(home: Path, project: Deployment) -> None:
    text = project.template.read_text().replace(
        "  Topic:\n    Type: AWS::SNS::Topic", "  Topic:\n    Type: AWS::No::Such"
    )
    project.template.write_text(text)
    error = failure(project)
    assert isinstance(error, Transient)
    assert "AWS::No::Such" in str(error)
    assert processes_of(home) == []
    assert local.stack_info() is None


def test_up_reports_a_function_that_cannot_be_imported(home: Path, project: Deployment) -> None:
    handler = project.project / "functions" / "worker" / "handler.py"
    handler.write_text(handler.read_text().replace("import boto3", "import boto3\nimport no_such_package"))
    error = failure(project)
    assert isinstance(error, Misconfigured)
    assert "No module named 'no_such_package'" in str(error)
    assert processes_of(home) == []


def test_an_interrupted_up_leaves_nothing_running(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deployment, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        up(project)
    assert processes_of(home) == []
