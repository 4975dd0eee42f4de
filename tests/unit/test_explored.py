"""Which episodes of other runs are imitated, and what becomes of them when they are played again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import agentic_gym
from agentic_gym.chat import ChatCodec
from agentic_gym.config import dump_config
from agentic_gym.env import ToolEnv
from agentic_gym.errors import ConfigError, IdleCallError, InfraError, SandboxDead
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.tools import format_action, tool
from agentic_gym.trainers.assembly import Assembly
from agentic_gym.trainers.demonstrations import encode
from agentic_gym.trainers.explored import LEFT_OUT, Choice, Explored, check_runs, choose, explore
from agentic_gym.trainers.gathering import Gathering
from agentic_gym.trainers.pipeline import CONFIG_FILE, Pipeline
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.replays import replay_many
from agentic_gym.trainers.run_config import DemonstrationSection, EnvSection, TrainConfig
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import Outcome, Slip, Trajectory, Turn

SOLVED, FAILED = Outcome.SOLVED, Outcome.FAILED
QUIET = Console(quiet=True)


def trajectory(
    task: str, *actions: str, outcome: Outcome = SOLVED, name: str = "", seed: int = 0
) -> Trajectory:
    return Trajectory(
        trajectory_id=name or f"{task}/{'+'.join(actions)}",
        task_id=task,
        group_id=task,
        seed=seed,
        prompt="",
        turns=tuple(Turn(action, "", 0.0) for action in actions),
        tokens=None,
        outcome=outcome,
        terminated=True,
        truncated=False,
    )


def counts(choice: Choice) -> dict[str, int]:
    return {reason: count for reason, count in choice.left_out.items() if count}


def names(choice: Choice) -> list[str]:
    return [one.trajectory_id for one in choice.chosen]


def test_tasks_that_are_held_out_never_leak_whatever_was_played() -> None:
    """Solved, in band and short: nothing but the task's id speaks against them."""
    played = [trajectory(task, "a") for task in ("train", "heldout", "dev", "train2", "")]
    choice = choose(played, ["train", "train2"], per_task=9)
    assert [one.task_id for one in choice.chosen] == ["train", "train2"]
    assert counts(choice) == {"other_task": 3}
    assert choose(played, [], per_task=9).chosen == ()


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not SOLVED])
def test_what_is_not_solved_is_never_chosen(outcome: Outcome) -> None:
    played = [trajectory("t", "a", outcome=outcome), trajectory("t", "b")]
    choice = choose(played, ["t"], per_task=9)
    assert names(choice) == ["t/b"]
    broken = outcome is Outcome.INFRA_ERROR
    assert counts(choice) == {"infra_error" if broken else "unsolved": 1}


def test_the_band_is_of_all_tries_but_broken_ones_ends_included() -> None:
    def tries(task: str, solved: int, failed: int, broken: int = 0) -> list[Trajectory]:
        ends = [SOLVED] * solved + [FAILED] * failed + [Outcome.INFRA_ERROR] * broken
        return [trajectory(task, f"{n}", outcome=end, name=f"{n}") for n, end in enumerate(ends)]

    hack = trajectory("hacked", "x", outcome=Outcome.SUSPECTED_HACK)
    played = [
        *tries("fifth", 1, 4), *tries("less", 1, 5), *tries("always", 3, 0),
        *tries("broken", 4, 1, broken=25), *tries("hacked", 1, 0), hack,
    ]  # fmt: skip
    tasks = ["fifth", "less", "always", "broken", "hacked"]
    choice = choose(played, tasks, band=(0.2, 0.8), per_task=1)
    assert [one.task_id for one in choice.chosen] == ["fifth", "broken", "hacked"]
    assert counts(choice) == {
        "infra_error": 25, "unsolved": 4 + 5 + 1 + 1, "out_of_band": 1 + 3, "over_per_task": 3,
    }  # fmt: skip
    always = choose(played, tasks, band=(1.0, 1.0), per_task=1)
    assert [one.task_id for one in always.chosen] == ["always"]


def test_the_shortest_that_differ_are_kept_and_ties_go_by_id() -> None:
    edit = " ".join(f"word{n}" for n in range(60))
    played = [
        trajectory("t", edit, name="whole"),
        trajectory("t", edit, edit, name="twice the same is like once"),
        trajectory("t", edit + " more", name="one word more"),
        trajectory("t", "bb", name="z"),
        trajectory("t", "aa", name="y"),
        trajectory("t", "aa", name="y again"),
        trajectory("t", "a", "b", name="a tie"),
        trajectory("t", "cccc", name="longer"),
    ]
    assert names(choose(played, ["t"], per_task=9)) == ["a tie", "y", "z", "longer", "whole"]
    choice = choose(played, ["t"], per_task=2)
    assert names(choice) == ["a tie", "y"]
    assert counts(choice) == {"repeated": 1, "over_per_task": 5}


