import gzip
import json
import resource
from pathlib import Path

import pytest

from agentic_gym.envs.swe import task_commands
from agentic_gym.envs.swe.baselines import BASELINES
from agentic_gym.envs.swe.eval_command import EVAL, EvalConfig
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import SWETask, write_tasks
from agentic_gym.envs.swe.task_commands import TASKS
from agentic_gym.errors import ConfigError, TaskError, UserError


def test_list_as_json_is_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    assert TASKS.run(["list", "pocket", "--format", "json", "--split", "dev"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == [t.task_id for t in load_tasks("pocket", "dev")]
    assert {"id", "repo", "split", "error_class", "operator"} <= set(rows[0])


def test_list_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert TASKS.run(["list", "--split", "dev"]) == 0
    out = capsys.readouterr().out
    for task in load_tasks("pocket", "dev"):
        assert [task.task_id, task.split, task.error_class] in [
            line.split()[:3] for line in out.splitlines()
        ]


def test_the_default_number_of_workers_fits_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(500))
    assert 1 <= task_commands._cpus() <= 64


def test_show_prints_bug_and_repair(capsys: pytest.CaptureFixture[str]) -> None:
    task = load_tasks("pocket", "dev")[0]
    assert TASKS.run(["show", task.task_id]) == 0
    out = capsys.readouterr().out
    assert task.problem_statement in out
    assert task.gold_patch.strip() in out
    assert TASKS.run(["show", task.task_id, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == task.model_dump(mode="json")


def test_usage_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert TASKS.run([]) == 0
    assert "make pocket" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["lst"], TaskError, "no action 'lst'. Did you mean 'list'"),
        (["list", "pockt"], TaskError, "Did you mean 'pocket'"),
        (["list", "--split", "trian"], TaskError, "Did you mean 'train'"),
        (["list", "--splt", "train"], ConfigError, "Did you mean '--split'"),
        (["list", "nowhere.jsonl"], TaskError, "no task file"),
        (["make", "pockt"], TaskError, "Did you mean 'pocket'"),
        (["make", "--modules", "romn"], TaskError, "no module 'romn'. Did you mean 'roman'"),
        (["make", "--workers", "0"], ConfigError, "workers"),
        (["validate", "--repeats", "0"], ConfigError, "repeats"),
    ],
)
def test_wrong_words_are_refused_with_a_hint(
    argv: list[str], error: type[UserError], message: str
) -> None:
    with pytest.raises(error, match=message):
        TASKS.run(argv)


def test_eval_refuses_a_key_that_nothing_reads() -> None:
    with pytest.raises(ConfigError, match="sandboxes is read only when compact is True"):
        EVAL.run(["--agent", "gold", "--no-compact", "--sandboxes", "3"])


@pytest.mark.parametrize(
    ("flag", "value"),
    [("temperature", "0.5"), ("max-tokens-per-turn", "9"), ("max-tokens-per-episode", "9")],
)
@pytest.mark.parametrize("agent", BASELINES)
def test_eval_refuses_sampling_settings_for_agents_that_do_not_sample(
    agent: str, flag: str, value: str
) -> None:
    name = flag.replace("-", "_")
    with pytest.raises(ConfigError, match=rf"{name}={value} is read only when .* is '{agent}'"):
        EVAL.run(["--agent", agent, f"--{flag}", value])
    assert str(EvalConfig(agent="a/folder", **{name: value}).model_dump()[name]) == value


def test_an_unknown_task_gets_near_ids() -> None:
    task_id = load_tasks("pocket")[0].task_id
    with pytest.raises(TaskError, match=task_id):
        TASKS.run(["show", task_id[:-1] + "z"])


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz"])
def test_files_load_like_bundled_sets(tmp_path: Path, name: str) -> None:
    tasks = load_tasks("pocket", "dev")[:3]
    write_tasks(tasks, tmp_path / name)
    assert load_tasks(tmp_path / name) == tasks
    assert load_tasks(str(tmp_path / name), "dev") == tasks
    with pytest.raises(TaskError, match="no split 'train'"):
        load_tasks(tmp_path / name, "train")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b"\xff\xfe\n"),
        ("a.jsonl.gz", b"{}\n"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 999)[:-9]),
        ("a.jsonl.gz", gzip.compress(b"{}" * 999)[:12] + b"\xff" * 30),
    ],
    ids=["bytes", "no gzip", "cut off", "spoilt"],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=name):
        load_tasks(tmp_path / name)


@pytest.mark.parametrize("clash", ["files", "hidden_tests"])
def test_a_path_is_a_file_or_a_folder(clash: str) -> None:
    task = load_tasks("pocket", "dev")[0]
    data = task.model_dump()
    data[clash][f"{next(iter(task.files))}/below.py"] = ""
    with pytest.raises(ValueError, match="a file and a folder"):
        SWETask.model_validate(data)


def test_equal_tasks_give_equal_bytes(tmp_path: Path) -> None:
    tasks = load_tasks("pocket", "dev")[:3]
    for name in ("a.jsonl", "a.jsonl.gz", "b.jsonl", "b.jsonl.gz"):
        write_tasks(tasks, tmp_path / name)
    for ending in ("jsonl", "jsonl.gz"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_a_task_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    tasks, path = load_tasks("pocket", "dev")[:3], tmp_path / "set.jsonl"
    write_tasks(tasks[:1], path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))  # a disk that fills up
    try:
        with pytest.raises(OSError, match="File too large"):
            write_tasks(tasks, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
