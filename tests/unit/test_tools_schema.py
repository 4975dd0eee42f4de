"""From methods to schemas, and from arguments to calls."""

import dataclasses
import datetime
import math
import pickle
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import pytest

from agentic_gym.errors import ToolCallError, ToolDefinitionError
from agentic_gym.tools import bind_arguments, collect_tools, tool, write_answer


class Point(pydantic.BaseModel):
    x: int
    y: int = 0


class Tools:
    @tool
    def view(self, path: str, line: int = 1, *, mode: Literal["r", "b"] = "r") -> str:
        """Shows a file.

        With line numbers.

        Args:
            path: relative to the
                workspace: no "..".
            line (int): first line.

        Returns:
            Not the agent's business.
        """
        return f"{path}:{line}:{mode}"

    @tool
    def plot(self, point: Point, size: Annotated[float, pydantic.Field(gt=0)], json: bool) -> str:
        """Plots a point."""
        return f"{point!r} {size} {json}"

    @tool
    def tag(self, names: list[str], note: str | None = None) -> str:
        """Tags."""
        return ",".join(names)

    def helper(self) -> None:
        """Not a tool."""


def test_schema_from_hints_and_docstring() -> None:
    spec = collect_tools(Tools)["view"]
    assert spec.to_openai() == {
        "type": "function",
        "function": {
            "name": "view",
            "description": "Shows a file.\n\nWith line numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": 'relative to the workspace: no "..".',
                    },
                    "line": {"type": "integer", "default": 1, "description": "first line."},
                    "mode": {"type": "string", "enum": ["r", "b"], "default": "r"},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        },
    }


def test_tools_are_listed_as_written_and_can_be_pickled() -> None:
    specs = collect_tools(Tools())
    assert list(specs) == ["view", "plot", "tag"]
    assert pickle.loads(pickle.dumps(specs)) == specs


def test_a_caller_cannot_spoil_the_schema() -> None:
    collect_tools(Tools)["view"].to_openai()["function"]["parameters"]["properties"].clear()
    collect_tools(Tools).clear()
    assert "path" in collect_tools(Tools)["view"].parameters["properties"]


def test_subclasses_inherit_replace_and_hide_tools() -> None:
    class More(Tools):
        @tool
        def view(self, name: str) -> str:  # type: ignore[override]
            """Another view."""
            return name

        def plot(self) -> None:  # type: ignore[override]
            """Hidden."""

    specs = collect_tools(More)
    assert list(specs) == ["view", "tag"]
    assert specs["view"].description == "Another view."


def test_signatures_for_error_messages() -> None:
    specs = collect_tools(Tools)
    assert specs["view"].signature == 'view(path: string, line: integer = 1, mode: "r" | "b" = "r")'
    assert specs["plot"].signature == "plot(point: Point, size: number, json: boolean)"
    assert specs["tag"].signature == "tag(names: array, note: string | null = null)"


def test_arguments_are_converted_to_the_hints() -> None:
    tools = Tools()
    assert bind_arguments(tools.view, {"path": "a", "line": "3"}) == {
        "path": "a",
        "line": 3,
        "mode": "r",
    }
    bound = bind_arguments(tools.plot, {"point": {"x": 1}, "size": 2, "json": True})
    assert bound == {"point": Point(x=1, y=0), "size": 2.0, "json": True}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "path is missing. Expected: view(path: string"),
        ({"path": 3}, "path: Input should be a valid string, got 3"),
        ({"path": "a", "line": "x"}, "line: Input should be a valid integer"),
        ({"path": "a", "lin": 3}, "lin is not an argument"),
        ({"path": "a", "mode": "w"}, "mode: Input should be 'r' or 'b', got 'w'"),
        ({"path": None, "line": []}, "path: Input should be a valid string, got None; line:"),
        ({"path": "a"} | {str(n): n for n in range(9)}, "; and 4 more. Expected"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_expected(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ToolCallError) as caught:
        bind_arguments(Tools().view, arguments)
    assert says in str(caught.value)


def test_errors_stay_short_and_encodable() -> None:
    with pytest.raises(ToolCallError) as caught:
        bind_arguments(Tools().view, {"path": ["\ud800" * 10**6], "x" * 10**6: 1})
    assert len(str(caught.value).encode()) < 1000


def no_docstring(self: Any, x: int) -> str:
    return str(x)


def no_hint(self, x) -> str:  # type: ignore[no-untyped-def]
    """Does."""
    return str(x)


def variadic(self: Any, *xs: int) -> str:
    """Does."""
    return str(xs)


def positional(self: Any, x: int, /) -> str:
    """Does."""
    return str(x)


def misspelt(self: Any, path: str) -> str:
    """Does.

    Args:
        pth: where.
    """
    return path


def without_self(path: str) -> str:
    """Does."""
    return path


def of_class(cls: Any, path: str) -> str:
    """Does."""
    return path


async def coroutine(self: Any) -> str:
    """Does."""
    return ""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_docstring, "has no docstring"),
        (no_hint, "x has no type"),
        (variadic, "cannot be filled by name"),
        (positional, "cannot be filled by name"),
        (misspelt, "documents 'pth', which is not a parameter. Parameters: path"),
        (coroutine, "goes on a plain method, not on coroutine, which is async"),
        (staticmethod(without_self), "not on without_self, which is a staticmethod"),
        (classmethod(of_class), "not on of_class, which is a classmethod"),
        (
            without_self,
            "without_self: the first parameter of a tool is self",
        ),  # @staticmethod above
        (of_class, "of_class: the first parameter of a tool is self"),  # @classmethod above
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(function: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says.replace("(", r"\(")):
        tool(function)


