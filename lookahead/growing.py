"""Growing: a draft tree takes its likeliest branch, again and again; compiled.

At each node the evidence takes turns: places that agree with the path, longest match first; the
successors of its last two tokens; those of its last one; and near the root the tokens that the
model lately nearly chose. Each takes its calibrated share of what those before it left, and a token
that several name gets it from each; then agreement and the noise to come have the last word. Arrays
of numbers only; knows no stores. Called by the drafter, which says what is known.
"""

import math

import numpy as np
from numba import njit

from lookahead.agreement import HISTORY, OWN, PAIR, RECENT, TOKEN
from lookahead.beliefs import Beliefs
from lookahead.candidates import IntArray
from lookahead.evidence import Evidence
from lookahead.foresight import Noise
from lookahead.growth import (
    BRANCH,
    NODE,
    NUM_BRANCHES,
    NUM_NODES,
    NUM_SAID,
    NUM_TURNS,
    NUM_WAITING,
    SAID,
    Bounds,
    FloatArray,
    Growth,
    Known,
    Records,
)
from lookahead.noise import GOLDEN, ROUNDS, UNIT

__all__ = ["grow"]

FROZEN = 0xE947D882  # what is compiled in from other files: see tests/lookahead/test_frozen.py
_MOST = 0.95  # of what is left, taken by one row: the token may be in none
_SPREAD = 2_654_435_769  # spreads token ids over slots (Knuth: multiplicative hashing)


@njit(cache=True)
def grow(root_id: int, known: Known, beliefs: Beliefs, bounds: Bounds, noise: Noise) -> Growth:
    """Take the likeliest branch into the tree until it is full or none is left."""
    tree = _planted(root_id, known, beliefs, bounds, len(noise.bystander_ids))
    for node in range(bounds.max_width - 1):
        if tree.nodes[node].depth < bounds.max_depth:
            _expand(tree, node, known, beliefs, bounds)
            _await(tree, node, beliefs, bounds, noise)
        if tree.counts[NUM_WAITING] == 0:
            break
        _add_node(tree, _likeliest(tree))
    return tree


@njit(cache=True)
def _planted(
    root_id: int, known: Known, beliefs: Beliefs, bounds: Bounds, num_bystanders: int
) -> Growth:
    """The root alone, with room for all that can grow from it."""
    num_places = len(known.evidence.positions)
    row_length = known.successors.top_ids.shape[1]
    num_in_rows = 2 * row_length + len(known.recent_ids)
    most = 1 + num_places * bounds.max_depth
    most += (num_in_rows + num_bystanders) * bounds.max_width
    num_slots = 64
    while num_slots < 2 * (num_places + num_in_rows):
        num_slots *= 2
    tree = Growth(
        np.zeros(5, np.int64),
        np.empty(bounds.max_width, NODE),
        np.empty(most, BRANCH),
        np.empty(most, SAID),
        np.empty(bounds.max_width * (2 * beliefs.match_cells.shape[1] + 3), np.int64),
        np.arange(1, num_places + 1),
        np.empty(most, np.int64),
        np.full(num_slots, -1, np.int64),
        np.full((bounds.max_depth, num_bystanders), -1.0),
    )
    root = _add_branch(tree, root_id, -1)
    tree.branches[root].probability = 1.0
    if num_places:
        tree.branches[root].first_place = 0
        tree.next_places[num_places - 1] = -1
    _add_node(tree, root)
    return tree


@njit(cache=True)
def _add_node(tree: Growth, branch: int) -> None:
    """Make a branch a node."""
    number = tree.counts[NUM_NODES]
    tree.counts[NUM_NODES] += 1
    parent = tree.branches[branch].parent
    node = tree.nodes[number]
    node.branch = branch
    node.depth = 0 if parent < 0 else tree.nodes[parent].depth + 1
    node.first_branch = node.end_branch = tree.counts[NUM_BRANCHES]
    node.first_turn = node.end_turn = tree.counts[NUM_TURNS]


@njit(cache=True)
def _add_branch(tree: Growth, token_id: int, parent: int) -> int:
    number = int(tree.counts[NUM_BRANCHES])
    tree.counts[NUM_BRANCHES] += 1
    branch = tree.branches[number]
    branch.token_id = token_id
    branch.parent = parent
    branch.share = branch.probability = 0.0
    branch.kinds = 0
    branch.first_place = branch.last_place = branch.latest_said = -1
    return number


