"""Configuration from files and flags: strict, lossless, explained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agentic_gym.config import (
    ReadWhen,
    StrictConfig,
    Switch,
    dump_config,
    load_config,
    parse_flags,
    read_yaml,
)
from agentic_gym.errors import ConfigError


class Optimiser(StrictConfig):
    """How to step."""

    learning_rate: float = 1e-4
    """Step size."""
    betas: tuple[float, float] = (0.9, 0.95)
    momentum: Annotated[float, Field(le=1)] = 0.0


class Run(StrictConfig):
    """A run."""

    name: str = "first"
    """What to call it."""
    num_updates: int = 3
    schedule: Literal["sync", "async"] = "sync"
    max_staleness: Annotated[int, ReadWhen("schedule", ("async",))] = 2
    tags: tuple[str, ...] = ()
    model: Path | None = None
    resume: bool = False
    optimiser: Optimiser = Optimiser()


class Suite(StrictConfig):
    """Configurations by name."""

    parts: dict[str, Optimiser] = Field(default_factory=dict)
    best: Optimiser | None = None


class Needy(StrictConfig):
    path: str


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_flags_fill_nested_keys() -> None:
    config = load_config(
        Run, ["--optimiser.learning-rate", "3e-4", "--tags", "a", "b", "--resume", "--name", "x"]
    )
    assert config == Run(
        name="x", tags=("a", "b"), resume=True, optimiser=Optimiser(learning_rate=3e-4)
    )


def test_flags_override_the_file_and_leave_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, "name: file\nnum_updates: 7\noptimiser: {learning_rate: 1e-2}\n")
    config = load_config(Run, ["--config", str(path), "--num-updates", "9"])
    assert (config.name, config.num_updates, config.optimiser.learning_rate) == ("file", 9, 0.01)
    assert load_config(Run, [f"--config={path}"]).num_updates == 7
    assert load_config(Run, [], path).name == "file"


def test_config_flag_wins_over_the_default_file(tmp_path: Path) -> None:
    path = write(tmp_path, "name: named\n")
    assert load_config(Run, ["--config", str(path)], tmp_path / "missing.yaml").name == "named"


@pytest.mark.parametrize("argv", [["--config"], ["--config", "--name"], ["--config="]])
def test_config_flag_needs_a_file(argv: list[str]) -> None:
    with pytest.raises(ConfigError, match="needs a file"):
        load_config(Run, argv)


def test_config_flag_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        load_config(Run, ["--config", "a.yaml", "--config", "b.yaml"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--num-update", "3"], "unknown flag '--num-update'. Did you mean '--num-updates'?"),
        (["--num_update=3"], "Did you mean '--num-updates'?"),
        (["--learning-rate", "3"], "Did you mean '--optimiser.learning-rate'?"),
        (["surplus"], "unknown flag 'surplus'"),
        (["--num-updates", "2.5"], "--num-updates = '2.5' is not a whole number"),
        (["--optimiser.learning-rate", "x"], "--optimiser.learning-rate = 'x' is not a number"),
        (["--optimiser.momentum", "2"], "--optimiser.momentum = 2.0: should be less than or equal"),
        (["--schedule", "asynk"], "schedule"),
        (["--max-staleness", "5"], "max_staleness is read only when schedule is 'async'"),
    ],
)
def test_wrong_flags_are_explained(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_flags(Run, argv)
    assert message in str(caught.value)
    assert "│" not in str(caught.value)


def test_flags_reach_into_what_a_file_names(tmp_path: Path) -> None:
    path = write(tmp_path, "parts: {a: {learning_rate: 1e-3}, b: {}}\nbest: {learning_rate: 1}\n")
    config = load_config(Suite, ["--config", str(path), "--parts.a.learning-rate", "2e-3"])
    assert config.parts == {"a": Optimiser(learning_rate=2e-3), "b": Optimiser()}
    assert config.best == Optimiser(learning_rate=1.0)
    with pytest.raises(ConfigError, match=r"unknown flag '--part'\. Did you mean '--parts'"):
        load_config(Suite, ["--part", "x"])
    with pytest.raises(ConfigError, match=r"parts\.b: Optimiser: unknown key 'lr'"):
        read_yaml(Suite, write(tmp_path, "parts: {b: {lr: 1}}\n"))


def test_a_missing_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="--path"):
        parse_flags(Needy, [])
    with pytest.raises(ConfigError, match=r"unknown flag '--pth'\. Did you mean '--path'\?"):
        parse_flags(Needy, ["--pth", "x"])
    assert parse_flags(Needy, ["--path", "x"]).path == "x"


def test_help_lists_flags_and_exits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_flags(Run, ["--help"], prog="agentic-gym train")
    assert not caught.value.code
    text = capsys.readouterr().out
    assert "agentic-gym train" in text
    assert "--optimiser.learning-rate" in text
    assert "Step size." in text


def test_switches_and_mappings_are_in_the_help_and_suggested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        load_config(Suite, ["--help"])
    text = capsys.readouterr().out
    assert "--config FILE" in text
    assert "mappings, set in the YAML file: parts" in text
    with pytest.raises(ConfigError, match=r"Did you mean '--pause'\?"):
        parse_flags(Run, ["--pase"], switches=[Switch("--pause", "wait")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_update: 3", "unknown key 'num_update'. Did you mean 'num_updates'?"),
        (
            "num_update: 3\nzz: 1",
            "unknown keys 'num_update' (Did you mean 'num_updates'?), 'zz'. Known",
        ),
        ("optimiser: {learning_rat: 1}", "Did you mean 'learning_rate'?"),
        ("num_updates: many", "num_updates = 'many'"),
        ("max_staleness: 9", "read only when schedule"),
        ("name: a\nname: b", "occurs twice"),
        ("[1, 2]", "must hold keys and values"),
        ("1: 2", "must hold keys and values"),
        ("name: [", "cannot be read as YAML"),
        ("tags: !!python/object/apply:os.getcwd []", "cannot be read as YAML"),
    ],
)
def test_wrong_files_are_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(Run, write(tmp_path, text))
    assert message in str(caught.value)
    assert "run.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["[a, b]: 1\n", "{a: 1}: 2\n", "steps: !!int x\n", "steps: " + "1" * 5000 + "\n", "self: 1\n"],
    ids=["list", "mapping", "tag", "long", "self"],
)
def test_odd_files_are_errors_of_ours(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        read_yaml(Run, path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*nowhere\.yaml"):
        read_yaml(Run, tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        read_yaml(Run, tmp_path)


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert read_yaml(Run, write(tmp_path, "# nothing\n")) == Run()


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("1E5", 1e5), ("1.", 1.0), (".5", 0.5), ("-3", -3.0), (".inf", float("inf"))],
)
def test_numbers_are_read_as_numbers(tmp_path: Path, text: str, value: float) -> None:
    path = write(tmp_path, f"learning_rate: {text}\n")
    assert read_yaml(Optimiser, path).learning_rate == value


@pytest.mark.parametrize("text", ["no", "on", "12:30", "2024-01-01", "1_000", "0b1", "=", "<<"])
def test_text_that_other_yaml_readers_change_stays_text(tmp_path: Path, text: str) -> None:
    assert read_yaml(Run, write(tmp_path, f"name: {text}\n")).name == text


@pytest.mark.parametrize(("text", "value"), [("010", 10), ("0x10", 16), ("0o10", 8)])
def test_whole_numbers_follow_yaml_1_2(tmp_path: Path, text: str, value: int) -> None:
    assert read_yaml(Run, write(tmp_path, f"num_updates: {text}\n")).num_updates == value


@pytest.mark.parametrize(
    "name",
    [
        "1e-4",
        "no",
        "true",
        "null",
        "",
        "~",
        "0x1",
        "007",
        " x ",
        "a\nb: c",
        "é\u2028\x07",
        "\x85",
        "12:30",
    ],
)
def test_dump_and_load_give_the_same_text(tmp_path: Path, name: str) -> None:
    config = Run(name=name, tags=(name,), model=Path("m"))
    dump_config(config, tmp_path / "run.yaml")
    assert read_yaml(Run, tmp_path / "run.yaml") == config


@pytest.mark.parametrize("value", [1e-4, 1e300, 1e16, 5e-324, 0.1 + 0.2, float("inf"), -0.0])
def test_dump_and_load_give_the_same_number(tmp_path: Path, value: float) -> None:
    dump_config(Optimiser(learning_rate=value), tmp_path / "run.yaml")
    assert repr(read_yaml(Optimiser, tmp_path / "run.yaml").learning_rate) == repr(value)


def test_dump_is_complete_and_leaves_nothing_beside(tmp_path: Path) -> None:
    dump_config(Run(), tmp_path / "new" / "run.yaml")
    text = (tmp_path / "new" / "run.yaml").read_text()
    assert [key for key in Run.model_fields if f"{key}:" not in text] == []
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.yaml"]


def test_dump_refuses_what_would_not_come_back(tmp_path: Path) -> None:
    class Odd(StrictConfig):
        value: object = (1, 2)  # YAML knows lists alone

    with pytest.raises(ConfigError, match="changes when written and read"):
        dump_config(Odd(), tmp_path / "run.yaml")
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Run().name = "other"  # type: ignore[misc]


def test_a_wrong_default_is_found() -> None:
    class Wrong(StrictConfig):
        count: int = "many"  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="count"):
        Wrong()


def test_a_mapping_as_a_flag_is_sent_to_the_file() -> None:
    class WithMapping(StrictConfig):
        options: dict[str, Any] = Field(default_factory=dict)

    with pytest.raises(ConfigError, match=r"options is a mapping.*--config"):
        parse_flags(WithMapping, ["--options", "{}"], default=WithMapping())


def test_a_key_within_a_mapping_is_sent_to_the_file_or_to_what_the_default_holds() -> None:
    class WithMapping(StrictConfig):
        options: dict[str, Any] = Field(default_factory=dict)

    with pytest.raises(
        ConfigError, match=r"^--options\.tasks cannot .* Set options in a YAML file"
    ):
        parse_flags(WithMapping, ["--options.tasks", "x"], default=WithMapping())
    with pytest.raises(ConfigError, match=r"Did you mean '--options'\? That is a mapping"):
        parse_flags(WithMapping, ["--option", "x"], default=WithMapping())
    default = WithMapping(options={"tasks": "x", "reward": {"turn": -1.0}})
    flags = ["--options.tasks", "y", "--options.reward.turn", "-2"]
    assert parse_flags(WithMapping, flags, default=default).options == {
        "tasks": "y", "reward": {"turn": -2.0}
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"Did you mean '--options\.reward\.turn'"):
        parse_flags(WithMapping, ["--options.reward.trn", "1"], default=default)


def test_a_file_over_a_default_keeps_what_it_does_not_say(tmp_path: Path) -> None:
    class Inner(StrictConfig):
        first: int = 1
        second: int = 2

    class Outer(StrictConfig):
        inner: Inner = Inner()
        options: dict[str, Any] = Field(default_factory=dict)
        name: str = "usual"

    default = Outer(inner=Inner(first=5), options={"kept": 1}, name="mine")
    file = tmp_path / "some.yaml"
    file.write_text("inner: {second: 7}\n")
    found = read_yaml(Outer, file, default=default)
    assert (found.inner, found.options, found.name) == (
        Inner(first=5, second=7),
        {"kept": 1},
        "mine",
    )
    file.write_text("options: {other: 2}\n")  # a free mapping is taken whole
    assert read_yaml(Outer, file, default=default).options == {"other": 2}
    file.write_text("inner: {thrid: 7}\n")
    with pytest.raises(ConfigError, match="unknown key 'thrid'"):
        read_yaml(Outer, file, default=default)
    dump_config(default, file)
    assert read_yaml(Outer, file, default=Outer(name="else")) == default
