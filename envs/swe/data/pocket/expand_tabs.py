"""Convert between tabs and runs of spaces."""


def expand_tabs(line: str, size: int = 8) -> str:
    """Replace each tab by spaces up to the next tab stop."""
    if size < 1:
        raise ValueError("tab size must be positive")
    result, column = "", 0
    for char in line:
        if char == "\t":
            fill = size - column % size
            result += " " * fill
            column += fill
        elif char == "\n":
            result += char
            column = 0
        else:
            result = result + char
            column += 1
    return result


def tab_indent(line: str, size: int = 8) -> str:
    """Write the leading blanks of line with as few characters."""
    body = line.lstrip(" \t")
    lead = line[:len(line) - len(body)]
    blanks = len(expand_tabs(lead, size))
    tabs, rest = divmod(blanks, size)
    return "\t" * tabs + " " * rest + body
