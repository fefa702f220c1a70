"""Scan a log of conversations to findings, and ask them which conversations to read.

Run it with `python examples/scan_a_log.py`. `turnwise scan logs/*.jsonl --out findings` does the same
for logs of any size, in parallel and resumed where it was stopped; see docs/scan.md and docs/findings.md.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from turnwise.datasets import examples
from turnwise.runs import ReadOptions, plan_scan
from turnwise.store import Store


def write_log(path: Path) -> Path:
    """Write the conversations that ship as a helpdesk would log them: no labels, and its own words for roles."""
    words = {"user": "customer", "assistant": "agent"}
    with path.open("w", encoding="utf-8") as file:
        for one in examples():
            messages = [
                {"role": words[message["role"]], "content": message["content"]}
                for message in one.conversation.to_messages()
            ]
            file.write(json.dumps({"uid": one.sequence_id, "chat": messages}) + "\n")
    return path


def main() -> None:
    """Scan the log, then ask the findings; no store is made, and what is asked is scored once."""
    with TemporaryDirectory() as folder:
        log = write_log(Path(folder, "helpdesk.jsonl"))
        result = plan_scan(
            log,
            Path(folder, "findings"),
            read=ReadOptions(columns="messages=chat,id=uid", role_map="customer=user,agent=assistant"),
            observer="local-small",
            detector="cusum",
        ).run()
        counts = result.counts
        print(f"{counts.conversations} conversations with {counts.turns} turns: {counts.scores} scores")
        print(f"cusum fired at {counts.fired} of {counts.scored}")
        with Store(Path(folder, "findings")) as findings:
            # A pattern over the trajectories that were kept: any other question costs no further score.
            drifting = findings.query("gradual_drift")
            print(f"gradual_drift matches {len(drifting)} of {drifting.rate.of}")
            for match in list(drifting)[:3]:
                [turn] = findings.turns(match.sequence_id, range(match.turn, match.turn + 1))
                print(f"  {match.sequence_id}, turn {match.turn}: {turn.prompt[:60]}")


if __name__ == "__main__":
    main()
