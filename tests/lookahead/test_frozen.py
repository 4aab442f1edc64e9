"""What compiled code takes from other files is written down in its own, whose changes are noticed.

Numba keeps compiled functions as long as their own file stays as it is. Numbers and fields that
come from elsewhere are compiled in: an upgrade that changed them only there would run the old ones.
"""

import re
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

import lookahead
from lookahead import (
    agreement,
    beliefs,
    bystanding,
    candidates,
    collecting,
    draft,
    evidence,
    foresight,
    growing,
    growth,
    layout,
    merging,
    noise,
    ranking,
    searching,
    successors,
    token_log,
)

pytestmark = pytest.mark.tiny

FROZEN = (
    growth.NODE.descr,
    growth.BRANCH.descr,
    growth.SAID.descr,
    (growth.NUM_NODES, growth.NUM_BRANCHES, growth.NUM_SAID, growth.NUM_TURNS),
    growth.NUM_WAITING,
    growth.Known._fields,
    growth.Bounds._fields,
    growth.Growth._fields,
    beliefs.Beliefs._fields,
    foresight.Noise._fields,
    (noise.GOLDEN, noise.ROUNDS, noise.UNIT),
    successors.SuccessorRows._fields,
    evidence.Evidence._fields,
    candidates.Candidates._fields,
    candidates.MAX_PLACES,
    (searching.LOW, searching.COUNT, searching.NUM_LISTED, searching.WEIGHT),
    token_log.BORDER,
    (agreement.OWN, agreement.HISTORY, agreement.PAIR, agreement.TOKEN, agreement.RECENT),
    sorted((source.name, code) for source, code in draft.SOURCE_CODES.items()),
)


TAKING = [collecting, evidence, growing, layout, merging]
COMPILED = [*TAKING, bystanding, ranking, searching]


@pytest.mark.parametrize("module", TAKING, ids=lambda module: module.__name__)
def test_what_is_compiled_in_is_what_the_file_says(module: ModuleType) -> None:
    found = zlib.crc32(repr(FROZEN).encode())
    assert found == module.FROZEN, f"write FROZEN = {found:#010x} into {module.__file__}"


def test_no_compiled_function_calls_one_of_another_file() -> None:
    """It would be called as it was before the other file changed."""
    assert lookahead.__file__
    files = Path(lookahead.__file__).parent.rglob("*.py")
    with_numba = {path for path in files if "from numba import" in path.read_text("utf-8")}
    assert {Path(str(module.__file__)) for module in COMPILED} == with_numba
    for module in COMPILED:
        called = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
        assert {function.__module__ for function in called} == {module.__name__}
    for module in set(COMPILED) - set(TAKING):  # a type is compiled from what it stands for
        taken = re.findall(r"from lookahead\S* import (.*)", Path(str(module.__file__)).read_text())
        assert set(taken) <= {"IntArray"}, module.__file__
