"""The routes for those who run the service: whether it lives and is ready, metrics, presets, reload, tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path
from fastapi.responses import Response

from turnwise.errors import TurnwiseError
from turnwise.guard import Mode
from turnwise.guard.config import preset_names, preset_summary
from turnwise.serve.bodies import ModeRequest
from turnwise.serve.check_routes import json_response
from turnwise.serve.problems import Problem
from turnwise.serve.record_routes import not_known
from turnwise.serve.service import Service
from turnwise.serve.tenants import Caller, Tenant

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


def operation_routes(service: Service) -> APIRouter:
    """The routes of operations."""
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
        return Response(await service.apart("metrics", service.metrics.text), headers={"Content-Type": _METRICS})

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
        return json_response({"tenants": [_told(one) for one in service.tenants.by_name.values()]})

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
        return json_response(_told(changed))

    return routes


def _told(tenant: Tenant) -> dict[str, str]:
    return {"name": tenant.name, "pipeline": tenant.pipeline.config.name, "mode": tenant.mode}


def _reloaded(service: Service) -> dict[str, str]:
    try:
        digest = service.reload()
    except TurnwiseError as error:
        raise Problem(422, f"nothing has changed: {error}", "configuration") from None
    if service.settings.reloaded is not None:
        service.settings.reloaded()
    return {"status": "reloaded", "config": digest}
