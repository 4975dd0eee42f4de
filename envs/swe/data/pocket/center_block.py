"""Centre a block of lines inside a wider frame."""


def center_line(line: str, width: int, fill: str = " ") -> str:
    """Centre one line; an odd space goes to the right."""
    room = width - len(line)
    if room <= 0:
        return line
    left = room // 2
    return fill * left + line + fill * (room - left)


def center_block(lines: list, width: int, together: bool = True) -> list:
    """Centre lines as one left-aligned block, or each by itself."""
    centred = []
    if not together:
        for line in lines:
            centred.append(center_line(line.strip(), width))
        return centred
    widest = 0
    for entry in lines:
        widest = max(widest, len(entry))
    margin = " " * max(0, (width - widest) // 2)
    for text in lines:
        shifted = margin + text
        centred.append(shifted.ljust(width))
    return centred
