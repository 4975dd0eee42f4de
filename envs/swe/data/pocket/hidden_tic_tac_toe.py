import pytest
from tic_tac_toe import moves, play, winner, winning_move


def test_all_eight_lines():
    lines = ["012", "345", "678", "036", "147", "258", "048", "246"]
    for line in lines:
        for mark in "XO":
            cells = [mark if str(n) in line else "." for n in range(9)]
            assert winner("".join(cells)) == mark


def test_almost_lines():
    assert winner("X.X.O.X.O") == ""
    assert winner(".X.X.X.X.") == ""
    assert winner("O..O.....") == ""


def test_wrong_boards():
    with pytest.raises(ValueError):
        moves("XO")
    with pytest.raises(ValueError):
        play("." * 12, 3)


def test_free_cells():
    assert moves("XO.......") == [2, 3, 4, 5, 6, 7, 8]
    assert moves("........X") == [0, 1, 2, 3, 4, 5, 6, 7]
    assert moves("O..O..O..") == []


def test_whole_game():
    board = "." * 9
    for cell in (0, 4, 8, 2, 6, 3):
        board = play(board, cell)
    assert board == "X.OOO.X.X"
    assert winning_move(board) == 7
    assert winner(play(board, 7)) == "X"


def test_cells_that_cannot_be_played():
    with pytest.raises(ValueError):
        play("....X....", 4)
    with pytest.raises(ValueError):
        play(".........", 9)
    with pytest.raises(ValueError):
        play("O..O..O..", 1)


def test_win_for_the_mover_only():
    assert winning_move("XX.O.....") == -1
    assert winning_move("XX..O...O") == 2
    assert winning_move("OO.XX.X..") == 2


def test_full_board_has_no_move():
    assert winning_move("XOXXOOOXX") == -1
    assert winning_move("XOXXOOOX.") == -1
    assert winning_move(".........") == -1
