"""A tool environment that is not about code: find a person in a small SQLite database."""

import sqlite3
from typing import Any

import agentic_gym
from agentic_gym.evaluation import evaluate
from agentic_gym.tools import format_action


class FindCity(agentic_gym.ToolEnv):
    def start(self, options: dict[str, Any]) -> str:
        cities = self.np_random.choice(["Oslo", "Lima", "Pune"], 50).tolist()
        people = [(f"P{number}", city) for number, city in enumerate(cities)]
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table people (name, city)")
        self.db.executemany("insert into people values (?, ?)", people)
        name, self.city = people[self.np_random.integers(50)]
        self.correct = False
        return f"In which city does {name} live?"

    @agentic_gym.tool
    def columns(self) -> list[str]:
        """Lists the columns of the table."""
        return [row[1] for row in self.db.execute("pragma table_info(people)")]

    @agentic_gym.tool
    def find(self, name: str) -> list[list[str]]:
        """Lists name and city of everybody of that name."""
        return [[*row] for row in self.db.execute("select * from people where name = ?", [name])]

    @agentic_gym.tool
    def answer(self, city: str) -> None:
        """Answers the question, which ends the episode."""
        self.correct = city == self.city
        self.finish()

    def reward(self) -> float:
        return float(self.correct)


agentic_gym.register("examples/find-city-v0", FindCity, max_turns=8)


def scripted(observation: str, info: dict[str, Any]) -> str:
    if observation.startswith("In which city"):
        return format_action([("find", {"name": observation.split()[4]})])
    return format_action([("answer", {"city": observation.split('"')[3]})])


if __name__ == "__main__":
    agentic_gym.check_env("examples/find-city-v0")
    print(evaluate("examples/find-city-v0", scripted, episodes=100, progress=False).render())
