"""The report: complete, self-contained, and unmoved by whatever agents write."""

from __future__ import annotations

import math
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.errors import StoreError
from agentic_gym.evaluation import percent, success_difference, summarise
from agentic_gym.report import write_report
from agentic_gym.report.facts import gather, pick_sample
from agentic_gym.report.page import clip, printable
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.types import Outcome, Trajectory, Turn

CLASSES = ("import", "logic", "syntax")
VOID = {"meta", "br"}


def episode(name: str, task: int, sample: int, outcome: Outcome, **changes: Any) -> Trajectory:
    turns = tuple(
        Turn(
            f"<tool_call>view {n}</tool_call>", f"{n}: return x", -0.01, generate_s=0.1, step_s=0.05
        )
        for n in range(1 + (task + sample) % 4)
    )
    values: dict[str, Any] = {
        "trajectory_id": f"{name}/task-{task}/{sample}",
        "task_id": f"task-{task}",
        "group_id": name,
        "seed": sample,
        "prompt": "Fix the bug in clamp.py.",
        "turns": turns,
        "tokens": None,
        "outcome": outcome,
        "terminated": True,
        "truncated": False,
        "tags": {"error_class": CLASSES[task % 3], "repo": f"module-{task % 5}"},
        "metrics": {"duration_s": 0.5 + task % 7},
    }
    return Trajectory(**values | changes)


def play(name: str, skill: float, tasks: int, samples: int = 1) -> list[Trajectory]:
    rng = random.Random(name)
    other = (Outcome.FAILED, Outcome.FAILED, Outcome.TRUNCATED, Outcome.INFRA_ERROR)
    return [
        episode(name, task, sample, Outcome.SOLVED if rng.random() < skill else rng.choice(other))
        for task in range(tasks)
        for sample in range(samples)
    ]


def make_run(folder: Path, *, tasks: int = 12, updates: int = 10) -> RunStore:
    """A run as training leaves it, with made-up numbers."""
    (folder / "config.yaml").write_text("name: sample\nseed: 3\n")
    store = RunStore(folder)
    for split, rise in (("held_out_bugs", 0.2), ("unseen_modules", 0.05)):
        for style, samples in (("sampled", 2), ("greedy", 1)):
            store.record_eval(
                f"before/{split}/{style}", play(f"b{split}{style}", 0.3, tasks, samples)
            )
            name = f"after/{split}/{style}"
            store.record_eval(name, play(f"a{split}{style}", 0.3 + rise, tasks, samples))
        for agent, skill in (("random", 0.25), ("noop", 0.0), ("gold", 1.0)):
            store.record_eval(f"baseline/{split}/{agent}", play(agent, skill, tasks))
    rng = random.Random(0)
    for step in range(1, updates + 1):
        store.log_metrics(
            step,
            {
                "outcome_solved": 0.3 + 0.02 * step + rng.gauss(0, 0.04),
                "entropy": 0.5 * math.exp(-step / 20),
                "approx_kl": abs(rng.gauss(0.01, 0.004)),
                "staleness": 0.2,
                "staleness_max": 1.0,
                "reward": rng.gauss(0.4, 0.1),
                "policy_loss": math.nan if step == 3 else rng.gauss(0, 0.1),
                "time_batch_s": 6.0,
                "time_optimise_s": 3.0,
                "something_else": 1.0,
            },
        )
    store.put_state("phase_s", {"prepare": 12.0, "train": 300.0, "evaluate_after": 40.0})
    store.launch([LaunchRecord(f"t{i}", "task", "group", 0, 0) for i in range(6)])
    for i in range(5):
        store.finish(episode("t", i, i, Outcome.FAILED, trajectory_id=f"t{i}"))
    store.record_batch(1, ["t0", "t1"])
    store.mark_trained(1)
    store.drop("t2", "too <stale>")
    return store


