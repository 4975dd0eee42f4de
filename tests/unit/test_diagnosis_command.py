"""``agentic-gym diagnose``, what it reads, what it prints, and that what it names exists."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentic_gym.config import StrictConfig
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.errors import ConfigError, StoreError
from agentic_gym.rewards.outcome import RewardConfig
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.diagnosis.commands import DIAGNOSE
from agentic_gym.trainers.diagnosis.facts import RunFacts, gather
from agentic_gym.trainers.diagnosis.rules import RULES, diagnose
from agentic_gym.trainers.diagnosis.settings import Settings, read_settings
from agentic_gym.trainers.diagnosis.synthetic import SyntheticRun
from agentic_gym.trainers.run_config import TrainConfig
from agentic_gym.trainers.schedules.registry import schedule_names, schedule_options
from agentic_gym.trainers.selection.registry import selection_options, selector_names

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def low(update: int, healthy: float) -> float:
        return 0.1 if update >= 4 else healthy

    run = SyntheticRun(
        metrics={"ess": low},
        groups=8,
        group_size=1,
        rise=None,
        config={"schedule": "bounded_async", "schedule_options": {"max_staleness": 3}},
    )
    return run.write(tmp_path_factory.mktemp("sick"))


# ---- the command -----------------------------------------------------------------------------------


def test_text_says_what_since_when_and_what_to_change(
    sick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert DIAGNOSE.run([str(sick)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("sick0: 8 updates, 1 finding\n")
    assert "CRITICAL  low_ess, since update 4: 0.1 (threshold 0.3)\n  The importance" in text
    assert "  - schedule_options.max_staleness (now 3): lower\n" in text
    assert "schedule_options.window" not in text


def test_json_has_the_same(sick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert DIAGNOSE.run(["--json", str(sick / "run.sqlite")]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["updates"], len(found["findings"])) == (8, 1)
    finding = found["findings"][0]
    assert (finding["name"], finding["severity"]) == ("low_ess", "critical")
    assert (finding["since_update"], finding["until_update"]) == (4, None)
    assert (finding["figure"], finding["threshold"]) == (0.1, 0.3)
    assert {"key": "schedule_options.max_staleness", "now": 3, "advice": "lower"} in finding[
        "settings"
    ]


def test_nothing_is_written(sick: Path) -> None:
    before = {p.name: p.read_bytes() for p in sick.iterdir() if not p.name.endswith("-shm")}
    diagnose(gather(sick))
    assert {p.name: p.read_bytes() for p in sick.iterdir() if not p.name.endswith("-shm")} == before


def test_a_short_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = SyntheticRun(updates=2, groups=8, group_size=1, rise=None).write(tmp_path)
    assert DIAGNOSE.run([str(run)]) == 0
    assert "2 updates, nothing found\nMost rules need 3 updates" in capsys.readouterr().out


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert DIAGNOSE.run(["--help"]) == 0
    assert "usage: agentic-gym diagnose DIR [--json]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "one run folder, not 0"),
        (["a", "b"], "one run folder, not 2"),
        (["a", "--yaml"], "no '--yaml'"),
    ],
)
def test_wrong_words_are_refused(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        DIAGNOSE.run(argv)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        DIAGNOSE.run([str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_torch_is_not_loaded(sick: Path) -> None:
    code = (
        "import sys; from agentic_gym.trainers.diagnosis.commands import DIAGNOSE; "
        f"DIAGNOSE.run([{str(sick)!r}]); print({{'torch', 'transformers'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


# ---- the configuration -----------------------------------------------------------------------------


def test_settings_are_read_as_they_are_written(tmp_path: Path) -> None:
    assert read_settings(tmp_path).get("ppo.gamma") is None
    path = tmp_path / "config.yaml"
    path.write_text("ppo: {gamma: 1e-4, report_to: none}\nschedule: 3\n")
    settings = read_settings(tmp_path)
    assert settings.number("ppo.gamma") == 1e-4
    assert settings.number("ppo.report_to") is None
    assert settings.number("ppo.report_to.kind", 2.0) == 2.0
    assert settings.schedule is None
    for text in ("[1, 2]", "a: [", "\x00"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=re.escape(str(path))):
            read_settings(tmp_path)


def test_the_time_that_the_trainer_waited_is_worked_out_where_it_was_not_measured(
    tmp_path: Path,
) -> None:
    from agentic_gym.store import RunStore

    with RunStore(tmp_path) as store:
        store.log_metrics(1, {"time_batch_s": 30.0, "time_score_s": 6.0, "time_optimise_s": 4.0})
        store.log_metrics(2, {"time_batch_s": 0.0, "time_score_s": 0.0})
    assert gather(tmp_path).points("update.wait_share") == [(1, 0.75)]


# ---- batches that stopped a run --------------------------------------------------------------------


def archive(path: Path, **wrong: Any) -> None:
    arrays: dict[str, Any] = {
        "trajectory_ids": np.asarray(["a", "b", "c"]),
        "counts": np.asarray([2, 3, 1]),
        "rewards": np.zeros(3),
        "reference": np.zeros(0),
        **{n: np.zeros(6) for n in ("behaviour", "proximal", "values", "advantages", "returns")},
    }
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **{**arrays, **wrong})


def stopped(folder: Path, **wrong: Any) -> str:
    archive(folder / "checkpoints" / "nonfinite-update-9.npz", **wrong)
    (finding,) = diagnose(gather(folder))
    assert (finding.name, finding.severity) == ("gradient_not_finite", "critical")
    assert (finding.since, finding.until) == (9, None)
    return finding.sentence


def test_the_saved_batch_says_which_quantity(tmp_path: Path) -> None:
    run = SyntheticRun(updates=2, groups=8, group_size=1, rise=None).write(tmp_path)
    proximal = np.asarray([0, 0, 0, np.nan, np.inf, 0])
    said = stopped(run, proximal=proximal, advantages=np.full(6, np.nan))
    assert "(proximal) is not finite (2 of them, first in trajectory b)" in said
    assert "nonfinite-update-9.npz" in said
    said = stopped(run, rewards=np.asarray([0, 0, np.inf]))
    assert "a reward is not finite (1 of them, first in trajectory c)" in said
    assert "update 9 stopped the run: a loss or a gradient is not finite." in stopped(run)
    told = stopped(run, problem=np.asarray("the gradient of the policy is not finite"))
    assert "stopped the run: the gradient of the policy is not finite. The batch" in told
    (run / "checkpoints" / "nonfinite-update-9.npz").write_bytes(b"PK\x03\x04 torn")
    (finding,) = diagnose(gather(run))
    assert "damaged" in finding.sentence


def test_what_a_resumed_run_has_passed_is_a_note(tmp_path: Path) -> None:
    run = SyntheticRun(groups=8, group_size=1, rise=None).write(tmp_path)
    archive(run / "nonfinite-update-8.npz", values=np.full(6, np.nan))
    (finding,) = diagnose(gather(run))
    assert (finding.severity, finding.since, finding.until) == ("note", 8, 8)
    assert "has passed" in finding.sentence


def test_growth_before_the_stop_is_told(tmp_path: Path) -> None:
    faults = {
        "grad_norm_layer/layer.2": lambda u, _: 0.1 * 4 ** max(0, u - 5),
        "grad_norm_layer/head": lambda u, _: 0.1,
    }
    run = SyntheticRun(groups=8, group_size=1, rise=None, metrics=faults).write(tmp_path)
    archive(run / "nonfinite-update-9.npz")
    (finding,) = diagnose(gather(run))
    assert "Before, the gradient of layer.2 had grown 64-fold" in finding.sentence


# ---- what the rules name ---------------------------------------------------------------------------


def exists(key: str) -> bool:
    """Whether something reads this key."""
    first, _, rest = key.partition(".")
    if key.startswith("ppo.extra."):
        return key.removeprefix("ppo.extra.") in {f.name for f in fields(AgenticPPOConfig)}
    if first == "schedule_options":
        return any(rest in schedule_options(name) for name in schedule_names())
    if first == "selection_options":
        return any(rest in selection_options(name) for name in selector_names())
    if key.startswith("env.options.reward."):
        return key.removeprefix("env.options.reward.") in {f.name for f in fields(RewardConfig)}
    if key.startswith("env.options."):
        return key.removeprefix("env.options.") in inspect.signature(SWEEnv).parameters
    cls: Any = TrainConfig
    for part in key.split("."):
        if part == "*":  # a mapping of sections
            cls = cls.__args__[1]
            continue
        if not (inspect.isclass(cls) and issubclass(cls, StrictConfig)):
            return False
        if part not in cls.model_fields:
            return False
        cls = cls.model_fields[part].annotation
    return True


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_every_key_that_a_rule_names_exists(rule: Any) -> None:
    assert rule.settings
    assert [s.key for s in rule.settings if not exists(s.key)] == []
    assert len({s.key for s in rule.settings}) == len(rule.settings)


@pytest.mark.parametrize(
    "key",
    [
        "ppo.lr", "ppo.extra.lr", "ppo.gamma.x", "schedule_options.bound", "evaluations.*.tasks", "trainer",
        "env.options.timeout", "env.options.reward.solved", "rollout.temperature.x",
    ],
)  # fmt: skip
def test_a_key_that_does_not_exist_would_be_seen(key: str) -> None:
    assert not exists(key)


def test_the_guide_lists_every_finding() -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    keys = {rule.name: ", ".join(f"`{s.key}`" for s in rule.settings) for rule in RULES}
    assert rows == [(rule.name, rule.about, keys[rule.name]) for rule in RULES]


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert diagnose(RunFacts("empty", {}, settings=Settings())) == ()
