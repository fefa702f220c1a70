"""The image and the composition: who they run as, what they may write, and where passwords come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from turnwise.guard.config import Config

ROOT = Path(__file__).parents[1]
SECRET = ("PASSWORD", "KEY", "SECRET", "TOKEN")


@pytest.fixture(scope="module")
def image() -> list[tuple[str, str]]:
    """Give the instructions of the Dockerfile, comments left out."""
    parsed = DockerfileParser(str(ROOT / "Dockerfile")).structure
    return [(one["instruction"], one["value"]) for one in parsed if one["instruction"] != "COMMENT"]


@pytest.fixture(scope="module")
def final(image: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Give the instructions of the last stage, which is what runs."""
    return image[max(place for place, (name, _) in enumerate(image) if name == "FROM") :]


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """Give the services of the composition."""
    return dict(yaml.safe_load((ROOT / "compose.yaml").read_text())["services"])


def test_images_are_slim_and_have_a_version(image: list[tuple[str, str]], services: dict[str, Any]) -> None:
    bases = [value.split()[0] for name, value in image if name == "FROM"]
    assert all("slim" in base for base in bases)
    for base in (*bases, *(service["image"] for service in services.values())):
        assert base.partition(":")[2] not in ("", "latest"), base


def test_the_image_runs_as_nobody_in_particular(final: list[tuple[str, str]]) -> None:
    users = [place for place, (name, _) in enumerate(final) if name == "USER"]
    user, group = final[users[-1]][1].split(":")
    assert int(user) > 0 and int(group) > 0, "a number, so that a cluster can see that it is not root"
    assert all(name not in ("RUN", "COPY", "ADD") for name, _ in final[users[-1] :])
    assert all(name != "VOLUME" for name, _ in final), "nothing is written beside /tmp"


def test_the_image_tells_whether_it_is_well_and_ends_by_a_signal(final: list[tuple[str, str]]) -> None:
    told = dict(final)
    assert "/healthz" in told["HEALTHCHECK"] and "--timeout" in told["HEALTHCHECK"]
    commands = [told["ENTRYPOINT"], told["CMD"], told["HEALTHCHECK"].partition("CMD ")[2]]
    words = [json.loads(command) for command in commands]
    assert words[0] == ["turnwise"], "a list, since a shell in between would keep signals to itself"
    assert "0.0.0.0" in words[1]


def test_the_build_copies_what_it_may_see_and_keeps_no_cache(image: list[tuple[str, str]]) -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*", "only what is named goes to the build"
    for name, value in image:
        assert name != "ADD", "COPY fetches nothing and unpacks nothing"
        if name == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert (ROOT / source).exists() and f"!{source.removeprefix('./')}" in lines, source
        if name == "RUN" and "pip install" in value:
            assert "--no-cache-dir" in value
        if name in ("ENV", "ARG"):
            assert not any(word in value.upper() for word in SECRET)


def test_services_may_write_where_they_must_and_nowhere_else(services: dict[str, Any]) -> None:
    assert set(services) == {"guard", "redis", "postgres"}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "network_mode", "pid", "cap_add", "devices"} & set(service), name
        assert service["mem_limit"] and service["restart"] == "unless-stopped", name
        assert name == "guard" or service["user"] == "999:999", name
        assert not any("docker.sock" in volume for volume in service.get("volumes", [])), name


def test_only_the_service_is_reached_from_outside_and_only_from_this_machine(services: dict[str, Any]) -> None:
    for name, service in services.items():
        ports = service.get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in ports)
        assert bool(ports) == ("front" in service["networks"]) == (name == "guard")
    whole = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert whole["networks"]["back"] == {"internal": True}
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert used == set(whole["volumes"]), "what must last lies in volumes that are declared"


def test_passwords_come_from_the_environment_and_there_is_no_default(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service["environment"].items():
            if any(word in name for word in SECRET) or "://" in value:
                assert ":?" in value, f"{name} must have to be set"
    for file in ("compose.yaml", "deploy/guard.yaml", "Dockerfile"):
        assert "redis://:$" in (text := (ROOT / file).read_text()) or "redis://:" not in text


def test_the_service_waits_for_stores_that_are_well(services: dict[str, Any]) -> None:
    waits = services["guard"]["depends_on"]
    assert {name: one["condition"] for name, one in waits.items()} == dict.fromkeys(
        ("redis", "postgres"), "service_healthy"
    )
    assert all(services[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL") for name in waits)
    redis = services["redis"]["command"][-1]
    assert "--appendonly yes" in redis and "--maxmemory-policy noeviction" in redis
    assert redis.startswith("exec "), "so that it gets the signal to end"


def test_the_configuration_of_the_service_is_the_preset_with_state_and_audit(services: dict[str, Any]) -> None:
    config, preset = Config.read(ROOT / "deploy" / "guard.yaml"), Config.preset("customer_service")
    assert [entry.kind for entry in config.entries] == [entry.kind for entry in preset.entries]
    assert config.state is not None and config.state.when_down == "closed"
    variable = str(config.state.redis).removeprefix("env:")
    assert variable in services["guard"]["environment"]
    assert config.audit is not None and "@postgres/" in config.audit.path
    assert services["guard"]["configs"][0]["target"] in services["guard"]["command"]


@pytest.mark.parametrize("name", ["redis.md", "deploy.md"])
def test_what_the_pages_say_of_yaml_can_be_read(name: str) -> None:
    blocks = (ROOT / "docs" / name).read_text().split("```yaml\n")[1:]
    assert blocks
    for block in blocks:
        config = {"guardrails": ["pii"], **yaml.safe_load(block.partition("```")[0])}
        assert Config.read(config).state is not None
