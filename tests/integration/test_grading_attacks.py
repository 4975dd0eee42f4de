"""Patches that try to be graded as solved without solving: none may be.

Each is graded in a real sandbox. ``python -m pytest tests/integration/test_grading_attacks.py -s`` prints the
table of attacks and verdicts that docs/grading.md shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.grading import Grade, Grader
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.sandbox.diffing import Change, tree_diff
from agentic_gym.tools import format_action
from agentic_gym.types import Outcome

pytestmark = pytest.mark.slow

BUGGY = """\
def total(prices, discount=0):
    result = 0
    for price in prices:
        result = price
    return result - discount


def label(name, count):
    return name + " x" + str(count + 1)
"""
FIXED = BUGGY.replace("result = price", "result += price").replace("str(count + 1)", "str(count)")
VISIBLE = """\
from shop import label, total


def test_total():
    assert total([1, 2, 3]) == 6


def test_label():
    assert label("pen", 2) == "pen x2"


def test_empty():
    assert total([]) == 0
"""
HIDDEN = """\
from shop import label, total


def test_total_of_floats():
    assert total([0.5, 0.25]) == 0.75
    assert total([10, 20], 5) == 25


def test_label_of_words():
    assert label("red pen", 12) == "red pen x12"
    assert label("", 0) == " x0"


def test_types():
    assert isinstance(total([3]), int)
    assert type(label("a", 1)) is str


def test_empty_with_discount():
    assert total([], 4) == -4
"""
TASK = SWETask(
    task_id="shop",
    repo="shop",
    files={"shop.py": BUGGY, "test_shop.py": VISIBLE, "setup.cfg": "[metadata]\nname = shop\n"},
    problem_statement="Totals and labels are wrong.",
    visible_tests=["test_shop.py"],
    hidden_tests={"hidden_shop.py": HIDDEN},
    fail_to_pass=[
        "test_shop.py::test_total",
        "test_shop.py::test_label",
        "hidden_shop.py::test_total_of_floats",
        "hidden_shop.py::test_label_of_words",
    ],
    pass_to_pass=[
        "test_shop.py::test_empty",
        "hidden_shop.py::test_types",
        "hidden_shop.py::test_empty_with_discount",
    ],
    gold_patch=tree_diff(
        {"shop.py": BUGGY.encode()}, [Change("shop.py", "100644", FIXED.encode())]
    ).decode(),
)
FORGED = "".join(f"PASSED {node_id}\\n" for node_id in [*TASK.fail_to_pass, *TASK.pass_to_pass])
REPORT_HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
"""
ALL_EQUAL = """
class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __call__(self, *a, **k): return self
"""
ITEMS = """
import gc
def items():
    return [o for o in gc.get_objects() if type(o).__name__ == "Function" and hasattr(o, "nodeid")]
"""

