"""Ids, options and plugins."""

import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentic_gym import registration
from agentic_gym.env import ToolEnv
from agentic_gym.errors import RegistrationError
from agentic_gym.registration import describe, find_spec, make, register, registered
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.wrappers import GoalReminder, TimeLimit, TokenBudget, TurnLimit


@pytest.fixture(autouse=True)
def _same_registry_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(gymnasium.registry)
    monkeypatch.setattr(registration, "_known", set(registration._known))
    monkeypatch.setattr(registration, "_pending", [])
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def wrappers(env: Any) -> list[type]:
    found = []
    while env is not env.unwrapped:
        found.append(type(env))
        env = env.env
    return [cls for cls in found if cls.__module__ == "agentic_gym.wrappers"]


def words(text: str) -> int:
    return len(text.split())


def test_what_is_registered_can_be_made_here_and_in_gymnasium() -> None:
    register("tests/guess-v0", GuessEnv, limit=5)
    register("tests/text-v0", "agentic_gym.testing:GuessEnv")
    for env in (make("tests/guess-v0"), gymnasium.make("tests/guess-v0")):
        assert env.reset(seed=0)[0] == "Find the number between 1 and 5."
    assert make("tests/guess-v0", limit=7).reset(seed=0)[0].endswith("and 7.")
    assert type(gymnasium.make("tests/text-v0").unwrapped) is GuessEnv
    assert type(make("CartPole-v1").unwrapped).__name__ == "CartPoleEnv"


def test_budgets_are_options_of_both_and_make_overrides() -> None:
    register("tests/bounded-v0", EchoEnv, max_turns=2, goal_reminder_turns=1)
    for env in (make("tests/bounded-v0"), gymnasium.make("tests/bounded-v0")):
        assert wrappers(env) == [TurnLimit, GoalReminder]
    env = make("tests/bounded-v0", max_turns=1)
    env.reset()
    assert env.step("")[3] is True
    assert wrappers(make("tests/bounded-v0", max_turns=None)) == [GoalReminder]
    assert wrappers(make("tests/bounded-v0", max_turns=None, goal_reminder_turns=None)) == []


def test_budgets_count_what_the_reminder_adds() -> None:
    register("tests/all-v0", EchoEnv)
    options = {"max_seconds": 9, "max_tokens": 9, "goal_reminder_tokens": 9, "max_turns": 9}
    env = make("tests/all-v0", **options, count_tokens=words)
    assert wrappers(env) == [TimeLimit, TokenBudget, TurnLimit, GoalReminder]
    with pytest.raises(RegistrationError, match="max_tokens needs count_tokens"):
        make("tests/all-v0", max_tokens=9)


def test_a_registered_count_is_kept_when_make_changes_the_budget() -> None:
    register("tests/counted-v0", EchoEnv, max_tokens=1, count_tokens=words)
    env = make("tests/counted-v0", max_tokens=10**6)
    env.reset()
    assert env.step("")[3] is False
    options = {"max_tokens": 1, "count_tokens": f"{words.__module__}:words"}
    assert describe(find_spec("tests/counted-v0"))["options"] == options


@pytest.mark.parametrize(
    ("id", "suggested"),
    [
        ("thing", "me/thing-v0"),
        ("me/thing", "me/thing-v0"),
        ("a b/c d", "a-b/c-d-v0"),
        ("", "me/thing-v0"),
        ("me/", "me/thing-v0"),
        ("me/x-vzero", "me/x-v0"),
        ("me/x_v1.2", "me/x-v1"),
        ("me/my-video", "me/my-video-v0"),
        ("a/b/c-v0", "a/b-c-v0"),
        ("no spaces-v0", "me/no-spaces-v0"),
        (None, "me/thing-v0"),
        (7, "me/thing-v0"),
    ],
)
def test_malformed_ids_get_an_example(id: Any, suggested: str) -> None:
    with pytest.raises(RegistrationError, match=f"expected namespace/name-vN.*'{suggested}'"):
        register(id, EchoEnv)
    register(suggested, EchoEnv)


