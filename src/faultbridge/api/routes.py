"""Routes: every question of the API, as data for whoever serves it and whoever describes it."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.api.answers import SEVERITIES, STATUSES, TYPES, Answer, Answers


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter: `kind` is text, instant, whole or token; `known` lists all values there are."""

    name: str
    says: str
    kind: str = "text"
    many: bool = False
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One question: `shape` names what is answered, `body` what is asked with a POST."""

    method: str
    path: str
    name: str
    shape: str
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None

    @property
    def in_cluster(self) -> bool:
        """Tell whether it is about one cluster; the others need the right to see all."""
        return "{cluster}" in self.path


_LIMIT = Parameter("limit", "At most so many items, 1 to 500.", kind="whole")
_TOKEN = Parameter("token", "The `next` of the page before, with the same question.", kind="token")
_C = "/clusters/{cluster}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/clusters", "listClusters", "Clusters", Answers.clusters),
    Route("GET", _C, "showCluster", "Cluster", Answers.cluster),
    Route("GET", f"{_C}/nodes", "listNodes", "Nodes", Answers.nodes, (_LIMIT, _TOKEN)),
    Route("GET", f"{_C}/nodes/{{node}}", "showNode", "Node", Answers.node),
    Route(
        "GET",
        f"{_C}/cases",
        "listCases",
        "Cases",
        Answers.cases,
        (Parameter("status", "Only cases of this status; live ones when none is named.", many=True, known=STATUSES),),
    ),
    Route("GET", f"{_C}/cases/{{case}}", "showCase", "Case", Answers.case),
    Route("POST", f"{_C}/cases/{{case}}/approve", "approveCase", "Answered", Answers.approve, body="Answer"),
    Route("POST", f"{_C}/cases/{{case}}/deny", "denyCase", "Answered", Answers.deny, body="Answer"),
    Route(
        "GET",
        f"{_C}/entries",
        "listEntries",
        "Entries",
        Answers.entries,
        (
            Parameter("node", "Only this node."),
            Parameter("case", "Only this case."),
            Parameter("device", "Only this device, by serial number or UUID."),
            Parameter("job", "Only what concerns this job."),
            Parameter("code", "Only this fault code.", many=True),
            Parameter("type", "Only this type.", many=True, known=TYPES),
            Parameter("severity", "Only while this was the worst.", many=True, known=SEVERITIES),
            Parameter("since", "Recorded at this instant or later.", kind="instant"),
            Parameter("until", "Recorded before this instant.", kind="instant"),
            _LIMIT,
            _TOKEN,
        ),
    ),
    Route(
        "GET",
        f"{_C}/streams/{{node}}/entries",
        "readStream",
        "Stream",
        Answers.stream,
        (
            Parameter("after", "Entries after this sequence.", kind="whole"),
            Parameter("epoch", "The epoch of `after`; the present one when it is not given.", kind="whole"),
            _LIMIT,
        ),
    ),
    Route("GET", f"{_C}/streams/{{node}}/verify", "verifyStream", "Verified", Answers.verified),
    Route("GET", f"{_C}/rejects", "listRejects", "Rejects", Answers.rejected, (_LIMIT,)),
)
