"""What the pages on studies show is what the program says."""

from __future__ import annotations

import csv
import json
import re
import shlex
from importlib import resources
from pathlib import Path

import pytest

import turnwise.datasets
from turnwise.cli import main
from turnwise.rates import Rate

DOCS = Path(__file__).parents[2] / "docs"
STUDY = (DOCS / "study.md").read_text(encoding="utf-8")
EXAMPLES = str(Path(turnwise.datasets.__file__).parent / "examples.jsonl")
PREVALENCE = (DOCS / "prevalence.md").read_text(encoding="utf-8")
SHIPPED = json.loads((resources.files("turnwise.study.prevalence") / "detector_rates.json").read_text())
[LOCAL] = (one["detectors"] for one in SHIPPED["observers"].values() if one["observer"] == "local")


@pytest.mark.integration
def test_the_page_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    script = re.search(r"```sh\n(.*?)```", STUDY, flags=re.DOTALL)[1]
    first, *commands = script.replace("\\\n", " ").splitlines()
    assert first.startswith("EXAMPLES=")
    written = []
    for command in commands:
        name, *arguments = shlex.split(command.replace("$EXAMPLES", EXAMPLES), comments=True)
        assert name == "turnwise"
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert not leaving.value.code, (command, capsys.readouterr().err)
        if "--out" in arguments:
            written.append(arguments[arguments.index("--out") + 1])
    assert sorted(written) == ["to-deploy.yaml", "tuned.yaml"]  # no command overwrites the file of another
    assert (tmp_path / "out" / "report.html").exists()
    python = re.search(r"```python\n(.*?)```", STUDY, flags=re.DOTALL)[1]
    exec(compile(python.partition("write_report(study")[0], "docs/study.md", "exec"), {})
    assert "slope" in capsys.readouterr().out


def test_the_table_is_what_ships() -> None:
    with (DOCS / "measured" / "shipped-rates.csv").open(encoding="utf-8", newline="") as file:
        beside = list(csv.reader(file))[1:]
    assert len(beside) == len(LOCAL)
    for name, row in LOCAL.items():
        shares = [100 * count / of for count, of in row["by_service"].values()]
        spread = f"{min(shares):.1f} % to {max(shares):.1f} %"
        assert [name, str(row["false_positives"][0]), spread, str(row["recall"][0])] in beside


def test_the_example_is_of_the_shipped_rates() -> None:
    assert (
        f"recall taken for it            {Rate(*LOCAL['any_turn']['recall'])} ({SHIPPED['recall_on']})"
        in PREVALENCE
    )
    wrong = Rate(*LOCAL["any_turn"]["false_positives"])
    assert f"false positives taken for it   {wrong} ({SHIPPED['false_positives_on']})" in PREVALENCE
