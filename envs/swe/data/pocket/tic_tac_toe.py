"""Noughts and crosses on a board of nine characters."""


def winner(board: str) -> str:
    """The mark with three in a line, or an empty string."""
    if len(board) != 9:
        raise ValueError("the board must have nine cells")
    lines = [board[0::4], board[2:7:2]]
    for n in range(3):
        lines.append(board[3 * n:3 * n + 3])
        lines.append(board[n::3])
    for mark in ("X", "O"):
        if mark * 3 in lines:
            return mark
    return ""


def moves(board: str) -> list:
    """Free cells, or none when the game has been won."""
    if winner(board) != "":
        return []
    return [cell for cell in range(9) if board[cell] == "."]


def play(board: str, cell: int) -> str:
    """The board after the player to move marks cell."""
    if cell not in moves(board):
        raise ValueError("that cell cannot be played")
    mark = "O" if board.count("X") > board.count("O") else "X"
    return board[:cell] + mark + board[cell + 1:]


def winning_move(board: str) -> int:
    """First cell that wins at once, or -1."""
    for cell in moves(board):
        if winner(play(board, cell)):
            return cell
    return -1