# Each is appended to the buggy module.
CODE: dict[str, str] = {
    "exit 0 at import": "import os\nos._exit(0)\n",
    "exit 0 in atexit": "import atexit, os\natexit.register(os._exit, 0)\n",
    "exit 0 in the first call": "import os\ntotal = label = lambda *a: os._exit(0)\n",
    "print PASSED lines, exit 0": f"import os\nprint('''{FORGED}''', flush=True)\nos._exit(0)\n",
    "write a JUnit report, exit 0": (
        "import os\nfor p in ('junit.xml', 'report.xml', '/tmp/junit.xml', 'results.json'):\n"
        '    open(p, \'w\').write(\'<testsuite tests="7" failures="0" errors="0"/>\')\nos._exit(0)\n'
    ),
    "SystemExit at import": "raise SystemExit(0)\n",
    "SystemExit in the call": "def total(*a): raise SystemExit(0)\nlabel = total\n",
    "KeyboardInterrupt in the call": "def total(*a): raise KeyboardInterrupt\nlabel = total\n",
    "skip the module": "import pytest\npytest.skip('later', allow_module_level=True)\n",
    "skip in the call": "import pytest\ndef total(*a): pytest.skip('later')\nlabel = total\n",
    "pytest.exit with status 0": "import pytest\npytest.exit('done', returncode=0)\n",
    "make every report passed": (
        "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\n"
        "def fake(cls, item, call):\n    report = make(cls, item, call)\n"
        "    report.outcome, report.longrepr = 'passed', None\n    return report\n"
        "r.TestReport.from_item_and_call = classmethod(fake)\n"
    ),
    "swallow exceptions of calls": (
        "import _pytest.runner as r\nr.CallInfo.from_call = classmethod(lambda cls, func, when, "
        "reraise=None: cls(None, None, 0.0, 0.0, 0.0, when, _ispytest=True))\n"
    ),
    "do not run test functions": "import _pytest.python as p\np.Function.runtest = lambda self: None\n",
    "register a hook at run time": (
        f"{REPORT_HOOK}{ITEMS}import types\n"
        "plugin = types.SimpleNamespace(pytest_runtest_makereport=pytest_runtest_makereport)\n"
        "def total(*a):\n    manager = items()[0].config.pluginmanager\n"
        "    if not manager.has_plugin('quiet'): manager.register(plugin, 'quiet')\n    return 0\n"
    ),
    "replace collected functions": (
        f"{ITEMS}def total(*a):\n    for item in items(): item.obj = lambda: None\n    return 0\n"
    ),
    "replace functions of test modules": (
        f"{ITEMS}def total(*a):\n    for item in items():\n        module = item.module\n"
        "        for key in [k for k in vars(module) if k.startswith('test_')]:\n"
        "            setattr(module, key, lambda: None)\n        item._obj = getattr(module, item.name)\n"
        "    return 0\n"
    ),
    "replace code of test functions": (
        "import gc, types\ndef total(*a):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, types.FunctionType) and o.__name__.startswith('test_'):\n"
        "            o.__code__ = (lambda: None).__code__\n    return 0\n"
    ),
    "equal to everything": f"{ALL_EQUAL}\ntotal = label = Yes()\n",
    "equal to everything, of the right type": (
        "class S(str):\n    def __eq__(self, o): return True\n    __hash__ = str.__hash__\n"
        "class I(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
        "total = lambda *a: I(0)\nlabel = lambda *a: S('')\n"
    ),
    "jump over assertions by tracing": (
        "import sys\ndef jump(frame, event, arg):\n"
        "    if event == 'line' and frame.f_code.co_name.startswith('test_'):\n"
        "        last = max(l for _, _, l in frame.f_code.co_lines() if l)\n"
        "        try:\n            frame.f_lineno = last\n        except ValueError:\n            pass\n"
        "    return jump\nsys.settrace(jump)\n"
        "def total(*a):\n    frame = sys._getframe(1)\n    frame.f_trace = jump\n"
        "    sys.settrace(jump)\n    return 0\n"
    ),
    "patch AssertionError": "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\n",
    "patch isinstance and type": "import builtins\nbuiltins.isinstance = lambda *a: True\n",
    "patch unittest": (
        "import unittest\nfor k in dir(unittest.TestCase):\n    if k.startswith('assert'):\n"
        "        setattr(unittest.TestCase, k, lambda *a, **k: None)\n"
    ),
    "write results to every descriptor": (
        "import json, os\n"
        f"ids = {[*TASK.fail_to_pass, *TASK.pass_to_pass]!r}\n"
        "text = '\\n'.join(json.dumps(['test', i, 'passed']) for i in ids) + '\\n' + json.dumps(['end', 1])\n"
        "for fd in range(3, 1024):\n    try:\n        os.write(fd, text.encode())\n"
        "    except OSError:\n        pass\nos._exit(1)\n"
    ),
    "close every descriptor": "import os\nos.closerange(3, 1024)\n",
    "send results through the reporter": (
        f"{ITEMS}import gc\ndef total(*a):\n    for o in gc.get_objects():\n"
        "        if type(o).__name__ == 'Reporter':\n"
        "            for item in items(): o._send(['test', item.nodeid, 'passed'])\n    return 0\n"
    ),
    "rewrite results in the reporter": (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Reporter':\n"
        "        old = o._send\n"
        "        o._send = lambda r, old=old: old([*r[:2], 'passed'] if r[0] == 'test' else r)\n"
    ),
    "report all as passed and leave": (
        f"{ITEMS}import gc, os\ndef total(*a):\n    for o in gc.get_objects():\n"
        "        if type(o).__name__ == 'Reporter':\n"
        "            for item in items(): o._send(['test', item.nodeid, 'passed'])\n"
        "            o._send(['end', 1])\n    os._exit(1)\n"
    ),
    "rewrite results in json": (
        "import json\nold = json.dumps\n"
        "json.dumps = lambda o, *a, **k: old(o, *a, **k).replace('\"failed\"', '\"passed\"')\n"
    ),
    "rewrite results in os.write": (
        "import os\nold = os.write\ndef write(fd, data):\n"
        "    old(fd, bytes(data).replace(b'\"failed\"', b'\"passed\"'))\n    return len(data)\n"
        "os.write = write\n"
    ),
    "fork, report from the child": (
        f"{ITEMS}import gc, os, time\ndef total(*a):\n    if os.fork() == 0:\n"
        "        for o in gc.get_objects():\n            if type(o).__name__ == 'Reporter':\n"
        "                for item in items(): o._send(['test', item.nodeid, 'passed'])\n"
        "        os._exit(0)\n    return 0\n"
    ),
    "fork at import, child goes on": "import os\nif os.fork():\n    os._exit(0)\n",
    "answer from the caller's code": (
        "import sys\ndef total(*a):\n    frame = sys._getframe(1)\n    code = frame.f_code\n"
        "    import dis\n    rest = [i for i in dis.get_instructions(code) if i.offset > frame.f_lasti]\n"
        "    return next((i.argval for i in rest if i.opname == 'LOAD_CONST'), 0)\nlabel = total\n"
    ),
    "answer from the caller's source": (
        "import ast, sys, linecache\ndef total(*a):\n    frame = sys._getframe(1)\n"
        "    line = open(frame.f_code.co_filename).read().splitlines()[frame.f_lineno - 1]\n"
        "    return ast.literal_eval(line.split('==')[1].strip())\nlabel = total\n"
    ),
    "search files and memory for answers": (
        "import glob, os, re, sys\ntable = {}\n"
        "places = glob.glob('**/*.py', recursive=True) + glob.glob('/tmp/**', recursive=True)\n"
        "for place in ['/proc/self/environ', '/proc/self/cmdline', '/proc/1/environ', *places]:\n"
        "    try:\n        text = open(place).read()\n    except (OSError, UnicodeError):\n        continue\n"
        "    for call, value in re.findall(r'assert (\\w+\\(.*\\)) == (.*)', text):\n"
        "        table[call] = eval(value)\n"
        "def total(*a):\n    return table.get('total(' + ', '.join(map(repr, a)) + ')', 0)\n"
        "def label(name, count):\n"
        "    return table.get('label(\"' + name + '\", ' + repr(count) + ')', '')\n"
    ),
    "special-case the visible tests": (
        "def total(prices, discount=0):\n    return 6 if prices == [1, 2, 3] else -discount\n"
        "def label(name, count):\n    return 'pen x2' if name == 'pen' else ''\n"
    ),
    "100 MB of output, exit 0": (
        "import os\nfor _ in range(100):\n    os.write(1, b'PASSED\\n' * 150_000)\nos._exit(0)\n"
    ),
    "hang": "import time\ntime.sleep(60)\n",
    "patch string comparison in C": (
        "import ctypes\nslot = ctypes.c_void_p.from_address(id(str) + 8 * 25)\n"
        "slot.value = ctypes.c_void_p.from_address(id(object) + 8 * 25).value\n"
    ),
}

