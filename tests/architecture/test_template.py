"""Rules that every function, queue, event source mapping and rule of the template must satisfy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.adapters.aws.clients import CONNECT_SECONDS, READ_SECONDS
from faultbridge.adapters.kubernetes.nodes import MAX_EVICTING_SECONDS
from faultbridge.repair.attempt.step_context import LEASE
from faultbridge.repair.dispatch import MAX_ADMITTING
from faultbridge.serve.ops.react import MAX_ISOLATING, MAX_RECORDING_IMPACT
from faultbridge.serve.pager.rules import EVENT_TYPES, RULES, PageRule
from infra.docs.template import resources, template
from tests.architecture.project import FUNCTIONS, PACKAGE, ROOT, imports, modules
from tests.architecture.roles import actions, managed_policies, statements
from tests.loops import for_each
from tests.sim.fakes.table import PROJECTED

FUNCTION = "AWS::Serverless::Function"
NAMES = sorted(resources(FUNCTION))


def properties(name: str) -> dict[str, Any]:
    """Return the properties of one resource."""
    found = template()["Resources"][name]["Properties"]
    assert isinstance(found, dict)
    return found


def verb(name: str) -> str:
    """Return the folder of a function."""
    return name.removesuffix("Function").lower()


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_a_handler_in_a_folder_named_as_it(name: str) -> None:
    assert name.endswith("Function")
    assert (FUNCTIONS / verb(name) / "handler.py").is_file()


def test_every_handler_is_deployed() -> None:
    folders = {path.parent.name for path in FUNCTIONS.glob("*/handler.py")}
    assert folders == {verb(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_a_role_and_a_log_group_of_its_own(name: str) -> None:
    role = properties(name)["Role"]
    assert role == {"Fn::GetAtt": f"{name.removesuffix('Function')}Role.Arn"}
    log = properties(f"{name.removesuffix('Function')}Log")
    assert log["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    function_name = properties(name)["FunctionName"]["Fn::Sub"]
    assert log["LogGroupName"] == {"Fn::Sub": f"/aws/lambda/{function_name}"}


RUNTIME = template()["Parameters"]["PythonRuntime"]


def test_every_function_and_layer_has_the_runtime_of_the_parameter() -> None:
    assert template()["Globals"]["Function"]["Runtime"] == {"Ref": "PythonRuntime"}
    assert [name for name in NAMES if "Runtime" in properties(name)] == []
    for layer in ("DependenciesLayer", "KubernetesLayer", "ConsoleLayer"):
        assert properties(layer)["CompatibleRuntimes"] == [{"Ref": "PythonRuntime"}]


def test_every_function_and_layer_has_the_architecture_of_the_parameter_and_the_build_its_default() -> None:
    assert template()["Globals"]["Function"]["Architectures"] == [{"Ref": "Architecture"}]
    assert [name for name in NAMES if "Architectures" in properties(name)] == []
    for layer in ("DependenciesLayer", "KubernetesLayer", "ConsoleLayer"):
        assert properties(layer)["CompatibleArchitectures"] == [{"Ref": "Architecture"}]
    built = re.search(
        r"^ARCHITECTURE \?= (\w+)$", (ROOT / "infra" / "build.mk").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert built is not None
    assert built[1] == template()["Parameters"]["Architecture"]["Default"]


def test_the_default_runtime_is_python_3_13_also_for_the_build() -> None:
    assert RUNTIME["Default"] == "python3.13"
    assert RUNTIME["Default"] in RUNTIME["AllowedValues"]
    built = re.search(r"^PYTHON_VERSION \?= (.+)$", (ROOT / "infra" / "build.mk").read_text("utf-8"), re.MULTILINE)
    assert built is not None
    assert f"python{built[1]}" == RUNTIME["Default"]


def test_aws_changes_the_patch_version_of_the_runtime_only_with_a_deployment() -> None:
    assert template()["Globals"]["Function"]["RuntimeManagementConfig"] == {"UpdateRuntimeOn": "FunctionUpdate"}


# https://docs.python.org/3/whatsnew/3.12.html and 3.13.html, "Removed".
REMOVED_BY_3_13 = {
    "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp",
    "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau",
    "telnetlib", "uu", "xdrlib",
}  # fmt: skip


@pytest.mark.slow
def test_the_source_imports_nothing_that_a_later_runtime_removed() -> None:
    imported = {name.split(".")[0] for path in modules(PACKAGE) for name in imports(path)}
    assert imported & REMOVED_BY_3_13 == set()


def interpreter(name: str) -> str | None:
    """Return an interpreter that runs: from the path, or from the folder in which pyenv installs its versions."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    version = name.removeprefix("python")
    installed = sorted(str(one) for one in pyenv.glob(f"versions/{version}.*/bin/{name}"))
    for found in filter(None, (shutil.which(name), *installed)):
        if not subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
            return found
    return None


