import gzip
import json
import re
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
        (["list", "/"], TaskError, "/ is a folder: give a JSONL file"),
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
    example = r"in pocket\. An id looks like 'pocket-.*`agentic-gym tasks list pocket` lists them"
    with pytest.raises(TaskError, match=f"no task 'nosuch' {example}"):
        TASKS.run(["show", "nosuch"])
    with pytest.raises(TaskError, match=r"Did you mean 'pocket-roman-.*' or 'pocket-roman-"):
        TASKS.run(["show", "roman"])


def test_every_action_in_the_help_exists() -> None:
    words = TASKS.help.removesuffix(" task sets").replace(" and ", ", ").split(", ")
    assert words == list(task_commands._ACTIONS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"problem_statment": ""},
            "unknown key 'problem_statment'. Did you mean 'problem_statement'?",
        ),
        ({"zzz": ""}, "unknown key 'zzz'. A task has: task_id, repo, files"),
        ({"repo": 3}, "repo: Input should be a valid string"),
        ({"visible_tests": ["no.py"]}, "visible_tests names files"),
    ],
)
def test_what_is_wrong_with_a_line_is_named(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    path = tmp_path / "set.jsonl"
    task = load_tasks("pocket", "dev")[0].model_dump(mode="json")
    path.write_text("\n" + json.dumps(task | change) + "\n")
    with pytest.raises(TaskError, match=re.escape(f"{path}:2: {says}")):
        load_tasks(path)


def test_a_key_that_is_missing_or_misspelt_is_named(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    task = load_tasks("pocket", "dev")[0].model_dump(mode="json")
    del task["repo"]
    path.write_text(json.dumps(task))
    with pytest.raises(TaskError, match=":1: 'repo' is missing"):
        load_tasks(path)
    path.write_text(json.dumps(task | {"repoo": "x"}))
    with pytest.raises(TaskError, match=r"unknown key 'repoo'\. Did you mean 'repo'"):
        load_tasks(path)


def test_a_line_that_is_cut_off_is_told_with_one_line_number(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    line = load_tasks("pocket", "dev")[0].model_dump_json()
    path.write_text(f"{line}\n{line[:300]}\n{line}\n")
    with pytest.raises(
        TaskError, match=r"set\.jsonl:2: this line is not JSON.*Is it cut off"
    ) as caught:
        load_tasks(path)
    assert " line 2" not in str(caught.value)
    assert " line 1" not in str(caught.value)


def test_a_folder_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    for folder in ("mine", str(tmp_path)):
        with pytest.raises(TaskError, match="is a folder"):
            load_tasks(folder)


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