def test_the_decorator_may_be_called() -> None:
    class Called:
        @tool()
        def look(self, at: str) -> str:
            """Looks."""
            return at

    assert collect_tools(Called)["look"].signature == "look(at: string)"


def text_for_a_number(self: Any, x: int = "a") -> str:  # type: ignore[assignment]
    """Does."""
    return str(x)


def digits_for_a_number(self: Any, x: int = "3") -> str:  # type: ignore[assignment]
    """Does."""
    return str(x)


def none_for_text(self: Any, x: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
    """Does."""
    return x


def out_of_bounds(self: Any, x: Annotated[int, pydantic.Field(ge=1)] = 0) -> str:
    """Does."""
    return str(x)


def other_choice(self: Any, x: Literal["a", "b"] = "c") -> str:  # type: ignore[assignment]
    """Does."""
    return x


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (text_for_a_number, "Input should be a valid integer, got 'a'"),
        (digits_for_a_number, "Input should be a valid integer, got '3'"),
        (
            none_for_text,
            r"Input should be a valid string, got None. Write x: \.\.\. \| None = None",
        ),
        (out_of_bounds, "Input should be greater than or equal to 1, got 0"),
        (other_choice, "Input should be 'a' or 'b', got 'c'"),
    ],
)
def test_a_default_must_fit_its_hint(function: Any, says: str) -> None:
    holder = type("Holder", (), {"do": tool(function)})
    with pytest.raises(ToolDefinitionError, match=f"the default of x does not fit.*x: {says}"):
        collect_tools(holder)


def test_defaults_that_fit() -> None:
    class Fits:
        @tool
        def do(
            self,
            ratio: float = 1,
            point: Point = Point(x=1),  # noqa: B008
            names: list[str] | None = None,
            when: datetime.date = datetime.date(2020, 1, 2),
            anything: Any = "a",
            nan: float = math.nan,
        ) -> str:
            """Does."""
            return ""

    assert collect_tools(Fits)["do"].parameters["properties"]["ratio"]["default"] == 1


@dataclasses.dataclass
class Named:
    names: set[str]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("a", "a"),
        (None, "ok"),
        ([1, {"é": None}], '[1, {"é": null}]'),
        (Path("a/b"), '"a/b"'),
        ({"at": datetime.datetime(2020, 1, 2)}, '{"at": "2020-01-02 00:00:00"}'),
        (Point(x=1), '{"x": 1, "y": 0}'),
        (Named({"b", "c", "a"}), '{"names": ["a", "b", "c"]}'),
        ({frozenset("ba"), frozenset("c")}, '[["a", "b"], ["c"]]'),
        ([np.int64(3), np.float32(0.5), np.bool_(True)], "[3, 0.5, true]"),
        (np.eye(2), "[[1.0, 0.0], [0.0, 1.0]]"),
    ],
)
def test_answers_as_the_agent_reads_them(answer: Any, text: str) -> None:
    assert write_answer(answer) == text


def test_what_is_printed_with_its_address_is_no_answer() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for odd in (object(), [object()], {"f": len}, Named({object()}), {(1, 2): 3}):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            write_answer(odd)
    with pytest.raises(ValueError, match="Circular"):
        write_answer(itself)


def test_hints_that_have_no_schema_are_refused() -> None:
    class Odd:
        @tool
        def socket(self, x: memoryview) -> str:
            """Does."""
            return ""

    class Unresolved:
        @tool
        def thing(self, x: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
            """Does."""
            return ""

    with pytest.raises(ToolDefinitionError, match=r"Odd\.socket has no JSON schema"):
        collect_tools(Odd)
    with pytest.raises(ToolDefinitionError, match="'Nowhere' cannot be resolved"):
        collect_tools(Unresolved)