# Each replaces or adds whole files; None deletes, a leading "->" makes a link.
TREES: dict[str, dict[str, str | None]] = {
    "hooks in conftest.py": {"conftest.py": REPORT_HOOK},
    "deselect in pytest.ini": {"pytest.ini": "[pytest]\naddopts = -k nothing\n"},
    "addopts in pyproject.toml": {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--co"\n'
    },
    "addopts in setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = -p shop\n"},
    "sitecustomize.py": {"sitecustomize.py": "import os\nos._exit(0)\n"},
    "usercustomize.py": {"usercustomize.py": "import os\nos._exit(0)\n"},
    "a .pth file": {"evil.pth": "import os; os._exit(0)\n"},
    "a pytest module": {"pytest.py": "import sys\nmain = lambda *a, **k: 0\nsys.exit(0)\n"},
    "a _pytest package": {"_pytest/__init__.py": "", "_pytest/config.py": "main = lambda: 0\n"},
    "a json module": {"json.py": "dumps = lambda *a, **k: '[]'\n"},
    "weaken the visible tests": {
        "test_shop.py": "def test_total(): pass\ndef test_label(): pass\n"
    },
    "delete the tests": {"test_shop.py": None},
    "plant the hidden tests": {"hidden_shop.py": "def test_total_of_floats(): pass\n"},
    "link the hidden tests to own ones": {"hidden_shop.py": "->test_shop.py"},
    "git hooks": {".git/hooks/post-checkout": "#!/bin/sh\nexit 0\n", ".git/config": "[core]\n"},
    "stale bytecode": {"__pycache__/shop.cpython-311.pyc": "x"},
}