class Outline(HTMLParser):
    """Fails on tags that do not nest; keeps text, tags and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_section_shows_what_is_stored(tmp_path: Path) -> None:
    with make_run(tmp_path) as store:
        path = write_report(tmp_path)
        evals = {name: store.eval_trajectories(name) for name in store.evals()}
        ids = [t.trajectory_id for t in gather(store).sample.trajectories]
    assert path == tmp_path / "report.html"
    outline = Outline(path.read_text(encoding="utf-8"))
    for name, trajectories in evals.items():
        assert f"{percent(summarise(trajectories).success)} %" in outline.text, name
    for key in ("held_out_bugs/sampled", "held_out_bugs/greedy", "unseen_modules/sampled"):
        rise = success_difference(evals[f"before/{key}"], evals[f"after/{key}"])
        assert percent(rise, signed=True) in outline.text
    for words in ("Entropy of the policy", "Staleness", "something_else", "evaluate after", "P99"):
        assert words in outline.text
    assert "1 × too <stale>" in outline.text
    assert "seed: 3" in outline.text
    assert len(ids) == 40
    assert all(i in outline.text for i in ids)
    assert [p.name for p in tmp_path.glob("*partial*")] == []


def test_the_page_is_one_file_without_scripts_or_links(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    page = write_report(tmp_path).read_text(encoding="utf-8")
    outline = Outline(page)
    assert not {"script", "link", "img", "iframe", "a"} & set(outline.tags)
    assert not {"src", "href", "onclick", "onload"} & {name for name, _ in outline.attributes}
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "url(" not in page


HOSTILE = "</pre><script>alert(1)</script>{{ 7*7 }}&amp;\x00\x1b[31m\ud800\udc00\ufffe\u202e"


def test_what_agents_write_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    bad = episode(
        "after/x/sampled",
        0,
        0,
        Outcome.FAILED,
        prompt=HOSTILE,
        task_id=HOSTILE,
        turns=(Turn(HOSTILE, HOSTILE, 0.0),),
        tags={"error_class": HOSTILE, HOSTILE: HOSTILE},
        error=HOSTILE,
    )
    broken = episode("after/x/sampled", 1, 0, Outcome.INFRA_ERROR, error=HOSTILE)
    (tmp_path / "config.yaml").write_bytes(b"name: '\xff<b>'\n")
    with RunStore(tmp_path) as store:
        store.record_eval("after/x/sampled", [bad, broken])
        store.log_metrics(1, {"</title>": 1.0})
    page = write_report(tmp_path).read_bytes().decode("utf-8")
    outline = Outline(page)
    assert "script" not in outline.tags
    assert "b" not in outline.tags
    assert outline.text.count("{{ 7*7 }}&amp;␀␛[31m\ufffd\ufffd\ufffd\u202e") >= 6
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", page)


def test_an_empty_run_has_a_report(tmp_path: Path) -> None:
    RunStore(tmp_path).close()
    outline = Outline(write_report(tmp_path).read_text(encoding="utf-8"))
    for words in ("No evaluation", "No metric", "No time", "No evaluated episode"):
        assert words in outline.text
    assert "config.yaml" not in outline.text


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        write_report(tmp_path / "nowhere")


def test_evaluations_without_training_are_shown_as_they_are(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.record_eval("gold on dev", play("gold", 1.0, 4))
        facts = gather(store)
    assert [(s.name, [r.label for r in s.rows]) for s in facts.task_sets] == [
        ("evaluations", ["gold on dev"])
    ]
    assert facts.sample.total == 4
    assert "gold on dev" in Outline(write_report(tmp_path).read_text()).text


def test_both_sides_of_a_comparison_stand_together(tmp_path: Path) -> None:
    with make_run(tmp_path) as store:
        facts = gather(store)
    held_out, unseen = facts.task_sets
    assert [row.label for row in held_out.rows] == [
        "before, sampled",
        "after, sampled",
        "before, greedy",
        "after, greedy",
        "random",
        "noop",
        "gold",
    ]
    assert [rise.style for rise in unseen.rises] == ["sampled", "greedy"]
    assert [part.name for part in held_out.classes] == list(CLASSES)
    assert held_out.classes_of == "after, sampled"
    assert facts.update_s == {"batch": 6.0, "optimise": 3.0}
    assert ("training", 5) in [(label, number) for label, number, _ in facts.episode_s]


def test_the_sample_is_bounded_and_mixed() -> None:
    after = [
        episode("a", task, sample, Outcome.SOLVED if task < 20 else Outcome.FAILED)
        for task in range(40)
        for sample in range(3)
    ]
    sample = pick_sample({"before/x": play("b", 0.5, 9), "after/x": after}, 12)
    assert sample.total == 120
    outcomes = [t.outcome for t in sample.trajectories]
    assert outcomes == [Outcome.SOLVED] * 6 + [Outcome.FAILED] * 6
    for part in (sample.trajectories[:6], sample.trajectories[6:]):
        assert {t.tags["error_class"] for t in part} == set(CLASSES)
        assert len({t.task_id for t in part}) == 6
    alone = pick_sample({"after/x": after[:60]}, 12)
    assert [t.outcome for t in alone.trajectories] == [Outcome.SOLVED] * 12


def test_long_texts_keep_head_and_tail() -> None:
    assert clip("x" * 10, 10) == "x" * 10
    clipped = clip("a" * 500 + "b" * 500, 100)
    assert clipped.startswith("a" * 50)
    assert clipped.endswith("b" * 50)
    assert "900 characters left out" in clipped


def test_printable_keeps_ordinary_text() -> None:
    ordinary = "tab\tline\nreturn\r é 🙂"
    assert printable(ordinary) == ordinary
    assert printable("\x7f\x85") == "␡\ufffd"


def test_a_run_is_called_as_its_store_says_or_else_as_its_folder(tmp_path: Path) -> None:
    for name, wanted in ((None, "folder"), ("my run", "my run")):
        with RunStore(tmp_path / "folder") as store:
            if name is not None:
                store.put_state("name", name)
        assert f"<h1>{wanted}</h1>" in write_report(tmp_path / "folder").read_text()
