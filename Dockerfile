# syntax=docker/dockerfile:1
# The guard as a service. docs/deploy.md says how it is run.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN python -m venv /opt/turnwise \
 && /opt/turnwise/bin/python -m pip install --no-cache-dir --no-compile ".[serve,redis,postgresql]"

FROM python:3.13-slim
LABEL org.opencontainers.image.title="turnwise" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 turnwise \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin turnwise
COPY --from=build /opt/turnwise /opt/turnwise
# Nothing is written beside /tmp, so the root file system may be read-only.
ENV PATH=/opt/turnwise/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["turnwise"]
CMD ["serve", "--preset", "customer_service", "--host", "0.0.0.0", "--port", "8000", "--workers", "2"]