def test_equal_actions_on_two_tasks_are_no_repetition() -> None:
    choice = choose([trajectory("t", "a"), trajectory("u", "a")], ["t", "u"], per_task=1)
    assert len(choice.chosen) == 2


def test_most_tasks_are_the_first_of_the_order_of_which_there_is_something() -> None:
    played = [trajectory(task, "a") for task in "abc"] + [trajectory("d", "a", outcome=FAILED)]
    choice = choose(played, ["d", "c", "a", "b"], per_task=1, max_tasks=2)
    assert [one.task_id for one in choice.chosen] == ["c", "a"]
    assert counts(choice) == {"unsolved": 1, "over_max_tasks": 1}


def test_text_that_no_tokenizer_takes_is_left_out_and_still_a_solved_try() -> None:
    played = [trajectory("t", "\ud800"), trajectory("t", "a")]
    choice = choose(played, ["t"], band=(1.0, 1.0), per_task=9)
    assert names(choice) == ["t/a"]
    assert counts(choice) == {"unwritable": 1}


def test_every_reason_is_said_in_words() -> None:
    choice = Choice(9, (), dict.fromkeys(LEFT_OUT, 1))
    assert choice.told().startswith("9 tries, 0 chosen; left out: 1 of tasks that do not train")
    assert choice.told().count("1 ") == len(LEFT_OUT)
    assert Choice(2, (), dict.fromkeys(LEFT_OUT, 0)).told() == "2 tries, 0 chosen"


# ---- folders of runs ---------------------------------------------------------------------------


def keep(
    folder: Path, *, finished: Sequence[Trajectory] = (), evaluated: Sequence[Trajectory] = ()
) -> str:
    """A store as training and profiles leave it (finished), or evaluations (evaluated)."""
    with RunStore(folder) as store:
        store.launch([LaunchRecord(t.trajectory_id, t.task_id, "g", t.seed, 0) for t in finished])
        for one in finished:
            store.finish(dataclasses.replace(one, group_id="g"))
        if evaluated:
            store.record_eval("eval", evaluated)
    return str(folder)


def test_episodes_of_training_profiles_and_evaluations_are_found(tmp_path: Path) -> None:
    runs = [
        keep(tmp_path / "profile", finished=[trajectory("t", "a"), trajectory("u", "b")]),
        keep(tmp_path / "eval", evaluated=[trajectory("t", "c"), trajectory("v", "c")]),
        keep(
            tmp_path / "train",
            finished=[trajectory("u", "d", outcome=FAILED)],
            evaluated=[trajectory("heldout", "e")],
        ),
    ]
    with RunStore(runs[0]) as store:
        store.drop("t/a", "over_length")
        store.launch([LaunchRecord("in flight", "t", "g", 0, 0)])
    tasks = ["t", "u", "v"]
    there = explore(DemonstrationSection(runs=runs, per_task=9), tasks)
    back = explore(DemonstrationSection(runs=runs[::-1], per_task=9), tasks)
    assert there == back
    assert [one.actions for one in there.chosen] == [("a",), ("c",), ("b",), ("c",)]
    assert there.tries == 6
    assert counts(there) == {"unsolved": 1, "other_task": 1}
    half = explore(DemonstrationSection(runs=runs, per_task=9, band=(0.0, 0.5)), tasks)
    assert [one.task_id for one in half.chosen] == ["u"], "tries of all runs count together"


def test_folders_that_hold_no_episodes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.sqlite").write_text("nothing of ours, and long enough to be looked at")
    unfinished = tmp_path / "unfinished"
    with RunStore(unfinished) as store:
        store.launch([LaunchRecord("in flight", "t", "g", 0, 0)])
    good = keep(tmp_path / "good", finished=[trajectory("t", "a")])
    for run, words in {
        tmp_path / "nowhere": "there is no folder '.*nowhere': give the output_dir of",
        tmp_path / "file": "there is no folder '.*file'",
        tmp_path / "empty": "'.*empty' has no store .*there is no store",
        tmp_path / "odd": "'.*odd' has no store .*not a store",
        unfinished: "no episode is finished in '.*unfinished'",
        tmp_path / "empty" / ".." / "good": "are the same folder, whose tries would count twice",
    }.items():
        with pytest.raises(ConfigError, match=words):
            check_runs([good, str(run)])
    check_runs([good])


