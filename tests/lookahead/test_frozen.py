"""What compiled code takes from other files is written down in its own, whose changes are noticed.

Numba keeps compiled functions as long as their own file stays as it is. Numbers and fields that
come from elsewhere are compiled in: an upgrade that changed them only there would run the old ones.
"""

import zlib
from types import ModuleType

import pytest

from lookahead import (
    agreement,
    beliefs,
    candidates,
    draft,
    evidence,
    growing,
    growth,
    layout,
    successors,
)
from lookahead import foresight as noise

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
    noise.Noise._fields,
    successors.SuccessorRows._fields,
    evidence.Evidence._fields,
    candidates.Candidates._fields,
    candidates.MAX_PLACES,
    (agreement.OWN, agreement.HISTORY, agreement.PAIR, agreement.TOKEN, agreement.RECENT),
    sorted((source.name, code) for source, code in draft.SOURCE_CODES.items()),
)


@pytest.mark.parametrize("module", [evidence, growing, layout], ids=lambda module: module.__name__)
def test_what_is_compiled_in_is_what_the_file_says(module: ModuleType) -> None:
    found = zlib.crc32(repr(FROZEN).encode())
    assert found == module.FROZEN, f"write FROZEN = {found:#010x} into {module.__file__}"