@njit(cache=True)
def _slot(tree: Growth, node: int, token_id: int) -> int:
    """Where a node's branch with this token is, or should be.

    A slot that holds another node's branch is free: all of that one's were there before.
    """
    first = tree.nodes[node].first_branch
    mask = len(tree.slots) - 1
    slot = (token_id * _SPREAD >> 16) & mask
    while tree.slots[slot] >= first and tree.branches[tree.slots[slot]].token_id != token_id:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _find(tree: Growth, node: int, token_id: int) -> int:
    """The branch of a node with this token; -1: there is none."""
    branch = int(tree.slots[_slot(tree, node, token_id)])
    return branch if branch >= tree.nodes[node].first_branch else -1


@njit(cache=True)
def _branch(tree: Growth, node: int, token_id: int) -> int:
    """The branch of a node with this token, made where there is none."""
    slot = _slot(tree, node, token_id)
    if tree.slots[slot] < tree.nodes[node].first_branch:
        tree.slots[slot] = _add_branch(tree, token_id, node)
    return int(tree.slots[slot])


@njit(cache=True)
def _expand(tree: Growth, node: int, known: Known, beliefs: Beliefs, bounds: Bounds) -> None:
    """Let all kinds of evidence say what may follow at a node."""
    one = tree.nodes[node]
    one.first_branch = tree.counts[NUM_BRANCHES]
    one.first_turn = tree.counts[NUM_TURNS]
    left, longest = _hear_places(tree, node, known.evidence, beliefs)
    if known.has_rows and left * tree.branches[one.branch].probability >= bounds.min_probability:
        _hear_rows(tree, node, left, longest, known, beliefs)
    one.end_branch = tree.counts[NUM_BRANCHES]
    one.end_turn = tree.counts[NUM_TURNS]


@njit(cache=True)
def _hear_places(
    tree: Growth, node: int, evidence: Evidence, beliefs: Beliefs
) -> tuple[float, int]:
    """Let the places speak that agree with the path, level by level, and send each on its way.

    Returns:
        what they left of the whole, and the length of the longest match that goes on.
    """
    depth = tree.nodes[node].depth
    place = tree.branches[tree.nodes[node].branch].first_place
    left, longest = 1.0, 0
    while place >= 0:
        match_length, is_own = evidence.match_lengths[place], evidence.is_own[place]
        begin = tree.counts[NUM_SAID]
        num_seen = 0
        while (
            place >= 0
            and evidence.match_lengths[place] == match_length
            and evidence.is_own[place] == is_own
        ):
            following = tree.next_places[place]
            token_id = int(evidence.windows[place, depth])
            if token_id >= 0:
                _see(tree, node, token_id, place, begin)
                num_seen += 1
            place = following
        if num_seen == 0:
            continue
        length = match_length + depth
        if longest == 0:
            longest = length
        num_distinct = tree.counts[NUM_SAID] - begin
        cell = _match_cell(beliefs, is_own, length, num_seen, num_distinct)
        kind = OWN if is_own else HISTORY
        taken = left * beliefs.shares[cell]
        each = taken / num_seen
        for number in range(begin, tree.counts[NUM_SAID]):
            _give(tree, number, each * tree.said[number].share, cell, kind)
        _end_turn(tree)
        left -= taken
    return left, longest


@njit(cache=True)
def _see(tree: Growth, node: int, token_id: int, place: int, begin: int) -> None:
    """Count a place for the token it goes on with, in what was said from `begin` on."""
    number = _branch(tree, node, token_id)
    branch = tree.branches[number]
    if branch.latest_said < begin:
        branch.latest_said = _say(tree, number)
    tree.said[branch.latest_said].share += 1.0
    tree.next_places[place] = -1
    if branch.last_place < 0:
        branch.first_place = place
    else:
        tree.next_places[branch.last_place] = place
    branch.last_place = place


@njit(cache=True)
def _match_cell(
    beliefs: Beliefs, is_own: bool, length: int, num_seen: int, num_distinct: int
) -> int:
    _, num_lengths, num_counts, num_kinds = beliefs.match_cells.shape
    length = min(length, num_lengths - 1)
    num_seen = min(num_seen, num_counts - 1)
    num_distinct = min(num_distinct, num_kinds - 1)
    return int(beliefs.match_cells[int(is_own), length, num_seen, num_distinct])


@njit(cache=True)
def _hear_rows(
    tree: Growth, node: int, left: float, longest: int, known: Known, beliefs: Beliefs
) -> None:
    """Let the rows of likely tokens speak."""
    one = tree.branches[tree.nodes[node].branch]
    token_id = one.token_id
    previous_id = known.previous_id
    if one.parent >= 0:
        previous_id = tree.branches[tree.nodes[one.parent].branch].token_id
    rows = known.successors
    has_pair = False
    pair = (previous_id << 32) | token_id
    slot = (previous_id * rows.pair_factor + token_id) % len(rows.pairs)
    if previous_id >= 0 and rows.pairs[slot] == pair and rows.pair_top_ids[slot, 0] >= 0:
        has_pair = True
        cell = beliefs.pair_cells[min(longest, 2)]
        left = _hear_row(tree, node, rows.pair_top_ids[slot], cell, left, int(PAIR), known, beliefs)
    if 0 <= token_id < len(rows.top_ids) and rows.top_ids[token_id, 0] >= 0:
        cell = beliefs.token_cells[int(longest > 0), int(has_pair)]
        left = _hear_row(tree, node, rows.top_ids[token_id], cell, left, int(TOKEN), known, beliefs)
    depth = tree.nodes[node].depth
    if depth < len(beliefs.recent_cells) and known.recent_ids[0] >= 0:
        cell = beliefs.recent_cells[depth]
        _hear_row(tree, node, known.recent_ids, cell, left, int(RECENT), known, beliefs)


@njit(cache=True)
def _hear_row(
    tree: Growth,
    node: int,
    row: IntArray,
    first_cell: int,
    left: float,
    kind: int,
    known: Known,
    beliefs: Beliefs,
) -> float:
    """Let a row of tokens speak, likeliest first, up to the first -1; what it leaves."""
    begin = tree.counts[NUM_SAID]
    total = 0.0
    for rank in range(len(row)):
        token_id = int(row[rank])
        if token_id < 0:
            break
        cell = first_cell + rank
        if token_id < len(known.occurs) and known.occurs[token_id]:
            cell += len(row)
        number = _say(tree, _branch(tree, node, token_id))
        tree.said[number].cell = cell
        total += beliefs.shares[cell]
    scale = left if total <= _MOST else left * _MOST / total
    for number in range(begin, tree.counts[NUM_SAID]):
        cell = tree.said[number].cell
        _give(tree, number, scale * beliefs.shares[cell], cell, kind)
    _end_turn(tree)
    return left - scale * total


@njit(cache=True)
def _say(tree: Growth, branch: int) -> int:
    number = int(tree.counts[NUM_SAID])
    tree.counts[NUM_SAID] += 1
    tree.said[number].branch = branch
    tree.said[number].share = 0.0
    return number


@njit(cache=True)
def _give(tree: Growth, number: int, share: float, cell: int, kind: int) -> None:
    """Complete what was said, and give the branch its share."""
    said = tree.said[number]
    said.share = share
    said.cell = cell
    branch = tree.branches[said.branch]
    branch.share += share
    branch.kinds |= kind


@njit(cache=True)
def _end_turn(tree: Growth) -> None:
    tree.turn_ends[tree.counts[NUM_TURNS]] = tree.counts[NUM_SAID]
    tree.counts[NUM_TURNS] += 1


@njit(cache=True)
def _await(tree: Growth, node: int, beliefs: Beliefs, bounds: Bounds, noise: Noise) -> None:
    """Have the branches of a node wait that are worth a row."""
    one = tree.nodes[node]
    branches = tree.branches[one.first_branch : one.end_branch]
    probability = tree.branches[one.branch].probability
    floor = bounds.min_probability / probability
    _weigh(branches, beliefs)
    if len(noise.keys):
        _foresee(tree, node, floor, noise)
    for number in range(one.first_branch, tree.counts[NUM_BRANCHES]):
        branch = tree.branches[number]
        is_worth_it = branch.probability >= floor
        branch.probability *= probability
        if is_worth_it and not _is_in(bounds.excluded_ids, branch.token_id):
            _wait(tree, number)


@njit(cache=True)
def _is_in(values: IntArray, value: int) -> bool:
    for one in values:  # noqa: SIM110
        if one == value:
            return True
    return False


