import libcst as cst
import pytest

from agentic_gym.envs.swe.injection import OPERATORS, Mutation, mutate_all
from agentic_gym.envs.swe.injection.breakage import misspell
from agentic_gym.envs.swe.injection.inject import apply
from agentic_gym.envs.swe.injection.tree import LineChange
from agentic_gym.envs.swe.task import ErrorClass
from agentic_gym.errors import TaskError

BY_NAME = {operator.name: operator for operator in OPERATORS}
SOURCE = '''"""Text."""
from math import floor


def f(items, low=0, sep="-"):
    """Doc 1."""
    total = 0
    for i in range(len(items)):
        if low < items[i] and not items[i] == 3:
            break
        total += g(items[i], low)
    if total is None:
        raise ValueError("no 1")
    text = sep.join(str(x) for x in items[1:4]).strip()
    return (text + f"{total}", floor(total))


def g(
    a,
    b,
):
    return max(
        a - b,
        b,
    )
'''


def lines_after(operator: str, before: str) -> list[str]:
    mutations = mutate_all(SOURCE, [BY_NAME[operator]])
    return [m.after.strip() for m in mutations if m.before.strip() == before]


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        (
            "comparison",
            "if low < items[i] and not items[i] == 3:",
            "if low <= items[i] and not items[i] == 3:",
        ),
        (
            "comparison",
            "if low < items[i] and not items[i] == 3:",
            "if low < items[i] and not items[i] != 3:",
        ),
        ("comparison", "if total is None:", "if total is not None:"),
        ("off_by_one", "for i in range(len(items)):", "for i in range(len(items) - 1):"),
        (
            "off_by_one",
            "text = sep.join(str(x) for x in items[1:4]).strip()",
            "text = sep.join(str(x) for x in items[2:4]).strip()",
        ),
        (
            "wrong_slice",
            "text = sep.join(str(x) for x in items[1:4]).strip()",
            "text = sep.join(str(x) for x in items[1:]).strip()",
        ),
        ("wrong_initial_value", "total = 0", "total = 1"),
        (
            "wrong_initial_value",
            'def f(items, low=0, sep="-"):',
            'def f(items, low=1, sep="-"):',
        ),
        ("arithmetic", "total += g(items[i], low)", "total -= g(items[i], low)"),
        ("arithmetic", "a - b,", "a + b,"),
        (
            "boolean",
            "if low < items[i] and not items[i] == 3:",
            "if low < items[i] or not items[i] == 3:",
        ),
        (
            "boolean",
            "if low < items[i] and not items[i] == 3:",
            "if low < items[i] and items[i] == 3:",
        ),
        ("boolean", "if low < items[i] and not items[i] == 3:", "if low < items[i]:"),
        (
            "wrong_constant",
            "if low < items[i] and not items[i] == 3:",
            "if low < items[i] and not items[i] == 30:",
        ),
        ("wrong_constant", 'def f(items, low=0, sep="-"):', 'def f(items, low=0, sep="_"):'),
        ("wrong_method", "return max(", "return min("),
        ("wrong_variable", "a - b,", "a - a,"),
        ("wrong_variable", "total += g(items[i], low)", "total += g(items[i], total)"),
        (
            "missing_return",
            'return (text + f"{total}", floor(total))',
            '(text + f"{total}", floor(total))',
        ),
        ("swapped_arguments", "total += g(items[i], low)", "total += g(low, items[i])"),
        ("swapped_arguments", "a - b,", "b - a,"),
        (
            "dropped_call",
            'return (text + f"{total}", floor(total))',
            'return (text + f"{total}", total)',
        ),
        (
            "dropped_call",
            "text = sep.join(str(x) for x in items[1:4]).strip()",
            "text = sep.join(str(x) for x in items[1:4])",
        ),
        ("exception_type", 'raise ValueError("no 1")', 'raise TypeError("no 1")'),
        ("loop_control", "break", "continue"),
        ("syntax", "if total is None:", "if total is None"),
        ("syntax", "total += g(items[i], low)", "total += g(items[i], low"),
        (
            "syntax",
            "if low < items[i] and not items[i] == 3:",
            "if low < items[i] and not items[i] = 3:",
        ),
        ("import", "from math import floor", "from mah import floor"),
        ("import", "from math import floor", "from math import flor"),
        ("name", "total += g(items[i], low)", "total += g(ites[i], low)"),
        ("type", "total += g(items[i], low)", "total += g(items(i), low)"),
        ("type", "total += g(items[i], low)", "total += g(items[i])"),
    ],
)
def test_each_operator_writes_its_bug(operator: str, before: str, after: str) -> None:
    assert after in lines_after(operator, before)


def test_at_least_twelve_operators_of_logic_and_the_error_classes() -> None:
    assert sum(op.error_class in ("logic", "exception") for op in OPERATORS) >= 12
    assert {"syntax", "import", "name", "type"} <= {op.error_class for op in OPERATORS}


def test_a_mutation_changes_one_line_and_says_which() -> None:
    lines = SOURCE.split("\n")
    for mutation in mutate_all(SOURCE):
        changed = mutation.source.split("\n")
        assert len(changed) == len(lines)
        differing = [n for n, (a, b) in enumerate(zip(lines, changed, strict=True), 1) if a != b]
        assert differing == [mutation.line]
        assert lines[mutation.line - 1] == mutation.before
        assert changed[mutation.line - 1] == mutation.after


def test_no_text_comes_twice_and_the_order_is_fixed() -> None:
    first, second = mutate_all(SOURCE), mutate_all(SOURCE)
    assert first == second
    assert len({mutation.source for mutation in first}) == len(first) > 100


def test_docstrings_annotations_and_messages_stay() -> None:
    source = 'def f(a: int) -> int:\n    """Doc 1."""\n    return a\n'
    assert all(m.line == 3 or m.operator in ("syntax", "import") for m in mutate_all(source))
    assert not lines_after("wrong_constant", 'raise ValueError("no 1")')


def test_operators_offer_candidates_on_a_module_too() -> None:
    found = BY_NAME["comparison"].candidates(cst.parse_module("x = 1 < 2\n"))
    assert [m.after[6:-2] for m in found] == ["<=", ">", ">=", "!="]


def test_only_syntax_bugs_do_not_compile() -> None:
    for mutation in mutate_all(SOURCE):
        try:
            compile(mutation.source, "m", "exec")
        except SyntaxError:
            assert mutation.operator == "syntax"
        else:
            assert mutation.operator != "syntax"


def test_a_source_that_does_not_parse_is_refused() -> None:
    with pytest.raises(TaskError, match="does not parse"):
        mutate_all("def f(:\n")


def test_misspelling_keeps_short_names() -> None:
    assert misspell("len") is None
    assert misspell("range") == "rane"


class Shouting:
    """An operator of one's own, on whole lines."""

    name = "shouting"
    error_class: ErrorClass = "name"

    def candidates(self, module: cst.Module) -> list[Mutation]:
        lines = module.code.split("\n")
        changes = [LineChange(n, line.upper()) for n, line in enumerate(lines, 1) if line.strip()]
        return [apply(lines, change, self.name) for change in changes]


def test_an_operator_of_ones_own() -> None:
    found = mutate_all("x = y\nprint(x)\n", [Shouting(), BY_NAME["wrong_variable"]])
    assert [(m.operator, m.line, m.after) for m in found] == [
        ("shouting", 1, "X = Y"),
        ("shouting", 2, "PRINT(X)"),
    ]


def test_the_first_operator_has_a_text_that_two_write() -> None:
    twice = mutate_all("x = y\n", [Shouting(), Shouting()])
    assert len(twice) == 1
