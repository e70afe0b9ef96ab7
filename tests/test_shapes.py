"""The annotations of arrays are checked in this test run, and cost nothing outside it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from inverseq import equations
from inverseq.errors import InvalidInput
from inverseq.task import Constraint, Task
from inverseq.transitions import Transitions, never_ending


def test_a_mask_for_another_number_of_actions_is_refused():
    with pytest.raises(TypeCheckError, match=r"bool\[3\]"):
        equations.value(np.zeros(2), np.ones(3, bool))


def test_a_mask_for_another_number_of_states_is_refused():
    with pytest.raises(TypeCheckError, match=r"bool\[5,2\]"):
        equations.closed_form_reward(np.zeros((4, 2)), np.ones((5, 2), bool))


def test_numbers_are_no_mask():
    with pytest.raises(TypeCheckError, match="safe"):
        equations.log_boltzmann(np.zeros(2), np.ones(2))


def test_methods_of_the_nouns_are_checked():
    task = Task(2, 0.9, transitions=np.full((3, 2, 3), 1 / 3))
    assert isinstance(task.transitions, Transitions)
    with pytest.raises(TypeCheckError, match=r"f64\[3,1\]"):
        task.transitions.expect(np.zeros((3, 1)))
    with pytest.raises(TypeCheckError, match="available"):
        never_ending(task.transitions, np.ones((3, 2)))


def test_what_is_no_array_is_left_to_the_library():
    assert Constraint([[0, 1]], 0).cost.shape == (1, 2)
    with pytest.raises(InvalidInput, match=r"n_actions.*2\.5"):
        Task(2.5, 0.9)


def test_the_package_needs_neither_jaxtyping_nor_beartype():
    program = """if True:
        import json, sys
        import inverseq
        from inverseq import equations, shapes, task
        import numpy as np
        equations.value(np.zeros(2), np.ones(2, bool))
        print(json.dumps([name for name in ("jaxtyping", "beartype") if name in sys.modules]))
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == []
