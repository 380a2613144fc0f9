"""Tokens of an OIDC issuer: what the documented set-up lets a viewer see. A local issuer takes the place of Cognito."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.serve.entrypoints.console import answer
from faultbridge.serve.entrypoints.http_event import HttpRequest, caller_of
from faultbridge.serve.entrypoints.lambda_events import read
from faultbridge.serve.wiring.services import wire_registration
from tests.api.gateway import event
from tests.architecture.project import ROOT
from tests.console.oidc import Issuer, authorize, served
from tests.console.sites import Site

NOW = 1_770_000_000.0
AUDIENCE = "faultbridge-console"
VALID: dict[str, Any] = {"sub": "ada", "aud": AUDIENCE, "exp": NOW + 600, "iat": NOW - 5}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with served(Issuer()) as made:
        yield made


@pytest.fixture(scope="module")
def site() -> Site:
    made = Site()
    wire_registration(made.world.app).add_cluster(ClusterConfig("secret-b"))
    return made


def status(site: Site, issuer: Issuer, path: str, token: str) -> tuple[int, str]:
    """Return the status and the text that a browser with this token gets behind the authorizer."""
    claims = authorize(f"Bearer {token}", issuer.address, AUDIENCE, NOW)
    if claims is None:
        return 401, ""
    request = event("GET", f"/console{path}", "", b"", ())
    request["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
    found = answer(request, site.world.app)
    return found["statusCode"], base64.b64decode(found["body"]).decode()


@pytest.mark.parametrize("claim", ["train-a", "train-a other", ["train-a", "other"]])
def test_a_token_shows_the_clusters_of_its_claim_and_no_other(site: Site, issuer: Issuer, claim: Any) -> None:
    token = issuer.token(**VALID, faultbridge_clusters=claim)
    code, text = status(site, issuer, "", token)
    assert (code, "train-a" in text, "secret-b" in text) == (200, True, False)
    assert status(site, issuer, "/clusters/train-a", token)[0] == 200
    assert status(site, issuer, "/clusters/secret-b", token)[0] == 403


def test_a_token_with_a_star_shows_all_clusters_and_one_without_the_claim_none(site: Site, issuer: Issuer) -> None:
    assert "secret-b" in status(site, issuer, "", issuer.token(**VALID, faultbridge_clusters="*"))[1]
    code, text = status(site, issuer, "", issuer.token(**VALID))
    assert (code, "train-a" in text) == (200, False)


@pytest.mark.parametrize(
    "changed",
    [{"aud": "other-app"}, {"exp": NOW - 1}, {"nbf": NOW + 60}, {"iss": "https://evil.example"}, {"algorithm": "none"}],
    ids=lambda one: next(iter(one)),
)
def test_a_token_that_the_authorizer_must_refuse_reaches_no_page(site: Site, issuer: Issuer, changed: Any) -> None:
    token = issuer.token(**(VALID | {"faultbridge_clusters": "*"} | changed))
    assert status(site, issuer, "", token)[0] == 401


def test_a_token_signed_by_another_key_is_refused(site: Site, issuer: Issuer) -> None:
    forger = Issuer()
    forger.address = issuer.address
    assert status(site, issuer, "", forger.token(**VALID, faultbridge_clusters="*"))[0] == 401


def trigger() -> Any:
    """Return the function of the set-up page that adds the claim in Cognito."""
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"   ```python\n(.*?)   ```", page, flags=re.DOTALL)
    made: dict[str, Any] = {}
    exec(textwrap.dedent(code), made)  # noqa: S102 - the code of our own page
    return made["handler"]


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        (["clusters.train-a"], {"train-a"}),
        (["clusters.train-a", "clusters.secret-b", "staff"], {"train-a", "secret-b"}),
        (["clusters.*"], {"train-a", "secret-b"}),
        (["operators.train-a"], {"train-a"}),
        (["operators.*"], {"train-a", "secret-b"}),
        (["train-a", "xclusters.train-a"], set()),
        ([], set()),
        (None, set()),
    ],
)
def test_the_documented_function_turns_the_groups_of_a_user_into_the_clusters_of_its_token(
    site: Site, issuer: Issuer, groups: list[str] | None, shown: set[str]
) -> None:
    code, text = status(site, issuer, "", issuer.token(**VALID, **claims_of(groups)))
    assert (code, {name for name in ("train-a", "secret-b") if name in text}) == (200, shown)


def claims_of(groups: list[str] | None) -> dict[str, str]:
    """Return the claims that the documented function adds for the groups of a user."""
    asked = {"request": {"userAttributes": {}, "groupConfiguration": {"groupsToOverride": groups}}, "response": {}}
    claims: dict[str, str] = trigger()(asked, None)["response"]["claimsOverrideDetails"]["claimsToAddOrOverride"]
    return claims


@pytest.mark.parametrize(
    ("groups", "operated"),
    [
        (["operators.train-a"], {"train-a"}),
        (["operators.*", "clusters.secret-b"], {"*"}),
        (["clusters.train-a", "clusters.*", "clusters.operators.train-a"], set()),
        (None, set()),
    ],
)
def test_only_the_groups_of_operators_let_a_token_operate_a_cluster(
    issuer: Issuer, groups: list[str] | None, operated: set[str]
) -> None:
    token = issuer.token(**VALID, **claims_of(groups))
    claims = authorize(f"Bearer {token}", issuer.address, AUDIENCE, NOW)
    caller = caller_of(read({"requestContext": {"authorizer": {"jwt": {"claims": claims}}}}, HttpRequest))
    assert caller.operated_clusters == operated
    assert caller.clusters is not None
    assert caller.operated_clusters <= caller.clusters


def test_no_route_answers_without_authorization_but_webhooks_that_check_their_own_signature() -> None:
    resources = template()["Resources"]
    routes = {
        one["Properties"]["RouteKey"]: one["Properties"]
        for one in resources.values()
        if one["Type"] == "AWS::ApiGatewayV2::Route"
    }
    signed = {"POST /intake/{sender}/{source}", "POST /hooks/slack", "POST /hooks/pagerduty"}
    assert {key for key, one in routes.items() if one["AuthorizationType"] == "NONE"} == signed
    for key, one in routes.items():
        if key not in signed:
            assert one["AuthorizationType"] == "!If HasJwt JWT AWS_IAM", key
            assert one["AuthorizerId"] == "!If HasJwt !Ref ApiTokens !Ref AWS::NoValue", key
    token = resources["ApiTokens"]["Properties"]["JwtConfiguration"]
    assert token == {"Issuer": "!Ref JwtIssuer", "Audience": ["!Ref JwtAudience"]}


@cache
def template() -> Any:
    class Loader(yaml.SafeLoader):
        pass

    def construct(loader: Any, tag: str, node: Any) -> str:
        parts = loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else [node.value]
        return " ".join((f"!{tag}", *map(str, parts)))

    Loader.add_multi_constructor("!", construct)
    return yaml.load((ROOT / "infra" / "template.yaml").read_text(encoding="utf-8"), Loader)  # noqa: S506 - a SafeLoader


@pytest.mark.parametrize(
    "issuer",
    [
        "",
        "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_Ab129faBb",
        "https://example.okta.com/oauth2/default",
        "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0",
        "https://example.auth0.com/",
        "https://idp.example.com:8443/realms/ops",
    ],
)
def test_the_template_accepts_the_issuers_of_common_providers(issuer: str) -> None:
    assert re.fullmatch(template()["Parameters"]["JwtIssuer"]["AllowedPattern"], issuer)


@pytest.mark.parametrize(
    "issuer",
    [
        "http://idp.example.com",
        "idp.example.com",
        "https://",
        "https://idp.example.com/?a=b",
        "https://a b",
        "https://a/#x",
    ],
)
def test_the_template_refuses_what_is_no_issuer(issuer: str) -> None:
    assert not re.fullmatch(template()["Parameters"]["JwtIssuer"]["AllowedPattern"], issuer)


def test_the_template_uses_the_issuer_for_the_console() -> None:
    resources = template()["Resources"]
    authorizer = resources["ApiTokens"]["Properties"]
    assert (authorizer["AuthorizerType"], authorizer["IdentitySource"]) == ("JWT", ["$request.header.Authorization"])
    for route in ("ApiConsoleFleet", "ApiConsolePages"):
        assert "ApiTokens" in str(resources[route]["Properties"]["AuthorizerId"])
