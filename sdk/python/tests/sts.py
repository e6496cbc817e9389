"""A local stand-in for AWS's STS. It knows nothing of DriftQ but the issuer: it reads where the keys are as OpenID Connect
says, checks the token with PyJWT, and answers as AWS does. The name of the issuer resolves to a local server."""

from __future__ import annotations

import json
import secrets
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import jwt

NAME_SPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
DURATION_S = 3_600


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Sts:
    """`issuer` is the provider, found at `place`; `audience` is its client, and `roles` may be assumed. `answer`, if it is
    set, is said to everybody."""

    def __init__(self, issuer: str, place: str, audience: str, roles: set[str]) -> None:
        self._issuer = issuer
        self._place = place
        self._audience = audience
        self._roles = roles
        self.answer: tuple[int, bytes] | None = None
        # The forms that came, and the claims of those that were good.
        self.asked: list[dict[str, str]] = []
        self.claims: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Sts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer_to(self, form: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append(form)
        if self.answer is not None:
            return self.answer
        try:
            return 200, self._assume(form).encode()
        except Refusal as refusal:
            text = (
                f'<ErrorResponse xmlns="{NAME_SPACE}"><Error><Type>Sender</Type><Code>{refusal.code}</Code>'
                f"<Message>{escape(str(refusal))}</Message></Error><RequestId>r-1</RequestId></ErrorResponse>"
            )
            return refusal.status, text.encode()

    def _assume(self, form: dict[str, str]) -> str:
        if (form.get("Action"), form.get("Version")) != ("AssumeRoleWithWebIdentity", "2011-06-15"):
            raise Refusal(400, "InvalidAction", "no such action")
        if form["RoleArn"] not in self._roles:
            raise Refusal(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
        claims = self._checked(form["WebIdentityToken"])
        self.claims.append(claims)
        ends = datetime.now(UTC) + timedelta(seconds=int(form.get("DurationSeconds", DURATION_S)))
        return (
            f'<AssumeRoleWithWebIdentityResponse xmlns="{NAME_SPACE}"><AssumeRoleWithWebIdentityResult>'
            f"<SubjectFromWebIdentityToken>{escape(claims['sub'])}</SubjectFromWebIdentityToken><Credentials>"
            f"<AccessKeyId>ASIA{secrets.token_hex(8).upper()}</AccessKeyId>"
            f"<SecretAccessKey>secret/{secrets.token_urlsafe(30)}</SecretAccessKey>"
            f"<SessionToken>session+{secrets.token_urlsafe(300)}==</SessionToken>"
            f"<Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
            "<ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"
        )

    def _checked(self, token: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._place}/.well-known/openid-configuration") as answer:
            provider = json.load(answer)
        if provider["issuer"] != self._issuer:
            raise Refusal(400, "InvalidIdentityToken", "the provider calls itself by another name")
        keys = self._place + provider["jwks_uri"].removeprefix(self._issuer)
        try:
            key = jwt.PyJWKClient(keys).get_signing_key_from_jwt(token)
            return dict(
                jwt.decode(
                    token,
                    key.key,
                    algorithms=provider["id_token_signing_alg_values_supported"],
                    audience=self._audience,
                    issuer=self._issuer,
                    options={"require": ["exp", "iat", "iss", "aud", "sub"]},
                )
            )
        except jwt.ExpiredSignatureError as error:
            raise Refusal(400, "ExpiredTokenException", str(error)) from error
        except jwt.InvalidAudienceError as error:
            raise Refusal(400, "InvalidIdentityToken", "Incorrect token audience") from error
        except jwt.PyJWTError as error:
            raise Refusal(400, "InvalidIdentityToken", str(error)) from error


def _handler(sts: Sts) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, answer = sts.answer_to({name: values[0] for name, values in parse_qs(body).items()})
            self.send_response(status)
            self.send_header("content-type", "text/xml")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
