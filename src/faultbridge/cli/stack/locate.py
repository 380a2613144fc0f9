"""Find the stack of a command, or a copy of its archive: what options or a context of the user select."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faultbridge.cli.declare import BadParameter, Option
from faultbridge.model.errors import Conflict, Misconfigured, Rejected
from faultbridge.model.names import did_you_mean
from faultbridge.model.settings import PREFIX, Settings

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.local import StackInfo
    from faultbridge.record.timeline import Line, TimelineQuery


DEFAULT_STACK = "faultbridge"
# Any of these environment variables selects AWS instead of the embedded stack.
_AWS_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")
_OTHER_ACCESS = frozenset({"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"})
_ENDPOINT = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/\S*)?", re.IGNORECASE)

OUTPUTS: Mapping[str, str] = {
    "StackIdentity": "STACK_ID",
    "TableName": "TABLE",
    "EventBusName": "BUS",
    "EventSource": "EVENT_SOURCE",
    "RawRecordsQueueUrl": "QUEUE_URL",
    "RawRecordsDeadLettersUrl": "DEAD_LETTER_QUEUE_URL",
    "CloudEventsQueueUrl": "EVENTS_QUEUE_URL",
    "CloudEventsDeadLettersUrl": "EVENTS_DEAD_LETTER_QUEUE_URL",
    "RawBucketName": "BUCKET",
    "ArchiveBucketName": "ARCHIVE_BUCKET",
    "VaultBucketName": "VAULT_BUCKET",
    "StateMachineArn": "STATE_MACHINE",
    "UrgentTopicArn": "URGENT_TOPIC",
    "NoticeTopicArn": "NOTICE_TOPIC",
    "ApiUrl": "API_URL",
    "WebhookSendersSecret": "WEBHOOK_SENDERS",
}
"""The setting for each output of the CloudFormation template."""


@dataclass(frozen=True, slots=True)
class Target:
    """The stack that the options or a context select; `embedded` selects the embedded stack of this name."""

    stack: str = DEFAULT_STACK
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    embedded: bool = False
    context: str | None = None

    @property
    def selects_aws(self) -> bool:
        """Return whether an option or variable selects AWS; `faultbridge env` sets some variables too."""
        return self.has_options or any(os.environ.get(name) for name in _AWS_VARIABLES)

    @property
    def arguments(self) -> list[str]:
        """Return the options with which another command uses the same stack."""
        if self.context:
            return ["--context", self.context]
        given = {"--stack": self.stack, "--endpoint-url": self.endpoint_url, "--region": self.region}
        given["--profile"] = self.profile
        return [part for name, value in given.items() if value for part in (name, value)]

    @property
    def has_options(self) -> bool:
        """Return whether an option selects an endpoint, an AWS Region or an AWS profile."""
        return any((self.endpoint_url, self.region, self.profile))


def find_settings(
    target: Target, clients: Callable[[], Clients], notify: Callable[[str], None], *, embedded_only: bool = False
) -> Settings:
    """Return the settings of the stack that the options select; raises `Misconfigured` if it is not found.

    For the embedded stack, the AWS variables of this process are set. `notify` gets a notice if an embedded stack runs
    that is not used.
    """
    chosen = chosen_embedded_stack(target, embedded_only=embedded_only)
    if chosen is not None:
        use_environment(chosen.environment)
        return settings_from(target.stack, chosen.outputs)
    embedded = embedded_stack(target.stack)
    if embedded is not None and target.endpoint_url != embedded.endpoint:
        notify(f"embedded stack not used: {target.stack}; options or environment select another endpoint")
    from faultbridge.adapters.aws.stack import stack_outputs

    try:
        return settings_from(target.stack, stack_outputs(clients(), target.stack))
    except Misconfigured as error:
        if target.selects_aws:
            raise
        raise Misconfigured(f"{_no_embedded_stack(target.stack)}. On AWS, {error}") from error


def chosen_embedded_stack(target: Target, *, embedded_only: bool = False) -> StackInfo | None:
    """Return the running embedded stack, unless options or variables other than its own select AWS."""
    if embedded_only or target.embedded:
        return require_embedded_stack(target.stack)
    embedded = embedded_stack(target.stack)
    if embedded is None or not target.selects_aws:
        return embedded
    in_environment = all(os.environ.get(name) == embedded.environment.get(name) for name in _AWS_VARIABLES)
    return embedded if in_environment and not target.has_options else None


def checked_endpoint(name: str, url: str | None) -> str | None:
    """Return a URL unchanged; one that is not HTTP with a host is a usage error that names the option."""
    if url is not None and _ENDPOINT.fullmatch(url) is None:
        raise BadParameter(
            f"invalid {name}: {url!r}; give a URL with http:// or https://, such as http://127.0.0.1:4566"
        )
    return url


def require_embedded_stack(stack: str) -> StackInfo:
    """Return the embedded stack of this name. Raises `Misconfigured` if it is not running."""
    embedded = embedded_stack(stack)
    if embedded is None:
        raise Misconfigured(f"{_no_embedded_stack(stack)}; this command needs an embedded stack")
    return embedded


def _no_embedded_stack(stack: str) -> str:
    from faultbridge.local import stack_names

    running = stack_names()
    if not running:
        return "no embedded stack is up; `faultbridge up` starts one"
    return f"embedded stack not up: {stack}; up: {', '.join(running)}"


def embedded_stack(stack: str) -> StackInfo | None:
    """Return the embedded stack of this name, or None if it is not running."""
    from faultbridge.local import stack_info

    return stack_info(stack=stack)


def use_environment(environment: Mapping[str, str]) -> None:
    """Direct the AWS clients of this process to an embedded stack, and remove other access variables."""
    for name in [one for one in os.environ if one in _OTHER_ACCESS or one.startswith("AWS_ENDPOINT_URL")]:
        del os.environ[name]
    os.environ.update(environment)


def settings_from(stack: str, outputs: Mapping[str, str]) -> Settings:
    """Convert the CloudFormation outputs of a stack to settings."""
    from_outputs = {PREFIX + name: outputs[output] for output, name in OUTPUTS.items() if output in outputs}
    own = Settings.from_environment().variables
    return Settings({**own, **from_outputs, f"{PREFIX}STACK": stack})


CONTEXT_VARIABLE = "FAULTBRIDGE_CONTEXT"
"""The environment variable with the default of `--context`."""

FILE_VARIABLE = "FAULTBRIDGE_CONTEXTS"
"""The environment variable with the path of the file of contexts."""


def contexts_file() -> Path:
    """Return the path of the file of contexts, by default in the user's configuration folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.environ.get(FILE_VARIABLE) or f"{home}/faultbridge/contexts.json").expanduser()


