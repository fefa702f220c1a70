"""Errors as the service tells them: problem details (RFC 9457), without any text of the request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from turnwise.errors import nearest

MEDIA_TYPE: Final = "application/problem+json"

_MOST_ERRORS = 20
"""Places of a body that one problem names at most."""

_LIKENESS = 0.5
"""How alike an unknown field is to the one that it is taken for; names of fields are few and differ much."""


class Problem(HTTPException):
    """A request that is refused.

    `detail` says what was wrong and what to do in words of our own: nothing of the request. `kind` is part of the
    ``type``. `retry_after` has seconds, None where trying again would not help. `path` is the way that a text goes
    which was not checked, ``closed`` or ``open``.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str,
        *,
        retry_after: float | None = None,
        errors: Iterable[Mapping[str, str]] = (),
        path: str | None = None,
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
        if status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, detail, headers)
        self.kind = kind
        self.errors = list(errors)[:_MOST_ERRORS]
        self.path = path

    def response(self) -> Response:
        """The problem as a response."""
        body: dict[str, Any] = {
            "type": f"urn:turnwise:problem:{self.kind}",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = self.errors
        if self.path is not None:
            body["path"] = self.path
        return Response(json.dumps(body), self.status_code, self.headers, MEDIA_TYPE)


def invalid_body(errors: Iterable[Mapping[str, Any]], known: Iterable[str]) -> Problem:
    """The problem of a body that does not fit, from what pydantic found.

    Names in a place that are no fields (`known`) are the request's own, and are left out.
    """
    names, told = set(known), []
    for error in errors:
        place = [part for part in error["loc"] if isinstance(part, int) or part in names]
        if error["type"] == "json_invalid":
            return Problem(400, "the body is no valid JSON; send one JSON object", "json")
        detail = str(error["msg"]).removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            near = nearest(str(error["loc"][-1]), names, likeness=_LIKENESS)
            meant = "; see /openapi.json" if near is None else f": did you mean {near}?"
            detail = f"a field that is not known{meant}"
        told.append({"pointer": "".join(f"/{part}" for part in place), "detail": detail})
    first = told[0]
    return Problem(422, f"{first['pointer'][1:] or 'the body'}: {first['detail']}", "body", errors=told)