def test_a_run_of_other_tasks_and_a_choice_of_nothing_are_refused(tmp_path: Path) -> None:
    here = keep(tmp_path / "here", finished=[trajectory("t", "a"), trajectory("u", "b")])
    other = keep(tmp_path / "other", finished=[trajectory("x", "a")])
    with pytest.raises(ConfigError, match=r"none of the 1 episodes in '.*other' is .*\(2 tasks, t"):
        explore(DemonstrationSection(runs=[here, other]), ["t", "u"])
    section = DemonstrationSection(runs=[here], band=(0.2, 0.8))
    with pytest.raises(ConfigError, match=r"imitate: 2 tries, 0 chosen; left out: 2 of .*0\.2 to"):
        explore(section, ["t", "u"])


@pytest.mark.parametrize("band", [(0.8, 0.2), (-0.1, 1.0), (0.0, 1.1), (float("nan"), 1.0)])
def test_what_is_no_band_is_refused_with_its_value(band: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=rf"band=\({band[0]}, {band[1]}\) is no band"):
        DemonstrationSection(runs=["a"], band=band)


def test_a_band_without_runs_is_refused() -> None:
    assert DemonstrationSection(runs=["a"], band=(0.5, 0.5)).band == (0.5, 0.5)
    with pytest.raises(ConfigError, match="is not read without runs"):
        DemonstrationSection(band=(0.2, 0.8))


def test_missing_runs_are_refused_before_a_folder_is_taken_or_a_model_loaded(
    tmp_path: Path,
) -> None:
    section = DemonstrationSection(runs=[str(tmp_path / "nowhere")])
    env = EnvSection(id=DOORS)
    config = TrainConfig(output_dir=tmp_path / "run", env=env, demonstrations=section)
    for attempt in (Pipeline, preflight):
        with pytest.raises(ConfigError, match="there is no folder"):
            attempt(config, console=QUIET)
    assert not config.output_dir.exists()


def test_a_run_goes_on_only_with_the_runs_and_band_that_it_began_with(tmp_path: Path) -> None:
    began = DemonstrationSection(runs=["gone"], band=(0.2, 0.8))
    dump_config(TrainConfig(output_dir=tmp_path, demonstrations=began), tmp_path / CONFIG_FILE)
    now = DemonstrationSection(runs=["gone", "more"], band=(0.1, 0.8))
    with pytest.raises(ConfigError) as refused:
        Pipeline(TrainConfig(output_dir=tmp_path, demonstrations=now), resume=True, console=QUIET)
    assert "demonstrations.runs: ['gone'] before, ['gone', 'more'] now" in str(refused.value)
    assert "demonstrations.band: (0.2, 0.8) before, (0.1, 0.8) now" in str(refused.value)


# ---- playing again -----------------------------------------------------------------------------


class Doors(ToolEnv):
    """Behind door 2 of every task is what is sought; behind door 9 the machinery breaks."""

    broken = 0

    def __init__(self, keys: int = 0) -> None:
        self.tasks = [SimpleNamespace(task_id=name) for name in ("t", "u")]
        self._keys = keys

    def start(self, options: dict[str, Any]) -> str:
        """Nothing is open yet."""
        self.task = options["task_id"]
        self.found = False
        return f"Open a door of {self.task}."

    @tool
    def open(self, door: int) -> str:
        """Opens a door, which ends the episode.

        Args:
            door: its number.
        """
        if door == 9:
            Doors.broken -= 1
            if Doors.broken >= 0:
                raise SandboxDead("the house burned down")
            door = 2
        self.found = door == 2 + self._keys
        self.finish()
        return "open"

    @tool
    def knock(self) -> str:
        """Does nothing."""
        return "knock knock"

    @tool
    def wait(self) -> str:
        """Is right in form, and changes nothing."""
        raise IdleCallError("nothing would change")

    def reward(self) -> float:
        """1 for what is sought."""
        return float(self.found)


DOORS = "tests/doors-v0"
agentic_gym.register(DOORS, Doors)
OPEN = format_action([("open", {"door": 2})])
WRONG = format_action([("open", {"door": 1})])
BREAKS = format_action([("open", {"door": 9})])
KNOCK = format_action([("knock", {})])


def explored(*actions: str, task: str = "t") -> Explored:
    return Explored(sum(map(len, actions)), "id", task, 0, actions)


def test_what_is_solved_again_is_imitated_and_what_is_not_is_counted() -> None:
    moved = explored(KNOCK, KNOCK)
    played = replay_many(Doors, [explored(KNOCK, OPEN), explored(WRONG), moved, explored(OPEN)])
    assert [one.actions for one in played.demonstrations] == [(KNOCK, OPEN), (OPEN,)]
    assert all(one.solved for one in played.demonstrations)
    assert played.left_out == {
        "replay_unsolved": 1, "replay_unfinished": 1, "replay_infra_error": 0,
    }  # fmt: skip
    assert played.told() == (
        "2 of 4 solved again; left out: 1 no longer solved, 1 not at their end after the last action"
    )


