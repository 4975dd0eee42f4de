"""Binomial coefficients and numbers built from them."""


def binomial(total: int, chosen: int) -> int:
    """Ways to choose that many items out of total."""
    if total < 0:
        raise ValueError("total must not be negative")
    if chosen < 0:
        return 0
    ways = 1
    for step in range(1, chosen + 1):
        ways = ways * (total - chosen + step) // step
    return ways


def pascal_row(size: int) -> list:
    """Row of Pascal's triangle that holds size + 1 numbers."""
    row = [1]
    for _ in range(size):
        longer = [1]
        for left, right in zip(row, row[1:]):
            longer.append(left + right)
        row = longer + [1]
    return row


def catalan(order: int) -> int:
    """Ways to nest order pairs of brackets correctly."""
    middle = binomial(2 * order, order)
    return middle - binomial(2 * order, order + 1)
