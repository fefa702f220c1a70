"""The routes of who runs the service: whether it lives and is ready, metrics, presets, reload."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from turnwise.errors import TurnwiseError
from turnwise.guard.config import preset_names, preset_summary
from turnwise.serve.checks import json_response
from turnwise.serve.problems import Problem
from turnwise.serve.service import Service

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


def operation_routes(service: Service) -> APIRouter:
    """Return the routes."""
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
    async def metrics() -> Response:
        """Return what all workers counted."""
        return Response(await service.apart("metrics", service.metrics.text), headers={"Content-Type": _METRICS})

    @routes.get("/v1/presets", summary="The configurations that ship")
    async def presets() -> Response:
        """Return name and summary of every preset."""
        shipped = [{"name": name, "summary": preset_summary(name)} for name in preset_names()]
        return json_response({"presets": shipped, "serving": service.pipeline.config.name})

    @routes.post("/v1/reload", summary="Read the configuration again")
    async def reload() -> Response:
        """Go on with the configuration as it is now, in all workers; one that does not fit changes nothing."""
        return json_response(await service.apart("reload", _reloaded, service))

    return routes


def _reloaded(service: Service) -> dict[str, str]:
    try:
        digest = service.reload()
    except TurnwiseError as error:
        raise Problem(422, f"nothing has changed: {error}", "configuration") from None
    if service.settings.reloaded is not None:
        service.settings.reloaded()
    return {"status": "reloaded", "config": digest}
