"""The application: routes, gate, and errors as problem details."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from turnwise._version import __version__
from turnwise.guard import GuardrailPipeline
from turnwise.serve.bodies import CheckRequest, ConversationRequest, Participants, ProblemBody
from turnwise.serve.check_routes import check_routes
from turnwise.serve.gate import Gate
from turnwise.serve.litellm_route import GuardrailRequest, litellm_routes
from turnwise.serve.operation_routes import operation_routes
from turnwise.serve.problems import MEDIA_TYPE, Problem, invalid_body
from turnwise.serve.record_routes import record_routes
from turnwise.serve.service import Service
from turnwise.serve.settings import ServeSettings

_FIELDS = {
    "body",
    "path",
    "query",
    "conversation_id",
    "session_id",
    "limit",
    "texts",
    "mode",
    *CheckRequest.model_fields,
    *ConversationRequest.model_fields,
    *Participants.model_fields,
    *GuardrailRequest.model_fields,
    "turns_per_minute",
    "turns_per_hour",
    "turns_per_day",
}
_TOLD = (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 503)
_KINDS = {404: "not-found", 405: "method"}


def create_app(pipeline: GuardrailPipeline, settings: ServeSettings | None = None) -> FastAPI:
    """Return the service as an ASGI application, to which further routers may be added.

    ``app.state.service`` has the `Service` that routes share. The application does not close the pipeline.

    Args:
        pipeline: checks the texts.
        settings: what may be set; by default everybody is served.

    >>> app = create_app(GuardrailPipeline.from_preset("basic"))
    >>> "/v1/check" in app.openapi()["paths"]
    True
    """
    settings = settings or ServeSettings()
    service = Service(pipeline, settings)
    problem: dict[str, Any] = {"model": ProblemBody, "content": {MEDIA_TYPE: {}}}
    app = FastAPI(
        title="turnwise",
        version=__version__,
        summary="Guardrails in front of and behind a live model, with the whole conversation in view.",
        docs_url=None,
        redoc_url=None,
        responses={status: {**problem, "description": "a problem"} for status in _TOLD},
    )
    app.state.service = service
    app.include_router(check_routes(service))
    app.include_router(record_routes(service))
    app.include_router(litellm_routes(service))
    app.include_router(operation_routes(service))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_middleware(Gate, service=service)
    if settings.keys is not None:
        _describe_keys(app)
    return app


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid_body(error.errors(), _FIELDS - {"body", "path", "query"}).response()


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Problem):
        return error.response()
    told = {404: "there is nothing here; see /openapi.json", 405: "this path has other methods"}
    detail = told.get(error.status_code, "the body is no valid JSON; send one JSON object")
    problem = Problem(error.status_code, detail, _KINDS.get(error.status_code, "json"))
    problem.headers = {**(error.headers or {})}
    return problem.response()


def _describe_keys(app: FastAPI) -> None:
    """Say in the OpenAPI how a key is sent."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        return schema

    app.openapi = described  # type: ignore[method-assign]
