"""Reading and writing one line of comma-separated values."""


def parse_line(line: str, comma: str = ",") -> list:
    """Split line at commas that are outside double quotes."""
    fields, field = [], ""
    quoted = False
    index = 0
    while index < len(line):
        char = line[index]
        if quoted and line[index:index + 2] == '""':
            field += char
            index += 1
        elif char == '"':
            if not quoted and field != "":
                raise ValueError("quote inside a plain field")
            quoted = not quoted
        elif char == comma and not quoted:
            fields.append(field)
            field = ""
        else:
            field += line[index]
        index += 1  # to the next character
    if quoted:
        raise EOFError("the last quote is missing")
    return fields + [field]


def build_line(fields, comma: str = ",") -> str:
    """Join fields, quoting those that need it."""
    parts = []
    for field in fields:
        text = str(field)
        if comma in text or '"' in text:
            text = '"' + text.replace('"', '""') + '"'
        parts.append(text)
    return comma.join(parts)
