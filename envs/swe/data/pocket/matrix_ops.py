"""Small matrices as lists of rows."""


def transpose(matrix: list) -> list:
    """Turn rows into columns."""
    flipped = []
    for column in range(len(matrix[0])):
        flipped.append([row[column] for row in matrix])
    return flipped


def multiply(left: list, right: list) -> list:
    """Matrix product of left and right."""
    if len(left[0]) != len(right):
        raise ValueError("shapes do not fit")
    product = []
    for row in left:
        line = []
        for column in transpose(right):
            line.append(sum(a * b for a, b in zip(row, column)))
        product.append(line)
    return product


def determinant(matrix: list):
    """Determinant by expansion along the first row."""
    if len(matrix) == 1:
        return matrix[0][0]
    total = 0
    sign = 1
    for place, factor in enumerate(matrix[0]):
        minor = [row[:place] + row[place + 1:] for row in matrix[1:]]
        total += sign * factor * determinant(minor)
        sign = -sign
    return total
