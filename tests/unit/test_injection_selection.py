from collections import Counter

from agentic_gym.envs.swe.injection import Mutation
from agentic_gym.envs.swe.injection.selection import (
    Balance,
    held_out_modules,
    split_lines,
    stable_hash,
)


def mutation(operator: str, line: int, after: str = "") -> Mutation:
    return Mutation(f"{operator}{line}{after}", operator, line, "", after)


def test_the_hash_is_the_same_everywhere() -> None:
    assert stable_hash("roman", 1) == 0x71A1B723EC658F89
    assert stable_hash("a", "bc") != stable_hash("ab", "c")


def test_operators_and_lines_take_turns() -> None:
    mutations = [mutation(op, line) for op in ("a", "b", "c") for line in range(4)]
    balance = Balance("m", mutations)
    taken: list[Mutation] = []
    while len(taken) < 4 and (chosen := balance.next()) is not None:
        balance.accept(chosen)
        taken.append(chosen)
    assert sorted(Counter(m.operator for m in taken).values()) == [1, 1, 2]
    assert len({m.line for m in taken}) == 4


def test_every_mutation_is_offered_once_whatever_its_order() -> None:
    mutations = [mutation(op, line, text) for op in "ab" for line in range(3) for text in "xy"]
    orders = []
    for given in (mutations, mutations[::-1]):
        balance = Balance("m", given)
        orders.append(list(iter(balance.next, None)))
    assert orders[0] == orders[1]
    assert sorted(orders[0], key=str) == sorted(mutations, key=str)


def test_an_operator_whose_bugs_are_refused_is_offered_again() -> None:
    balance = Balance("m", [mutation("a", 1), mutation("a", 2), mutation("b", 1), mutation("b", 2)])
    first = balance.next()
    second = balance.next()
    assert first is not None
    assert second is not None
    balance.accept(second)
    third = balance.next()
    assert third is not None
    assert third.operator == first.operator


def test_lines_go_to_one_split_in_about_the_wanted_share() -> None:
    bugs = {f"line {i}": 1 + i % 3 for i in range(40)}
    split = split_lines("m", bugs, {"held": 0.2, "dev": 0.1})
    assert set(split) == set(bugs)
    total = sum(bugs.values())
    for name, share in (("held", 0.2), ("dev", 0.1)):
        got = sum(count for text, count in bugs.items() if split[text] == name)
        assert abs(got - share * total) <= 1.5
    assert split == split_lines("m", dict(reversed(bugs.items())), {"held": 0.2, "dev": 0.1})


def test_a_module_with_one_line_of_bugs_stays_in_train() -> None:
    assert split_lines("m", {"x": 9}, {"held": 0.2}) == {"x": "train"}


def test_held_out_modules_do_not_depend_on_the_order() -> None:
    names = [f"module{i}" for i in range(30)]
    assert held_out_modules(names, 5) == held_out_modules(names[::-1], 5)
    assert len(held_out_modules(names, 5)) == 5
