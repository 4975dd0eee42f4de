"""Flood fill and region counting on a grid of characters."""


def region(grid, row: int, col: int) -> set:
    """Cells joined to (row, col) sideways by the same value."""
    wanted = grid[row][col]
    seen, stack = set(), [(row, col)]
    while stack:
        y, x = stack.pop()
        if y < 0 or y >= len(grid) or x < 0 or x >= len(grid[y]):
            continue
        if (y, x) in seen or grid[y][x] != wanted:
            continue  # seen before, or another value
        seen.add((y, x))
        stack.extend([(y + 1, x), (y - 1, x)])
        stack.extend([(y, x + 1), (y, x - 1)])
    return seen


def grid_flood(grid, row: int, col: int, paint: str) -> list:
    """Copy of the rows with one region painted over."""
    painted = [list(line) for line in grid]
    for i, j in region(grid, row, col):
        painted[i][j] = paint
    return ["".join(line) for line in painted]


def region_sizes(grid, value: str = "#") -> list:
    """Sizes of all regions of value, the largest first."""
    sizes, done = [], set()
    for r, line in enumerate(grid):
        for c, cell in enumerate(line):
            if cell == value and (r, c) not in done:
                cells = region(grid, r, c)
                done.update(cells)
                sizes.append(len(cells))
    return sorted(sizes, reverse=True)
