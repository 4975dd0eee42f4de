# ruff: noqa: D102 (ToolEnv describes what each method is for)
"""A tool environment that is not about code: find a record in a small SQLite database."""

import json
import sqlite3
from typing import Any, Literal

import agentic_gym
from agentic_gym.evaluation import evaluate
from agentic_gym.tools import format_action


class FindCity(agentic_gym.ToolEnv):
    """Fifty people in a table; the task asks where one of them lives."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")

    def start(self, options: dict[str, Any]) -> str:
        cities = self.np_random.choice(["Oslo", "Lima", "Pune"], 50).tolist()
        self.db.executescript("drop table if exists people; create table people (name, city)")
        rows = [(f"P{number}", city) for number, city in enumerate(cities)]
        self.db.executemany("insert into people values (?, ?)", rows)
        name, self.city = rows[self.np_random.integers(50)]
        self.answered = ""
        return f"In which city does {name} live?"

    @agentic_gym.tool
    def columns(self) -> list[Any]:
        """Lists the columns of the table."""
        return [row[1] for row in self.db.execute("pragma table_info(people)")]

    @agentic_gym.tool
    def find(self, column: Literal["name", "city"], value: str) -> list[Any]:
        """Lists the first five rows with that value in that column."""
        query = f"select * from people where {column} = ? limit 5"
        return self.db.execute(query, [value]).fetchall()

    @agentic_gym.tool
    def answer(self, city: str) -> None:
        """Answers the question, which ends the episode."""
        self.answered = city
        self.finish()

    def reward(self) -> float:
        return float(self.answered == self.city)

    def close(self) -> None:
        self.db.close()


agentic_gym.register("examples/find-city-v0", FindCity, max_turns=8)


def scripted(observation: str, info: dict[str, Any]) -> str:
    """Looks the person up, then answers."""
    if observation.startswith("In which"):
        return format_action([("find", {"column": "name", "value": observation.split()[4]})])
    return format_action([("answer", {"city": json.loads(observation)[0][1]})])


if __name__ == "__main__":
    agentic_gym.check_env("examples/find-city-v0")
    print(evaluate("examples/find-city-v0", scripted, episodes=100, progress=False).render())
