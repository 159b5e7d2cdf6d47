// Writes engine/text/unicode_tables.h and unicode_cases.h from the Unicode data that node carries:
//
//     node tools/unicode-tables.mjs > engine/text/unicode_tables.h
//     node tools/unicode-tables.mjs cases > engine/text/unicode_cases.h
//
// Run it again only to move to a newer Unicode version; the result is kept in the repository.

const LAST = 0x10ffff;
const str = (cp) => String.fromCodePoint(cp);
const points = (s) => Array.from(s, (c) => c.codePointAt(0));
const isSurrogate = (cp) => cp >= 0xd800 && cp <= 0xdfff;
const isHangul = (cp) => cp >= 0xac00 && cp <= 0xd7a3;

function* scalars() {
  for (let cp = 0; cp <= LAST; cp++) if (!isSurrogate(cp)) yield cp;
}

// Numbers, comma-separated, in lines of at most 100 columns.
function array(type, name, numbers) {
  const lines = [];
  let line = '   ';
  for (const n of numbers) {
    if (line.length + 2 + String(n).length > 100) {
      lines.push(line);
      line = '   ';
    }
    line += ` ${n},`;
  }
  lines.push(line);
  return `static const ${type} ${name}[] = {\n${lines.join('\n')}\n};`;
}

// Where a property of code points changes: cp << shift | value, for a search of the last one <= cp.
function transitions(shift, value) {
  const out = [];
  let before = 0;
  for (let cp = 0; cp <= LAST; cp++) {
    const v = isSurrogate(cp) ? before : value(cp);
    if (v !== before) out.push(cp * 2 ** shift + v);
    before = v;
  }
  return out;
}

function textClass(cp) {
  const c = str(cp);
  if (c === '\t' || c === '\n' || c === '\r' || /\p{Z}/u.test(c)) return 3;
  if (/\p{C}/u.test(c) || cp === 0xfffd) return 4;
  if (/\p{L}/u.test(c)) return 1;
  if (/\p{N}/u.test(c)) return 2;
  return 0;
}

function caseClass(cp) {
  const c = str(cp);
  if (/\p{Case_Ignorable}/u.test(c)) return 2;
  return /\p{Cased}/u.test(c) ? 1 : 0;
}

function letterClass(cp) {
  const c = str(cp);
  if (/\p{Lu}|\p{Lt}/u.test(c)) return 1;
  if (/\p{Ll}/u.test(c)) return 2;
  return /\p{L}|\p{M}/u.test(c) ? 3 : 0;
}

// Another case as runs: first, last, step, difference.
function caseRuns(other) {
  const runs = [];
  for (const cp of scalars()) {
    const mapped = points(other(str(cp)));
    if (mapped.length !== 1 || mapped[0] === cp) continue;
    const d = mapped[0] - cp;
    const r = runs[runs.length - 1];
    if (r && r.d === d && r.first === r.last && cp - r.last <= 2) {
      r.step = cp - r.last;
      r.last = cp;
    } else if (r && r.d === d && cp - r.last === r.step) {
      r.last = cp;
    } else {
      runs.push({ first: cp, last: cp, step: 1, d });
    }
  }
  return runs.flatMap((r) => [r.first, r.last, r.step, r.d]);
}

const upper = (c) => c.toUpperCase();
const lower = (c) => c.toLowerCase();

// Where the upper case is two or three characters: the code point, and these, or 0.
function upperMore() {
  return [...scalars()].flatMap((cp) => {
    const up = points(upper(str(cp)));
    return up.length < 2 ? [] : [cp, up[0], up[1], up[2] ?? 0];
  });
}

// JavaScript does not give title case, but the letters that are in it; and of what else becomes
// more than one letter only the first is large there, unless it is an apostrophe; a Greek iota is the
// mark below. Modern Georgian has none.
function titles() {
  const one = new Map();
  for (const cp of scalars()) {
    const c = str(cp);
    if (/\p{Lt}/u.test(c)) {
      for (const other of [c, lower(c), upper(c)])
        if (points(other).length === 1) one.set(other.codePointAt(0), [cp]);
    }
    if (cp >= 0x10d0 && cp <= 0x10ff && upper(c) !== c) one.set(cp, [cp]);
  }
  for (const cp of scalars()) {
    const up = points(upper(str(cp)));
    if (up.length < 2 || one.has(cp)) continue;
    const small = points(up.slice(1).map((u) => lower(str(u === 0x399 ? 0x345 : u))).join(''));
    if (up[0] !== 0x2bc && small.some((u, i) => u !== up[i + 1])) one.set(cp, [up[0], ...small]);
  }
  return [...one].sort(([a], [b]) => a - b)
    .flatMap(([cp, t]) => [cp, t[0], t[1] ?? 0, t[2] ?? 0]);
}

