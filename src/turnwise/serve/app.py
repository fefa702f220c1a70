"""The application: its routes, those of operations among them, the gate, and errors as problem details."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from turnwise._version import __version__
from turnwise.errors import TurnwiseError
from turnwise.guard import GuardrailPipeline, Mode
from turnwise.guard.config import preset_names, preset_summary
from turnwise.serve.admission import Gate
from turnwise.serve.bodies import (
    MEDIA_TYPE,
    CheckRequest,
    ConversationRequest,
    ModeRequest,
    ParticipantsBody,
    Problem,
    ProblemBody,
    invalid_body,
)
from turnwise.serve.check_routes import check_routes, json_response
from turnwise.serve.litellm_route import GuardrailRequest, litellm_routes
from turnwise.serve.record_routes import not_known, record_routes
from turnwise.serve.service import Service
from turnwise.serve.settings import ServeSettings
from turnwise.serve.tenants import Caller, Tenant

_FIELDS = {
    *("conversation_id", "session_id", "limit", "texts", "mode"),
    *("turns_per_minute", "turns_per_hour", "turns_per_day"),
    *CheckRequest.model_fields,
    *ConversationRequest.model_fields,
    *ParticipantsBody.model_fields,
    *GuardrailRequest.model_fields,
}
_STATUSES = (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 503)
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
        responses={status: {**problem, "description": "a problem"} for status in _STATUSES},
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
    return invalid_body(error.errors(), _FIELDS).response()


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
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        return schema

    app.openapi = described  # type: ignore[method-assign]


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def operation_routes(service: Service) -> APIRouter:
    """The routes for those who run the service: health, metrics, presets, reload, tenants."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz", summary="Whether the process lives")
    async def healthz() -> Response:
        """Answer as long as the event loop turns."""
        return json_response({"status": "alive"})

    @routes.get("/readyz", summary="Whether texts can be checked")
    async def readyz() -> Response:
        """Answer 503 while the state store is down and texts are blocked without it."""
        return json_response(await service.ready())

    @routes.get("/metrics", summary="Metrics for Prometheus")
    async def metrics(tenant: Caller) -> Response:
        """Return what all workers counted."""
        service.tenants.operate(tenant)
        counts = await service.apart("metrics", service.metrics.text)
        return Response(counts, headers={"Content-Type": _METRICS_TYPE})

    @routes.get("/v1/presets", summary="The configurations that ship")
    async def presets(tenant: Caller) -> Response:
        """Return name and summary of every preset."""
        shipped = [{"name": name, "summary": preset_summary(name)} for name in preset_names()]
        return json_response({"presets": shipped, "serving": tenant.pipeline.config.name})

    @routes.post("/v1/reload", summary="Read the configuration again")
    async def reload(tenant: Caller) -> Response:
        """Go on with configuration and keys as they are now, in all workers; what does not fit changes nothing."""
        service.tenants.operate(tenant)
        return json_response(await service.apart("reload", _reloaded, service))

    @routes.get("/v1/tenants", summary="The tenants and how their pipelines run")
    async def tenants(tenant: Caller) -> Response:
        """Return name, configuration and mode of every tenant; for an operator."""
        service.tenants.operate(tenant, modes=True)
        return json_response({"tenants": [_shown(one) for one in service.tenants.by_name.values()]})

    @routes.put("/v1/tenants/{name}/mode", summary="Switch the pipeline of a tenant on, off, or to log only")
    async def change(
        tenant: Caller, name: Annotated[str, Path(max_length=256)], request: Annotated[ModeRequest, Body()]
    ) -> Response:
        """Let the pipeline of a tenant run in a mode, in all workers within a second; for an operator.

        It stays so, over restarts as well where there is a state store, until it is changed again.
        """
        service.tenants.operate(tenant, modes=True)
        mode = None if request.mode is None else Mode(request.mode)
        changed = await service.run(service.tenants.choose, name, mode)
        if changed is None:
            raise not_known("tenant")
        return json_response(_shown(changed))

    return routes


def _shown(tenant: Tenant) -> dict[str, str]:
    return {"name": tenant.name, "pipeline": tenant.pipeline.config.name, "mode": tenant.mode}


def _reloaded(service: Service) -> dict[str, str]:
    try:
        digest = service.reload()
    except TurnwiseError as error:
        raise Problem(422, f"nothing has changed: {error}", "configuration") from None
    if service.settings.reloaded is not None:
        service.settings.reloaded()
    return {"status": "reloaded", "config": digest}