@pytest.mark.nightly
@pytest.mark.parametrize("runtime", [one for one in RUNTIME["AllowedValues"] if one != RUNTIME["Default"]])
def test_the_source_compiles_without_warnings_on_every_allowed_runtime(runtime: str) -> None:
    python = interpreter(runtime)
    if python is None:
        pytest.skip(f"{runtime} is not installed")
    check = (
        "import pathlib, sys; [compile(p.read_text(), str(p), 'exec') for p in pathlib.Path(sys.argv[1]).rglob('*.py')]"
    )
    command = [python, "-W", "error", "-c", check, str(ROOT / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PAGE_RULES = ["PagerChanges", "PagerClusterStatus", "PagerNotes", "PagerStubs", "ChatRule"]


def test_queues_that_trust_eventbridge_accept_only_the_rules_that_feed_them() -> None:
    for policy, rules in (
        ("CloudEventsQueuePolicy", ["HyperPodEvents", "Ec2Events", "HealthEvents", "JobReports"]),
        ("InventoryEventsQueuePolicy", ["InventoryEvents"]),
        ("PagesQueuePolicy", PAGE_RULES),
    ):
        (allowed,) = (one for one in properties(policy)["PolicyDocument"]["Statement"] if one["Effect"] == "Allow")
        arns = allowed["Condition"]["ArnEquals"]["aws:SourceArn"]
        assert re.findall(r"'Fn::GetAtt': '(\w+)\.Arn'", str(arns)) == rules


def test_every_rule_is_named_by_us_because_generated_names_cut_the_name_of_the_stack() -> None:
    unnamed = [name for name, rule in resources("AWS::Events::Rule").items() if "Name" not in rule["Properties"]]
    assert unnamed == []
    keys = {"Schedule": "Name", "EventBridgeRule": "RuleName"}
    for name, event, body in EVENTS:
        if body["Type"] in keys:
            assert body["Properties"][keys[body["Type"]]]["Fn::Sub"].startswith("${AWS::StackName}-"), f"{name}.{event}"


def test_only_the_functions_that_publish_may_put_events_with_our_source() -> None:
    statement = properties("EventBusPublishers")["Statement"]
    publishers = {
        f"{role}.Arn"
        for role in resources("AWS::IAM::Role")
        if any("events:PutEvents" in actions(one) for one in statements(role))
    }
    assert statement["Effect"] == "Deny"
    assert {one["Fn::GetAtt"] for one in statement["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]} == publishers


def test_one_entry_with_our_source_is_enough_to_deny_a_request_with_several() -> None:
    condition = properties("EventBusPublishers")["Statement"]["Condition"]
    assert "events:source" in condition["ForAnyValue:StringEquals"]


OF_SEVERAL_VALUES = {"events:source", "dynamodb:Attributes", "dynamodb:LeadingKeys", "aws:TagKeys"}
"""The condition keys that the service authorization reference gives the type ArrayOfString, as far as they occur."""


def test_a_condition_on_several_values_says_whether_it_means_any_or_all_of_them() -> None:
    conditions = [
        (role, operator, key)
        for role in (*resources("AWS::IAM::Role"), "EventBusPublishers")
        for statement in (statements(role) if role.endswith("Role") else [properties(role)["Statement"]])
        for operator, keys in statement.get("Condition", {}).items()
        for key in keys
        if key in OF_SEVERAL_VALUES
    ]
    assert {key for *_, key in conditions} >= {"events:source", "dynamodb:Attributes"}
    assert [one for one in conditions if not one[1].startswith(("ForAnyValue:", "ForAllValues:"))] == []


@pytest.mark.parametrize(
    ("alarm", "namespace", "metric", "subject"),
    [
        ("InventoryErrorsAlarm", "AWS/Lambda", "Errors", "InventoryFunction"),
        ("ArchiveErrorsAlarm", "AWS/Lambda", "Errors", "ArchiveFunction"),
        ("ArchiveDeliveryAlarm", "AWS/Firehose", "DeliveryToS3.DataFreshness", "ArchiveDelivery"),
    ],
)
def test_a_failing_inventory_or_archive_raises_an_alarm(alarm: str, namespace: str, metric: str, subject: str) -> None:
    found = properties(alarm)
    assert (found["Namespace"], found["MetricName"]) == (namespace, metric)
    assert [one["Value"] for one in found["Dimensions"]] == [{"Ref": subject}]
    assert found["AlarmActions"]


def test_a_launch_may_use_shared_subnets_and_reservations_and_groups_of_reservations() -> None:
    launch = [one for one in managed_policies()["LaunchPolicy"]["PolicyDocument"]["Statement"] if "Fn::If" not in one]
    arns = {
        str(arn["Fn::Sub"]) for one in launch for arn in one["Resource"] if isinstance(arn, dict) and "Fn::Sub" in arn
    }
    own = "${AWS::Region}:${AWS::AccountId}"
    assert f"arn:${{AWS::Partition}}:resource-groups:{own}:group/*" in arns
    for shared in ("subnet", "capacity-reservation"):
        of_kind = {arn for arn in arns if f":{shared}/" in arn}
        assert of_kind == {f"arn:${{AWS::Partition}}:ec2:${{AWS::Region}}:*:{shared}/*"}


def test_what_a_launch_creates_besides_the_instance_may_be_tagged_at_that_launch_only() -> None:
    (tagging,) = (
        one
        for one in managed_policies()["LaunchPolicy"]["PolicyDocument"]["Statement"]
        if one.get("Action") == "ec2:CreateTags" and "volume/*" in str(one["Resource"])
    )
    kinds = {str(arn["Fn::Sub"]).rpartition(":")[2] for arn in tagging["Resource"]}
    assert kinds == {"network-interface/*", "volume/*"}
    assert "ec2:CreateAction" in str(tagging["Condition"])


def test_the_subscription_forwards_the_events_of_the_health_agent_only_as_its_page_says() -> None:
    pattern = properties("AgentLogs")["FilterPattern"]
    assert pattern == '{ $.HealthMonitoringAgentDetectionEvent = "HealthEvent" }'
    page = (ROOT / "docs" / "sources" / "hyperpod-agent-log.md").read_text(encoding="utf-8")
    assert "does not forward the results of deep health checks" in page


def test_no_arn_names_a_partition() -> None:
    text = (ROOT / "infra" / "template.yaml").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "arn:aws" in line] == []


def test_the_policy_for_nodes_allows_sending_and_nothing_else() -> None:
    statements_ = properties("NodePolicy")["PolicyDocument"]["Statement"]
    plain = [one for one in statements_ if "Fn::If" not in one]
    assert [(one["Action"], one["Resource"]) for one in plain] == [
        ("sqs:SendMessage", {"Fn::GetAtt": "RawRecordsQueue.Arn"}),
        ("s3:PutObject", {"Fn::Sub": "${RawBucket.Arn}/raw/*"}),
    ]
    (with_key,) = (one["Fn::If"][1] for one in statements_ if "Fn::If" in one)
    assert with_key["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]


@pytest.mark.parametrize("metric", ["ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted"])
def test_an_execution_that_ends_outside_its_steps_raises_an_alarm(metric: str) -> None:
    assert metric in {alarm["Properties"].get("MetricName") for alarm in resources("AWS::CloudWatch::Alarm").values()}


def test_nodes_have_no_permission_on_log_bundles_and_a_bundle_cannot_be_destroyed_by_a_second_upload() -> None:
    writers = {
        role for role in resources("AWS::IAM::Role") for one in statements(role) if "/bundles/" in str(one["Resource"])
    }
    assert writers == {"SweepRole", "ReplacementRole"}
    assert properties("RawBucket")["VersioningConfiguration"] == {"Status": "Enabled"}


def test_who_may_look_for_kubernetes_clusters_has_the_client_for_them() -> None:
    roles = {
        role.removesuffix("Role")
        for role in resources("AWS::IAM::Role")
        if any("eks:DescribeCluster" in actions(statement) for statement in statements(role))
    }
    layer = [{"Ref": "KubernetesLayer"}]
    assert {name.removesuffix("Function") for name in NAMES if properties(name).get("Layers") == layer} == roles


def test_no_role_may_do_everything_of_a_service() -> None:
    wild = [
        (role, action)
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        for action in actions(statement)
        if "*" in action
    ]
    assert not wild


def test_only_calls_that_know_no_resource_are_allowed_on_all_of_them() -> None:
    unbound = {
        action
        for role in resources("AWS::IAM::Role")
        for statement in statements(role)
        if statement["Resource"] == "*"
        for action in actions(statement)
    }
    readers = ("Describe", "List", "Get")
    assert {a for a in unbound if not a.split(":")[1].startswith(readers)} == {"ssm:CancelCommand"}


@pytest.mark.parametrize("role", ["ReplacementRole", "SweepRole"])
def test_what_changes_an_instance_or_a_group_is_bound_to_the_repair_tag(role: str) -> None:
    for statement in statements(role):
        on_instances = [a for a in actions(statement) if a.split(":")[0] in {"ec2", "autoscaling"}]
        changes = any(not a.split(":")[1].startswith("Describe") for a in on_instances)
        if changes and not concerns_only_launch_resources(statement):
            assert "faultbridge:stack" in str(statement["Condition"])


def concerns_only_launch_resources(statement: dict[str, Any]) -> bool:
    """Return whether a statement names only resources that a launch uses, and no instance or launch template."""
    kinds = {str(one).rsplit(":", 1)[1].split("/")[0].strip("'}") for one in statement["Resource"]}
    return kinds <= {
        "image", "snapshot", "capacity-reservation", "key-pair", "network-interface", "placement-group",
        "security-group", "subnet", "volume", "group",
    }  # fmt: skip


EVENTS = [(name, event, body) for name in NAMES for event, body in properties(name).get("Events", {}).items()]


def dead_letters(body: dict[str, Any]) -> object:
    """Return where the messages go that the function of an event source did not process, or None."""
    inner = body["Properties"]
    match body["Type"]:
        case "SQS":
            queue = inner["Queue"]["Fn::GetAtt"].removesuffix(".Arn")
            return properties(queue).get("RedrivePolicy", {}).get("deadLetterTargetArn")
        case "DynamoDB":
            return inner.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        case _:
            return inner.get("DeadLetterConfig", {}).get("Arn")


@pytest.mark.parametrize(("name", "event", "body"), EVENTS, ids=[f"{n}-{e}" for n, e, _ in EVENTS])
def test_an_event_source_has_a_dead_letter_destination(name: str, event: str, body: dict[str, Any]) -> None:
    target = dead_letters(body)
    assert isinstance(target, dict), f"{name}.{event}"
    assert target["Fn::GetAtt"].removesuffix(".Arn") in resources("AWS::SQS::Queue")


def test_ingest_keeps_the_messages_that_it_gives_back_and_no_other_function_gives_one_back() -> None:
    partial = {
        (name, event)
        for name, event, body in EVENTS
        if body["Properties"].get("FunctionResponseTypes") == ["ReportBatchItemFailures"]
    }
    assert partial == {("IngestFunction", "RawRecords"), ("IngestFunction", "CloudEvents")}
    answers = (ROOT / "src" / "faultbridge" / "serve" / "entrypoints").glob("*.py")
    assert [one.stem for one in answers if "batchItemFailures" in one.read_text(encoding="utf-8")] == ["ingest"]


def test_every_dead_letter_queue_raises_an_alarm() -> None:
    alarms = resources("AWS::CloudWatch::Alarm").values()
    watched = str([alarm["Properties"] for alarm in alarms])
    dead = [name for name in resources("AWS::SQS::Queue") if name.endswith("DeadLetters")]
    assert dead
    assert [name for name in dead if f"{name}.QueueName" not in watched] == []


WATCHED = {
    "IngestErrorsAlarm": ("AWS/Lambda", "Errors", "IngestFunction", "notBreaching"),
    "RawRecordsAgeAlarm": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "RawRecordsQueue.QueueName", "notBreaching"),
    "CloudEventsAgeAlarm": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "CloudEventsQueue.QueueName", "notBreaching"),
    "PagesAgeAlarm": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "PagesQueue.QueueName", "notBreaching"),
    "PublishLagAlarm": ("AWS/Lambda", "IteratorAge", "PublishFunction", "notBreaching"),
    "SweepMissedAlarm": ("AWS/Lambda", "Invocations", "SweepFunction", "breaching"),
    "PagerMissedAlarm": ("AWS/Lambda", "Invocations", "PagerFunction", "breaching"),
    "CanaryMissedAlarm": ("Faultbridge", "CanariesReceived", "AWS::StackName", "breaching"),
}
"""What a dead table, queue, bus or schedule shows itself by: nothing of ours can page when they are gone."""


@pytest.mark.parametrize("name", WATCHED)
def test_what_would_keep_pages_from_being_sent_is_watched_from_outside(name: str) -> None:
    alarm = properties(name)
    namespace, metric, of, missing = WATCHED[name]
    assert (alarm["Namespace"], alarm["MetricName"]) == (namespace, metric)
    assert of in str(alarm["Dimensions"])
    assert alarm["TreatMissingData"] == missing
    slowest = int(alarm["Period"]) * int(alarm["EvaluationPeriods"])
    assert slowest <= 600


OUR_METRICS = {
    alarm["Properties"]["MetricName"]: alarm["Properties"]["Dimensions"][1]["Value"]
    for alarm in resources("AWS::CloudWatch::Alarm").values()
    if alarm["Properties"].get("Namespace") == "Faultbridge"
}


@pytest.mark.parametrize("metric", OUR_METRICS)
def test_a_metric_of_ours_that_raises_an_alarm_is_one_that_its_function_emits(metric: str) -> None:
    service = OUR_METRICS[metric]
    assert metric in (ROOT / "src" / "faultbridge" / "serve" / "entrypoints" / f"{service}.py").read_text(
        encoding="utf-8"
    )


def test_every_alarm_goes_straight_to_the_urgent_topic() -> None:
    for alarm in resources("AWS::CloudWatch::Alarm").values():
        assert {"Ref": "UrgentTopic"} in alarm["Properties"]["AlarmActions"]


@pytest.mark.parametrize("name", ["PublishFunction", "ReactFunction"])
def test_a_stream_mapping_sees_new_entries_only_and_gives_up_within_bounds(name: str) -> None:
    mapping = properties(name)["Events"]["Entries"]["Properties"]
    pattern = yaml.safe_load(mapping["FilterCriteria"]["Filters"][0]["Pattern"])
    assert pattern["eventName"] == ["INSERT"]
    assert pattern["dynamodb"]["NewImage"]["sk"] == {"S": [{"prefix": "ENTRY#"}]}
    assert mapping["BisectBatchOnFunctionError"] is True
    assert (mapping["MaximumRetryAttempts"], mapping["MaximumRecordAgeInSeconds"]) == (10, 3600)


def test_a_burst_fills_large_batches_of_react() -> None:
    """Each batch reads the rows of all unhealthy nodes, so small batches make the reads grow with their square."""
    mapping = properties("ReactFunction")["Events"]["Entries"]["Properties"]
    # Without a window, a batch contains what one read of the stream returns: at most 1 MB before the filter.
    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (1000, 1)


@pytest.mark.parametrize("name", ["SweepFunction", "InventoryFunction"])
def test_the_next_schedule_does_the_work_of_a_failed_run_so_lambda_does_not_repeat_it(name: str) -> None:
    assert properties(name)["EventInvokeConfig"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    schedules = [one for one in properties(name)["Events"].values() if one["Type"] == "Schedule"]
    assert [one["Properties"]["RetryPolicy"]["MaximumRetryAttempts"] for one in schedules] == [0]


def test_react_has_time_for_all_steps() -> None:
    limited = MAX_ISOLATING + MAX_RECORDING_IMPACT + MAX_ADMITTING
    last_calls = timedelta(seconds=2 * 40)  # a cordon of Slurm through SSM, when the time of each step is nearly over
    assert properties("ReactFunction")["Timeout"] >= (limited + last_calls).total_seconds() + 15


def test_the_evictions_of_one_drain_step_end_before_the_function() -> None:
    last_eviction = MAX_EVICTING_SECONDS + READ_SECONDS
    other_calls = 3 * (CONNECT_SECONDS + READ_SECONDS)  # the node, its pods, and the token
    assert properties("ReplacementFunction")["Timeout"] >= last_eviction + other_calls + 15


def test_a_lease_outlasts_the_longest_call_of_a_step() -> None:
    assert timedelta(seconds=properties("ReplacementFunction")["Timeout"]) < LEASE


def test_a_record_stays_hidden_for_six_time_outs_and_outlives_an_outage() -> None:
    default = {name: body["Default"] for name, body in template()["Parameters"].items()}
    assert default["RawRecordsVisibilitySeconds"] == 6 * default["IngestTimeoutSeconds"]
    queue = properties("RawRecordsQueue")
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 1000
    assert queue["MessageRetentionPeriod"] == 14 * 86400


def test_what_is_kept_survives_the_stack_but_a_first_creation_that_fails_leaves_nothing() -> None:
    for name in ("Table", "RawBucket"):
        kept = template()["Resources"][name]
        assert (kept["DeletionPolicy"], kept["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    for switch in ("TableDeletionProtection", "TablePointInTimeRecovery"):
        assert template()["Parameters"][switch]["Default"] == "true"


def test_an_anchor_is_locked_for_the_days_of_the_parameter() -> None:
    lock = properties("VaultBucket")["ObjectLockConfiguration"]
    retention = {"Mode": {"Ref": "VaultMode"}, "Days": {"Ref": "VaultDays"}}
    assert lock == {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}


def test_indexes_never_carry_evidence() -> None:
    projections = [i["Projection"] for i in properties("Table")["GlobalSecondaryIndexes"]]
    projected = {a for projection in projections for a in projection.get("NonKeyAttributes", [])}
    kinds = [projection["ProjectionType"] for projection in projections]
    assert kinds == ["INCLUDE", "INCLUDE", "INCLUDE", "KEYS_ONLY", "KEYS_ONLY", "KEYS_ONLY"]
    assert not {"evidence", "conditions", "tombstones"} & projected


def test_the_fake_table_projects_what_the_indexes_project() -> None:
    for index in properties("Table")["GlobalSecondaryIndexes"][:3]:
        assert set(index["Projection"]["NonKeyAttributes"]) == PROJECTED


def test_every_parameter_is_explained() -> None:
    assert [name for name, body in template()["Parameters"].items() if not body.get("Description")] == []


def page_patterns() -> list[dict[str, Any]]:
    """Return the patterns of the rules that send events to the queue of the pager."""
    queue = {"Fn::GetAtt": "PagesQueue.Arn"}
    rules = [rule["Properties"] for rule in resources("AWS::Events::Rule").values()]
    return [rule["EventPattern"] for rule in rules if queue in [target["Arn"] for target in rule["Targets"]]]


def test_an_event_that_the_pager_cannot_process_is_delivered_again_for_a_day() -> None:
    queue, function = properties("PagesQueue"), properties("PagerFunction")
    assert {"Fn::GetAtt": "PagesQueue.Arn"} in [one["Properties"].get("Queue") for one in function["Events"].values()]
    retried_for = queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    assert 86_400 <= retried_for < queue["MessageRetentionPeriod"]
    # The factor that AWS recommends, so that a message is not delivered again while its function still waits to run.
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]


@for_each("rule", RULES, ids=lambda rule: f"{rule.kind} {rule.state.value}")
def test_the_pager_receives_every_event_that_requires_a_page(rule: PageRule) -> None:
    complete = [one for one in page_patterns() if "truncated" not in one.get("detail", {}).get("metadata", {})]
    received = [one for one in complete if rule.event_type in one["detail-type"]]
    assert received
    for one in received:
        asked = one.get("detail", {}).get("data", {})
        assert all(set(rule.when[field]) <= set(allowed) for field, allowed in asked.items())


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_the_pager_receives_the_stub_of_every_event_that_may_require_a_page(event_type: str) -> None:
    asked = [one.get("detail", {}) for one in page_patterns() if event_type in one["detail-type"]]
    assert [one for one in asked if one in ({}, {"metadata": {"truncated": ["*"]}})]


def test_what_calls_slurmrestd_or_kubernetes_can_run_in_a_vpc_and_runs_outside_by_default() -> None:
    callers = {
        name.removesuffix("Function")
        for name in NAMES
        if "FAULTBRIDGE_SLURM_TOKENS" in properties(name).get("Environment", {}).get("Variables", {})
    }
    assert callers == {"React", "Replacement", "Sweep"}
    with_kubernetes = {
        name.removesuffix("Function")
        for name in NAMES
        if {"Ref": "KubernetesLayer"} in properties(name).get("Layers", ())
    }
    callers |= with_kubernetes
    assert callers == {"Inventory", "React", "Replacement", "Sweep"}
    attached = {"SubnetIds": {"Ref": "VpcSubnets"}, "SecurityGroupIds": {"Ref": "VpcSecurityGroups"}}
    config = {"Fn::If": ["RunsInVpc", attached, {"Ref": "AWS::NoValue"}]}
    assert {name for name in NAMES if "VpcConfig" in properties(name)} == {f"{one}Function" for one in callers}
    for caller in callers:
        assert properties(f"{caller}Function")["VpcConfig"] == config
        assert "AWSLambdaVPCAccessExecutionRole" in str(properties(f"{caller}Role")["ManagedPolicyArns"])
    assert [template()["Parameters"][one]["Default"] for one in ("VpcSubnets", "VpcSecurityGroups")] == ["", ""]
