"""What a function uses from outside of itself."""

from gradwright.ground.outside import named_outside

GLOBAL = 2


class Bound:
    def method(self, x):
        return GLOBAL * x


def test_globals_and_closed_over_variables_are_found():
    inner = 3
    assert named_outside(lambda x: GLOBAL * inner * x) == {"GLOBAL": 2, "inner": 3}
    assert named_outside(Bound().method) == {"GLOBAL": 2}


def test_a_variable_without_a_value_is_left_out():
    def uses(x):
        return later * x

    assert named_outside(uses) == {}
    later = 1
    assert named_outside(uses) == {"later": later}


def test_what_has_no_code_names_nothing():
    assert named_outside(len) == {}