@njit(cache=True)
def _weigh(branches: Records, beliefs: Beliefs) -> None:
    """The last word on the branches of one node: see `Agreement`."""
    total = 0.0
    for branch in branches:
        cell = beliefs.factor_cells[branch.kinds]
        for edge in beliefs.edges:
            cell += edge <= branch.share
        branch.probability = branch.share * beliefs.factors[cell]
        total += branch.probability
    if total > beliefs.most:
        for branch in branches:
            branch.probability = branch.probability * beliefs.most / total


@njit(cache=True)
def _foresee(tree: Growth, node: int, floor: float, noise: Noise) -> None:
    """Weigh the branches of a node by their noise: see `Foresight.noise`.

    Bystanders worth a row become branches behind the node's own, of which nothing is learned.
    """
    one = tree.nodes[node]
    branches = tree.branches[one.first_branch : one.end_branch]
    key = noise.keys[one.depth]
    given = total = 0.0
    for branch in branches:
        given += branch.probability
        branch.probability *= _factor(key, branch.token_id, noise.strength)
        total += branch.probability
    left = max(0.0, 1.0 - given)
    weights = np.empty(0)
    if left >= floor:
        weights = left * _bystanders(tree, node, noise)
    rest = left
    for number in range(len(weights)):
        rest -= weights[number]
        weights[number] *= tree.bystander_factors[one.depth, number]
        total += weights[number]
    total += rest * noise.unknown
    if total > 0.0:
        for branch in branches:
            branch.probability /= total
    for number in range(len(weights)):
        if weights[number] > 0.0 and weights[number] >= floor * total:
            bystander = _add_branch(tree, noise.bystander_ids[number], node)
            tree.branches[bystander].probability = weights[number] / total


@njit(cache=True)
def _bystanders(tree: Growth, node: int, noise: Noise) -> FloatArray:
    """Weights of the bystanders, 0 where a branch of the node has the token; their noise is known.

    All nodes of one depth share the noise.
    """
    depth = tree.nodes[node].depth
    weights = noise.bystander_weights.copy()
    for number in range(len(weights)):
        token_id = noise.bystander_ids[number]
        if _find(tree, node, token_id) >= 0:
            weights[number] = 0.0
        if tree.bystander_factors[depth, number] < 0.0:
            factor = _factor(noise.keys[depth], token_id, noise.strength)
            tree.bystander_factors[depth, number] = factor
    return weights


@njit(cache=True)
def _factor(key: int, token_id: int, strength: float) -> float:
    """exp(strength * noise) of a token: see `lookahead.noise`."""
    value = np.uint64(token_id) * np.uint64(GOLDEN) + np.uint64(key)
    for shift, factor in ROUNDS:
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    value ^= value >> np.uint64(31)
    uniform = (float(value >> np.uint64(12)) + 0.5) * UNIT
    return float((-math.log(uniform)) ** -strength)


@njit(cache=True)
def _precedes(tree: Growth, one: int, other: int) -> bool:
    """Whether a branch is likelier, or as likely and was named before."""
    difference = tree.branches[one].probability - tree.branches[other].probability
    return difference > 0.0 or (difference == 0.0 and one < other)


@njit(cache=True)
def _wait(tree: Growth, branch: int) -> None:
    """Put a branch into the heap."""
    index = tree.counts[NUM_WAITING]
    tree.counts[NUM_WAITING] += 1
    while index > 0:
        above = (index - 1) >> 1
        if not _precedes(tree, branch, tree.waiting[above]):
            break
        tree.waiting[index] = tree.waiting[above]
        index = above
    tree.waiting[index] = branch


@njit(cache=True)
def _likeliest(tree: Growth) -> int:
    """Take the likeliest branch out of the heap."""
    likeliest = int(tree.waiting[0])
    count = tree.counts[NUM_WAITING] - 1
    tree.counts[NUM_WAITING] = count
    last = tree.waiting[count]
    index = 0
    while 2 * index + 1 < count:
        below = 2 * index + 1
        if below + 1 < count and _precedes(tree, tree.waiting[below + 1], tree.waiting[below]):
            below += 1
        if _precedes(tree, last, tree.waiting[below]):
            break
        tree.waiting[index] = tree.waiting[below]
        index = below
    tree.waiting[index] = last
    return likeliest