def test_openings_tools_and_answers_are_those_of_the_environment_it_is_played_in() -> None:
    (shown,) = replay_many(Doors, [explored(KNOCK, OPEN, OPEN, task="u")]).demonstrations
    assert shown.opening == ({"role": "user", "content": "Open a door of u."},)
    assert {spec["function"]["name"] for spec in shown.tools} == {"open", "knock", "wait"}
    assert [answer[0]["content"] for answer in shown.answers] == ["knock knock"]
    assert shown.actions == (KNOCK, OPEN), "it ended before the third"


def test_messages_that_are_refused_are_read_and_not_imitated() -> None:
    unread, unknown, idle = "no call", format_action([("ring", {})]), format_action([("wait", {})])
    actions = (unread, KNOCK, unknown, idle, OPEN)
    (shown,) = replay_many(Doors, [explored(*actions)]).demonstrations
    assert shown.actions == actions
    slips = [action for action in shown.actions if isinstance(action, Slip)]
    assert slips == [unread, unknown]


@pytest.mark.parametrize("broken", [1, 2])
def test_a_broken_replay_is_tried_once_more_and_is_no_unsolved_one(broken: int) -> None:
    Doors.broken = broken
    played = replay_many(Doors, [explored(BREAKS), explored(OPEN), explored(WRONG)], workers=1)
    assert len(played.demonstrations) == 3 - broken
    assert played.left_out["replay_infra_error"] == broken - 1
    assert played.left_out["replay_unsolved"] == 1
    assert ("the house burned down" in played.told()) == (broken == 2)


def test_if_every_replay_breaks_the_run_stops() -> None:
    Doors.broken = 4
    with pytest.raises(InfraError, match=r"each of the 2 .* twice; the first: the house burned"):
        replay_many(Doors, [explored(BREAKS), explored(BREAKS)])


def gather(tmp_path: Path, *actions: str, **env: Any) -> tuple[Gathering, RunStore]:
    run = keep(tmp_path / "small", finished=[trajectory("t", *actions)])
    config = TrainConfig(
        env=EnvSection(id=DOORS, options=env), demonstrations=DemonstrationSection(runs=[run])
    )
    store = RunStore(tmp_path / "large")
    make_env = lambda: agentic_gym.make(DOORS, **env)  # noqa: E731
    return Gathering(config, store, QUIET, make_env=make_env, tasks=["t", "u"]), store


def test_the_numbers_are_kept_in_the_store(tmp_path: Path) -> None:
    gathering, store = gather(tmp_path, KNOCK, OPEN)
    with store:
        assert len(gathering.demonstrations()) == 1
        assert store.metrics("demonstrations/tries") == [(0, 1.0)]
        assert store.metrics("demonstrations/chosen") == [(0, 1.0)]
        assert store.metrics("demonstrations/replayed") == [(0, 1.0)]
        assert store.metrics("demonstrations/left_out_other_task") == [(0, 0.0)]
        assert store.metrics("demonstrations/left_out_replay_unsolved") == [(0, 0.0)]


def test_an_environment_in_which_nothing_is_solved_again_is_refused(tmp_path: Path) -> None:
    gathering, store = gather(tmp_path, OPEN, keys=1)
    with store, pytest.raises(ConfigError, match=r"solved again .*\(0 of 1 .* env\.options"):
        gathering.demonstrations()


@pytest.fixture(scope="module")
def codec() -> ChatCodec:
    return ChatCodec(train_tokenizer([KNOCK, OPEN], vocab_size=300), show_tools=False)


def test_what_cannot_be_encoded_is_counted_and_refused_if_it_is_all(
    codec: ChatCodec, tmp_path: Path
) -> None:
    gathering, store = gather(tmp_path, KNOCK, OPEN)
    with store:
        (shown,) = gathering.demonstrations()
        ended = dataclasses.replace(shown, actions=("on <|im_end|> and on", OPEN))
        assert len(gathering.encoded(codec, [shown, ended])) == 1
        assert store.metrics("demonstrations/left_out_unencoded") == [(0, 1.0)]
        with pytest.raises(ConfigError, match=r"1 of 1 .*max_tokens_per_episode=1792, or hold"):
            gathering.encoded(codec, [ended])
        assert encode(codec, [shown], max_tokens=9) == []


def test_a_model_from_scratch_needs_something_to_imitate(tmp_path: Path) -> None:
    config = TrainConfig(output_dir=tmp_path, model="scratch", env=EnvSection(id=DOORS))
    with RunStore(tmp_path) as store:
        assembly = Assembly(config, store, QUIET)
        with pytest.raises(ConfigError, match=r"demonstrations\.policy or demonstrations\.runs"):
            assembly.prepare()