// JavaScript does not give combining classes, but shows their order: normalizing swaps two marks
// when the first has the greater class. The rank of a mark's class serves as well as the class.
function combiningRanks() {
  const swaps = (a, b) => (str(a) + str(b)).normalize('NFD') !== str(a) + str(b);
  const LOW = 0x334, HIGH = 0x345; // the marks of the lowest and the highest class
  const marks = [...scalars()].filter(
    (cp) => /\p{M}/u.test(str(cp)) && str(cp).normalize('NFD') === str(cp) &&
            (swaps(cp, LOW) || swaps(HIGH, cp)));
  marks.sort((a, b) => (swaps(a, b) ? 1 : swaps(b, a) ? -1 : a - b));
  const rank = new Map();
  let r = 0;
  marks.forEach((cp, i) => {
    if (i === 0 || swaps(cp, marks[i - 1])) r++;
    rank.set(cp, r);
  });
  if (r > 63) throw new Error(`${r} combining classes do not fit in 6 bits`);
  return rank;
}

// Canonical decompositions in steps of one or two code points: [cp, first, second or 0, composes].
function decompositions() {
  const byNfd = new Map();
  const list = [...scalars()].filter(
    (cp) => !isHangul(cp) && str(cp).normalize('NFD') !== str(cp));
  for (const cp of list) {
    const nfd = str(cp).normalize('NFD');
    if (!byNfd.has(nfd) || str(cp).normalize('NFC') === str(cp)) byNfd.set(nfd, cp);
  }
  return list.map((cp) => {
    const nfc = points(str(cp).normalize('NFC'));
    if (nfc.length === 1 && nfc[0] !== cp) return [cp, nfc[0], 0, 0];
    const nfd = points(str(cp).normalize('NFD'));
    const head = nfd.slice(0, -1).map(str).join('');
    const first = nfd.length === 2 ? nfd[0] : byNfd.get(head);
    if (first === undefined) throw new Error(`no pair for ${cp.toString(16)}`);
    return [cp, first, nfd[nfd.length - 1], nfc[0] === cp ? 1 : 0];
  });
}

const ranks = combiningRanks();
const decomp = decompositions();
const single = decomp.filter((d) => d[2] === 0);
const pair = decomp.filter((d) => d[2] !== 0);
const compose = pair.map((d, i) => [d, i]).filter(([d]) => d[3])
  .sort(([a], [b]) => a[1] - b[1] || a[2] - b[2]).map(([, i]) => i);
const zeros = [...scalars()].filter((cp) => /\p{Nd}/u.test(str(cp)))
  .filter((cp, i) => i % 10 === 0);
for (const z of zeros)
  for (let i = 0; i < 10; i++)
    if (!/\p{Nd}/u.test(str(z + i))) throw new Error(`digits at ${z} have a gap`);

const version = process.versions.unicode;
if (process.argv[2] === 'cases') {
  console.log(`/* Unicode ${version}, made by tools/unicode-tables.mjs cases: do not edit. */
/* clang-format off */
/* first, last, step, difference to the lower case */
${array('int32_t', 'lower_run', caseRuns(lower))}
/* the same to the upper case */
${array('int32_t', 'upper_run', caseRuns(upper))}
/* code point, and the upper case of two or three, 0 at the end */
${array('uint32_t', 'upper_more', upperMore())}
/* code point, and its title case where that is not the upper case */
${array('uint32_t', 'title_more', titles())}
/* code point << 2 | 1 Lu and Lt, 2 Ll, 3 other letters and marks (graft_unicode_letter) */
${array('uint32_t', 'letter_change', transitions(2, letterClass))}
/* clang-format on */`);
  process.exit();
}
console.log(`/* Unicode ${version}, made by tools/unicode-tables.mjs: do not edit. */
/* clang-format off */
/* code point << 3 | class, where the class changes (graft_unicode_class) */
${array('uint32_t', 'class_change', transitions(3, textClass))}
/* code point << 2 | 1 cased, 2 ignored when looking for a cased neighbour */
${array('uint32_t', 'case_change', transitions(2, caseClass))}
/* code point << 6 | rank of the combining class, 0 for none */
${array('uint32_t', 'mark_change', transitions(6, (cp) => ranks.get(cp) ?? 0))}
/* the zero of each set of ten decimal digits */
${array('uint32_t', 'digit_zero', zeros)}
/* code point, canonical equivalent */
${array('uint32_t', 'decompose_one', single.flatMap((d) => d.slice(0, 2)))}
/* code point, two parts (the first may decompose further) */
${array('uint32_t', 'decompose_two', pair.flatMap((d) => d.slice(0, 3)))}
/* places in decompose_two / 3 that compose again, sorted by their parts */
${array('uint16_t', 'compose_order', compose)}
/* clang-format on */`);