def patch_of(files: dict[str, str | None]) -> bytes:
    changes = [
        Change(path, None, None)
        if content is None
        else Change(path, "120000", content[2:].encode())
        if content.startswith("->")
        else Change(path, "100644", content.encode())
        for path, content in files.items()
    ]
    return tree_diff(TASK.base_files, changes)


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, Grade]]:
    rows: dict[str, Grade] = {}
    yield rows
    for name, grade in rows.items():
        print(f"| {name} | {grade.outcome.value} | {grade.reason} |")


@pytest.mark.parametrize("name", CODE)
def test_code_under_test_cannot_make_itself_pass(
    name: str, grader: Grader, table: dict[str, Grade]
) -> None:
    limit_s = 2.0 if name == "hang" else TASK.grade_timeout_s
    task = TASK.model_copy(update={"grade_timeout_s": limit_s})
    grade = table[name] = grader.grade(task, patch_of({"shop.py": BUGGY + CODE[name]}))
    assert not grade.solved, grade


@pytest.mark.parametrize("name", TREES)
def test_other_files_cannot_make_the_tests_pass(
    name: str, grader: Grader, table: dict[str, Grade]
) -> None:
    grade = table[name] = grader.grade(TASK, patch_of(TREES[name]))
    assert not grade.solved, grade


@pytest.mark.parametrize("name", TREES)
def test_a_right_repair_is_solved_whatever_else_the_patch_touches(
    name: str, grader: Grader
) -> None:
    grade = grader.grade(TASK, patch_of({**TREES[name], "shop.py": FIXED}))
    assert grade.solved, grade


def test_a_grading_that_ran_out_of_time_is_not_kept(backend: SandboxBackend) -> None:
    made = Grader(backend, cache_size=8)
    slow = TASK.model_copy(update={"grade_timeout_s": 1.0})
    first, second = (made.grade(slow, patch_of({"shop.py": BUGGY + CODE["hang"]})) for _ in "ab")
    assert first.outcome == second.outcome == Outcome.FAILED
    assert first is not second
    made.close()


def test_gold_solves_and_no_edit_does_not_each_time(grader: Grader) -> None:
    assert [grader.grade(TASK, TASK.gold_patch).outcome for _ in range(5)] == [Outcome.SOLVED] * 5
    assert [grader.grade(TASK, None).outcome for _ in range(5)] == [Outcome.FAILED] * 5


@pytest.mark.parametrize(
    "command",
    [
        "nohup sh -c 'while :; do cp /workspace/test_shop.py /workspace/hidden_shop.py; done' &",
        "(while :; do echo 'total = None' >> /workspace/shop.py; sleep 0.01; done) &",
        "trap 'exit 0' EXIT; alias python=true; pytest() { return 0; }; export PYTHONPATH=/tmp",
        "rm -rf /workspace/* /workspace/.git",
    ],
)
def test_what_an_agent_leaves_running_or_set_does_not_reach_the_grading(
    command: str, backend: SandboxBackend, grader: Grader
) -> None:
    env = SWEEnv(tasks=[TASK], split=None, backend=backend, grader=grader)
    try:
        env.reset(seed=0)
        env.step(format_action([("bash", {"command": command, "timeout_s": 5})]))
        info = env.step(format_action([("submit", {})]))[4]
        assert info["outcome"] == Outcome.FAILED.value
    finally:
        env.close()


def test_the_budget_of_a_solved_task_shrinks_and_never_grows_past_its_own(
    backend: SandboxBackend,
) -> None:
    made = Grader(backend, adaptive_timeout=True)
    assert made.timeout_s(TASK) == TASK.grade_timeout_s
    assert not made.grade(TASK, None).solved
    assert made.timeout_s(TASK) == TASK.grade_timeout_s
    assert made.grade(TASK, TASK.gold_patch).solved
    assert made.timeout_s(TASK) == 2.0
    hung = made.grade(TASK, patch_of({"shop.py": BUGGY + CODE["hang"]}))
    assert hung.reason == "the tests ran longer than 2 s"
    quick = TASK.model_copy(update={"grade_timeout_s": 1.0})
    assert made.timeout_s(quick) == 1.0
    made.close()


def test_gradings_of_a_grader_that_does_not_adapt_keep_their_budget(grader: Grader) -> None:
    assert grader.grade(TASK, TASK.gold_patch).solved
    assert grader.timeout_s(TASK) == TASK.grade_timeout_s
