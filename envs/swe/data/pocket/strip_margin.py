"""Remove the left margin from indented multi-line strings."""


def strip_margin(text: str, marker: str = "|") -> str:
    """Cut each line after its marker; unmarked lines stay."""
    cleaned = []
    for line in text.split("\n"):
        body = line.lstrip(" \t")
        if body.startswith(marker):
            cleaned.append(body[len(marker):])
        else:
            cleaned.append(line)
    if cleaned[0].strip() == "":
        cleaned = cleaned[1:]
    if cleaned and not cleaned[-1].strip():
        cleaned = cleaned[:-1]
    return "\n".join(cleaned)


def common_indent(text: str) -> int:
    """Count the spaces that all non-blank lines begin with."""
    smallest = None
    for row in text.split("\n"):
        stripped = row.lstrip(" ")
        if stripped == "":
            continue
        indent = len(row) - len(stripped)
        if smallest is None or indent < smallest:
            smallest = indent
    return smallest or 0