def read_contexts() -> tuple[str | None, dict[str, Target]]:
    """Return the name of the current context, and all contexts by name; raises `Misconfigured` for a bad file."""
    path = contexts_file()
    try:
        document = json.loads(path.read_bytes())
        return document["current"], {name: Target(**one) for name, one in document["contexts"].items()}
    except FileNotFoundError:
        return None, {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Misconfigured(f"invalid file of contexts: {path}: {error}; correct or delete it") from error


def write_contexts(current: str | None, contexts: dict[str, Target]) -> None:
    """Write the file of contexts atomically, readable by its owner only."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(
        json.dumps({"current": current, "contexts": {name: asdict(one) for name, one in contexts.items()}})
    )
    draft.chmod(0o600)
    draft.replace(path)


def known_context(name: str, contexts: dict[str, Target]) -> Target:
    """Return the context of a name; an unknown one raises `Rejected` with the closest names."""
    if name not in contexts:
        raise Rejected("unknown_context", f"unknown context: {name}{did_you_mean(name, contexts)}")
    return contexts[name]


def context_target(name: str | None) -> Target | None:
    """Return the stack of a context, by default of the current one; None without a current context."""
    current, contexts = read_contexts()
    chosen = name or current
    return known_context(chosen, contexts) if chosen else None


ArchiveOption = Annotated[
    Path | None, Option("--archive DIR", "Read a copy of the archive in this folder instead of a stack.")
]


def open_folder(path: Path) -> Folder:
    """Open a folder with a copy of the archive and perhaps of the vault with its anchors."""
    if not path.is_dir():
        raise BadParameter(f"not a folder: {path}; give the folder of an archive copy")
    return Folder(path)


def archived_entries(path: Path, wanted: TimelineQuery) -> list[Line]:
    """Return the archived entries that match a query, without duplicates, in the order of recording."""
    from faultbridge.record.archive.verification import ReadArchive

    return ReadArchive(open_folder(path)).entries(wanted)


class Folder:
    """An Archive and a Vault in a local folder; keys are paths relative to the folder."""

    def __init__(self, root: Path) -> None:
        """Use a folder with `archive/`, `manifests/`, `sealed/` and `anchors/`; each may be missing."""
        if not root.is_dir():
            raise Misconfigured(f"not a folder: {root}; name a folder with a copy of the archive")
        self._root = root.resolve()

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes under the key; raises Conflict if the key exists with other content."""
        path = self._path(key)
        if path.exists() and path.read_bytes() != body:
            raise Conflict(f"{key} exists already with other content")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of the key, or None if the key does not exist."""
        path = self._path(key)
        return path.read_bytes() if path.is_file() else None

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in alphabetical order."""
        parent = self._path(prefix.rpartition("/")[0]) if "/" in prefix else self._root
        files = (path.relative_to(self._root).as_posix() for path in parent.rglob("*") if path.is_file())
        yield from sorted(key for key in files if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        # Keys come from manifests, which the maker of the copy may have changed.
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root):
            raise Misconfigured(f"key leads outside the folder: {key[:80]!r}")
        return path
