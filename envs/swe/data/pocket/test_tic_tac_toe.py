import pytest
from tic_tac_toe import moves, play, winner, winning_move


def test_rows():
    assert winner("XXXOO....") == "X"
    assert winner("XX.OOOX..") == "O"
    assert winner("OO.X.OXXX") == "X"


def test_columns():
    assert winner("XO.XO.X..") == "X"
    assert winner("XO.XO..OX") == "O"
    assert winner("..XO.XO.X") == "X"


def test_diagonals():
    assert winner("XO..XO..X") == "X"
    assert winner("XXO.O.O.X") == "O"


def test_no_winner():
    assert winner(".........") == ""
    assert winner("XX.OO....") == ""
    assert winner("XOXXOOOXX") == ""


def test_line_does_not_wrap():
    assert winner("..XXXO.O.") == ""
    assert winner("XX.X.OO..") == ""
    assert winner(".XXX.....") == ""


def test_board_size():
    for board in ("", "XO......", ".........."):
        with pytest.raises(ValueError):
            winner(board)


def test_moves():
    assert moves(".........") == list(range(9))
    assert moves("XOX.O.X.O") == [3, 5, 7]
    assert moves("XOXXOOOXX") == []


def test_moves_after_a_win():
    assert moves("XXXOO....") == []


def test_play():
    assert play(".........", 4) == "....X...."
    assert play("....X....", 0) == "O...X...."
    assert play("O...X....", 8) == "O...X...X"


def test_play_refuses():
    for cell in (0, 9, -1):
        with pytest.raises(ValueError):
            play("X........", cell)
    with pytest.raises(ValueError):
        play("XXXOO....", 5)


def test_winning_move():
    assert winning_move("XX.OO....") == 2
    assert winning_move("XX.OO...X") == 5
    assert winning_move("X........") == -1


def test_winning_move_is_the_first():
    assert winning_move("OO.XX..X.") == 2
    assert winning_move("OXXO.X...") == 6
    assert winning_move(".XXXO.XOO") == 0
