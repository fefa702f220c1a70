"""Workflows name files, commands and extras that are there and ask for few rights; versions agree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import turnwise

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def script(name: str) -> ModuleType:
    """Return a script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def workflow(name: str) -> dict[str, Any]:
    """Return a workflow; YAML takes its key `on` for a truth value."""
    parsed = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in parsed.items()}


def steps(name: str) -> list[dict[str, Any]]:
    """Return the steps of all jobs."""
    return [step for job in workflow(name)["jobs"].values() for step in job.get("steps", [])]


RELEASE = script("release")


@pytest.mark.parametrize("name", ["ci", "release"])
def test_files_and_extras_that_a_workflow_names_are_there(name: str) -> None:
    commands = "\n".join(step.get("run", "") for step in steps(name))
    for path in re.findall(r"(?:bash|python) (\S*[./]\S+)", commands):
        assert (ROOT / path).is_file(), path
    for extra in re.findall(r"install '\.\[(\w+)\]'", commands):
        assert extra in PROJECT["project"]["optional-dependencies"], extra
    called = [job["uses"] for job in workflow(name)["jobs"].values() if "uses" in job]
    assert all((ROOT / path).is_file() for path in called)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_a_workflow_has_no_rights_but_those_that_a_job_asks_for_and_no_secret(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    assert "secrets." not in text and "password" not in text
    for step in steps(name):
        uses = step.get("uses", "")
        assert not uses or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", uses), uses
        assert "checkout" not in uses or step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", "").replace("${{ matrix.python }}", ""), (
            "a shell gets what others wrote"
        )


def test_jobs_have_a_limit_in_time_and_wait_for_jobs_that_are_there() -> None:
    for path in WORKFLOWS:
        jobs = workflow(path.stem)["jobs"]
        for name, job in jobs.items():
            needs = job.get("needs", [])
            assert {needs} if isinstance(needs, str) else set(needs) <= set(jobs), name
            assert "uses" in job or job["timeout-minutes"] <= 120, name


def test_every_python_that_the_package_names_is_tested() -> None:
    jobs = workflow("ci")["jobs"]
    tested = {jobs["whole"]["container"].partition(":")[2].partition("-")[0]} | set(
        jobs["tests"]["strategy"]["matrix"]["python"]
    )
    named = {one.rpartition(" ")[2] for one in PROJECT["project"]["classifiers"] if "Python :: 3." in one}
    assert tested == named and f">={min(named)}" == PROJECT["project"]["requires-python"]


def test_the_command_of_the_readme_is_the_one_that_is_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [step["run"] for step in workflow("ci")["jobs"]["tests"]["steps"] if "run" in step]
    assert len(commands) == 1 and f"\n{commands[0]}\n" in readme


def test_what_is_published_was_built_once_checked_and_signed() -> None:
    jobs = workflow("release")["jobs"]
    assert workflow("release")["on"] == {"push": {"tags": ["v*"]}}
    assert [name for name, job in jobs.items() if "-m build" in str(job)] == ["build"]
    assert "release.py tag" in str(jobs["build"]["steps"])
    assert jobs["sign"]["needs"] == ["build", "checks"] and jobs["publish"]["needs"] == "sign"
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and jobs["publish"]["environment"]
    assert jobs["release"]["needs"] == "publish"
    signed = [step["with"] for step in jobs["sign"]["steps"] if "attest" in step.get("uses", "")]
    assert {one.get("sbom-path") for one in signed} == {None, "dist/turnwise.cdx.json"}


def test_this_version_agrees_with_citation_and_changelog() -> None:
    run = [sys.executable, ROOT / ".ci" / "release.py", "tag", f"v{turnwise.__version__}"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        ("src/turnwise/_version.py", "1.2.0", "1.3.0", "tag v1.3.0"),
        ("CITATION.cff", "1.2.0", "1.1.0", "CITATION.cff names version 1.1.0"),
        ("CITATION.cff", "2026-01-02", "2026-01-03", "CITATION.cff says 2026-01-03"),
        ("CHANGELOG.md", "[1.2.0]", "[1.1.0]", "no topmost section '## [1.2.0]"),
    ],
)
def test_a_tag_that_disagrees_is_refused(path: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "src" / "turnwise").mkdir(parents=True)
    (tmp_path / "src/turnwise/_version.py").write_text('"""The version."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\ndate-released: 2026-01-02\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n\n## [1.1.0] - 2025-01-02\n"
    )
    assert list(RELEASE.disagreements("v1.2.0", tmp_path)) == []
    text = (tmp_path / path).read_text()
    (tmp_path / path).write_text(text.replace(f"version: {old}", f"version: {new}").replace(old, new))
    told = list(RELEASE.disagreements("v1.2.0", tmp_path))
    assert told and said in told[0]


def test_a_bill_of_materials_that_lacks_a_dependency_is_told() -> None:
    project = {"project": {"dependencies": ["pyyaml>=6.0", "google_re2>=1.1", "openai[x]>=2.0"]}}
    names = [{"name": "PyYAML"}, {"name": "google-re2"}]
    assert RELEASE.not_named({"components": names}, project) == {"openai"}
    assert RELEASE.not_named({"components": [*names, {"name": "OpenAI"}]}, project) == set()


def metadata(**changed: str) -> str:
    """Return metadata as a wheel of this repository has them, with fields changed."""
    project = PROJECT["project"]
    fields = {
        "Name": project["name"],
        "Version": "1.2.0",
        "Summary": project["description"],
        "License-Expression": project["license"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
        **changed,
    }
    lines = [f"{name}: {value}" for name, value in fields.items()]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    lines += [f"Provides-Extra: {one}" for one in project["optional-dependencies"]]
    return "\n".join([*lines, "", "# turnwise, at https://anywhere.example"])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("Name", "turnwize", "Name is 'turnwize'"),
        ("Version", "1.1.0", "Version is '1.1.0'"),
        ("Requires-Python", ">=3.8", "Requires-Python is '>=3.8'"),
        ("Requires-Dist", "odd @ https://elsewhere.example/odd.whl", "fetched from a place of its own"),
        (
            "Project-URL",
            "Home, https://elsewhere.example",
            "https://elsewhere.example is not among [project.urls]",
        ),
        ("Provides-Extra", "odd", "the extras are not those"),
        ("Classifier", "Odd", "the classifiers are not those"),
    ],
)
def test_metadata_that_differ_from_the_project_are_told(field: str, value: str, said: str) -> None:
    faults = script("dist_contents").metadata_faults
    assert faults(metadata(), "1.2.0") == []
    told = faults(metadata(**{field: value}), "1.2.0")
    assert told and said in told[0]