def test_an_id_is_text() -> None:
    with pytest.raises(RegistrationError, match="None is not an id"):
        make(None)  # type: ignore[arg-type]


class NoStart(ToolEnv):
    def reward(self) -> float:
        return 0.0


class NeedsPath(EchoEnv):
    def __init__(self, path: str) -> None:
        super().__init__(path)


@pytest.mark.parametrize(
    ("entry_point", "says"),
    [
        (EchoEnv(), "an instance of EchoEnv.*Give the class"),
        (int, "int is not an environment.*ToolEnv"),
        (3, "3 makes no environment. Give the class"),
        ("a_module", "'a_module' names no class.*'module:name'"),
        (NoStart, r"NoStart does not define start\. Write it"),
        (ToolEnv, "ToolEnv does not define reward and start"),
    ],
)
def test_what_makes_no_environment_is_refused_at_once(entry_point: Any, says: str) -> None:
    with pytest.raises(RegistrationError, match=f"tests/odd-v0: .*{says}"):
        register("tests/odd-v0", entry_point)
    assert "tests/odd-v0" not in gymnasium.registry


def test_what_a_text_names_is_checked_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "module_of_tests", sys.modules[__name__])
    register("tests/odd-v0", "module_of_tests:NoStart")
    with pytest.raises(RegistrationError, match="NoStart does not define start"):
        make("tests/odd-v0")


def test_an_id_is_taken_once_but_the_same_class_may_be_defined_again() -> None:
    register("tests/twice-v0", EchoEnv)
    register("tests/twice-v0", "agentic_gym.testing:EchoEnv", max_turns=3)
    assert wrappers(make("tests/twice-v0")) == [TurnLimit]
    with pytest.raises(RegistrationError, match=r"taken by agentic_gym\.testing:EchoEnv"):
        register("tests/twice-v0", GuessEnv)
    assert type(make("tests/twice-v0").unwrapped) is EchoEnv


def test_a_registration_that_fails_leaves_the_one_before() -> None:
    register("tests/kept-v0", EchoEnv, max_turns=3)
    with pytest.raises(RegistrationError, match="max_tokens needs count_tokens"):
        register("tests/kept-v0", EchoEnv, max_tokens=5)
    assert wrappers(make("tests/kept-v0")) == [TurnLimit]


def test_an_id_is_there_while_it_is_registered_again() -> None:
    register("tests/again-v0", EchoEnv)
    done = threading.Event()

    def again() -> None:
        while not done.is_set():
            register("tests/again-v0", EchoEnv)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        for _ in range(300):
            assert find_spec("tests/again-v0").id == "tests/again-v0"
    finally:
        done.set()
        thread.join()


def test_unknown_ids_say_what_was_probably_meant() -> None:
    register("tests/guess-v0", GuessEnv)
    with pytest.raises(RegistrationError, match=r"Did you mean 'tests/guess-v0'\?"):
        make("tests/gues-v0")
    with pytest.raises(RegistrationError, match=r"Known: .*tests/guess-v0.*'package:q-v0'"):
        make("q-v0")
    with pytest.raises(RegistrationError, match=r"cannot import 'no_such_module'.*PYTHONPATH"):
        make("no_such_module:me/x-v0")


def test_unknown_arguments_say_what_was_probably_meant() -> None:
    register("tests/guess-v0", GuessEnv)
    with pytest.raises(
        RegistrationError, match=r"no option 'max_turn'. Did you mean 'max_turns'\?"
    ):
        make("tests/guess-v0", max_turn=3)
    with pytest.raises(RegistrationError, match=r"no option 'zzz'\. It takes limit, count_tokens"):
        make("tests/guess-v0", zzz=3)
    with pytest.raises(RegistrationError, match=r"Did you mean 'max_turns'\?"):
        register("tests/new-v0", GuessEnv, max_turn=3)
    assert "tests/new-v0" not in gymnasium.registry
    register("tests/text-v0", "agentic_gym.testing:GuessEnv", max_turn=3)
    with pytest.raises(RegistrationError, match=r"Did you mean 'max_turns'\?"):
        make("tests/text-v0")


