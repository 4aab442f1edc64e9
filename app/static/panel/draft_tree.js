// A step's draft tree, drawn from left to right: a column a depth, a row a branch, the emitted path
// first and straight. Lines are borders of grid items, so nothing is measured.
function childrenOf(nodes) {
  const children = nodes.map(() => []);
  nodes.forEach(({ parent }, i) => { if (parent >= 0) children[parent].push(i); });
  for (const list of children) list.sort((a, b) => Number(nodes[b].accepted) - Number(nodes[a].accepted) || a - b);
  return children;
}

// The model's own token hangs on the last accepted node, before what was rejected there.
function withBonus(nodes, bonus) {
  if (bonus === null) return nodes;
  const last = nodes.reduce((found, { accepted }, i) => (accepted ? i : found), 0);
  return [...nodes, { text: bonus, parent: last, source: 'model', probability: null, accepted: true, origin: null, isBonus: true }];
}

// A branch goes into the first row below its parent's where it and the line to it find room.
function layTree(nodes) {
  const children = childrenOf(nodes);
  const taken = []; // by row: column -> parent of the node there
  const isFree = (row, column, parent) => (taken[row]?.get(column) ?? parent) === parent;
  const branchEnd = (index, column) => (children[index].length ? branchEnd(children[index][0], column + 1) : column);
  const rowFor = (index, column, parentRow) => {
    const { parent } = nodes[index];
    const end = branchEnd(index, column);
    let row = parentRow + 1;
    while (isFree(row, column, parent) && [...(taken[row]?.keys() ?? [])].some((other) => other >= column && other <= end)) row += 1;
    // no free line there: below everything
    return isFree(row, column, parent) ? row : Math.max(row, taken.length);
  };
  const places = [];
  const pending = [{ index: 0, column: 1, parentRow: 1, isFirst: true }];
  while (pending.length) {
    const place = pending.pop();
    const { index, column, parentRow } = place;
    place.row = place.isFirst ? parentRow : rowFor(index, column, parentRow);
    (taken[place.row] ??= new Map()).set(column, nodes[index].parent);
    places.push(place);
    pending.push(...children[index].map((child, i) => ({
      index: child, column: column + 1, parentRow: place.row, isFirst: i === 0,
    })).reverse());
  }
  return { places, children };
}

function nodeTip(node, labels) {
  if (node.isRoot) return 'The token before this step';
  if (node.isBonus) return "The model's own token, which ends the step";
  const place = placeOf(node, labels);
  return [
    node.accepted ? 'Accepted' : 'Rejected',
    `${SOURCES[node.source].name}${place ? ` · ${place}` : ''}`,
    `Estimated probability ${percent(node.probability)}`,
  ].join('\n');
}

function treeNode(node, { row, column, parentRow }, hasChildren, labels) {
  const item = make('li', 'node');
  item.style.gridRow = row;
  item.style.gridColumn = column;
  item.classList.toggle('accepted', node.accepted);
  item.classList.toggle('parent', hasChildren);
  const box = make('span', 'box');
  box.dataset.tip = nodeTip(node, labels);
  const text = make('span', 'text');
  if (!node.isRoot) text.dataset.source = node.source;
  appendText(text, node.text);
  const share = node.isRoot ? 'before' : node.isBonus ? 'own' : percent(node.probability);
  box.append(text, make('span', 'share', share));
  box.append(make('span', 'visually-hidden', ` (depth ${column - 1}; ${box.dataset.tip.replaceAll('\n', '; ')})`));
  if (column > 1) item.append(make('span', 'lead'));
  item.append(box);
  if (hasChildren) item.append(make('span', 'tail'));
  if (row === parentRow) return [item]; // also the root
  const stem = make('li', 'stem');
  stem.setAttribute('aria-hidden', 'true');
  stem.style.gridRow = `${parentRow} / ${row + 1}`;
  stem.style.gridColumn = column;
  return [stem, item];
}

function drawTree(given, bonus, labels) {
  const nodes = withBonus(given.map((node, i) => ({ ...node, isRoot: i === 0, accepted: i === 0 || node.accepted })), bonus);
  const { places, children } = layTree(nodes);
  const box = make('div', 'tree-box');
  box.tabIndex = 0;
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', 'Draft tree of this step');
  const tree = make('ul', 'tree');
  for (const place of places) {
    tree.append(...treeNode(nodes[place.index], place, children[place.index].length > 0, labels));
  }
  box.append(tree);
  return box;
}