def test_an_argument_that_is_missing_is_named() -> None:
    register("tests/needs-v0", NeedsPath)
    with pytest.raises(
        RegistrationError, match=r"needs path: make\('tests/needs-v0', path=\.\.\.\)"
    ):
        make("tests/needs-v0")
    assert make("tests/needs-v0", path="a").reset()[0] == "a"
    register("tests/needs-v0", NeedsPath, path="b")
    assert make("tests/needs-v0").reset()[0] == "b"


def test_code_that_cannot_be_imported_is_named() -> None:
    register("tests/lost-v0", "no_such_module:Env")
    with pytest.raises(
        RegistrationError, match="tests/lost-v0: cannot import 'no_such_module:Env'"
    ):
        make("tests/lost-v0")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that registers ``tests/plug-v0`` when it is imported."""
    (tmp_path / "plugin_of_tests.py").write_text(
        "import agentic_gym\n"
        "from agentic_gym.testing import EchoEnv\n"
        "agentic_gym.register('tests/plug-v0', EchoEnv, max_turns=2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "plugin_of_tests"
    sys.modules.pop("plugin_of_tests", None)


def declare(name: str, value: str) -> None:
    registration._declare_plugins([EntryPoint(name, value, registration.GROUP)])


@pytest.mark.parametrize("make_it", [make, gymnasium.make])
def test_a_module_under_an_id_is_imported_when_it_is_made(plugin: str, make_it: Any) -> None:
    declare("tests/plug-v0", plugin)
    assert "tests/plug-v0" in registered()
    assert describe(gymnasium.registry["tests/plug-v0"])["entry_point"] == plugin
    assert plugin not in sys.modules
    env = make_it("tests/plug-v0")
    assert plugin in sys.modules
    assert wrappers(env) == [TurnLimit]
    assert make("tests/plug-v0", max_turns=None).reset()[0].startswith("Echo")


def test_a_class_under_an_id() -> None:
    declare("tests/class-v0", "agentic_gym.testing:EchoEnv")
    assert type(gymnasium.make("tests/class-v0").unwrapped) is EchoEnv


def test_a_module_under_another_name_is_imported_at_need(plugin: str) -> None:
    declare("mine", plugin)
    assert "tests/plug-v0" not in gymnasium.registry
    assert wrappers(make("tests/plug-v0")) == [TurnLimit]


def register_by_call() -> None:
    register("tests/called-v0", EchoEnv)


def test_a_function_is_called_at_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "module_of_tests", sys.modules[__name__])
    declare("mine", "module_of_tests:register_by_call")
    assert type(make("tests/called-v0").unwrapped) is EchoEnv


def test_a_broken_plugin_is_a_warning_that_names_it_and_hides_no_other(plugin: str) -> None:
    declare("broken", "no_such_module")
    declare("mine", plugin)
    with pytest.warns(
        RuntimeWarning, match=r"of an unknown distribution .* 'broken' .*no_such_module"
    ):
        assert "tests/plug-v0" in registered()
    registered()
    with pytest.warns(RuntimeWarning, match=r"'tests/bad id-v0' .* is not an id"):
        declare("tests/bad id-v0", plugin)


def test_a_plugin_that_does_not_register_its_id_is_an_error_that_says_so() -> None:
    declare("tests/never-v0", "agentic_gym.testing")
    declare("tests/missing-v0", "no_such_module")
    for make_it in (make, gymnasium.make):
        with pytest.raises(RegistrationError, match=r"agentic_gym\.testing' does not register it"):
            make_it("tests/never-v0")
        with pytest.raises(RegistrationError, match="cannot import 'no_such_module'"):
            make_it("tests/missing-v0")
