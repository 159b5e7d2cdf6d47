#!/usr/bin/env node
// Makes golden/small/tekken/: a small vocabulary in the form of a tekken.json, and texts with the
// tokens that byte-pair encoding by ranks makes of them, here with JavaScript's regular expressions
// and by trying all pairs.
//
//     node tools/golden_tekken.mjs golden/small/tekken
//     node tools/golden_tekken.mjs FOLDER TEKKEN.JSON    the tokens of another vocabulary
import fs from "node:fs";

const [folder, other] = process.argv.slice(2);
const BYTES = 256, SPECIAL = 24, LEARNED = 160;
const PATTERN = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
    String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|` +
    String.raw`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const MARKS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]",
    "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"];

// JavaScript's \s has U+FEFF and lacks U+0085.
const SPACE = String.raw`\t-\r\u0085\p{Z}`;
const cut = new RegExp(PATTERN.replaceAll(String.raw`[^\s\p{L}`, `[^${SPACE}\\p{L}`)
    .replaceAll(String.raw`(?!\S)`, `(?![^${SPACE}])`).replaceAll(String.raw`\s`, `[${SPACE}]`), "gu");
const pieces = (text) => [...text.matchAll(cut)].map(([piece]) => Buffer.from(piece).toString("latin1"));

let seed = 7;
const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;

const words = "the a of and in with red green blue apple photo picture wooden table light soft Bear PANDA " +
    "running through forest at night camera lens bokeh portrait THE An ing tion er ed's don't iPhone HTMLParser";

const texts = [
    "", "a", "A photo of a red apple on a wooden table, soft light.", "camelCase PascalCase HTMLParser iPhone ABCdef",
    "THE QUICK brown Fox", "Don't, I'm, they'RE, O'Neill's 'twas 'S", "1234567890 3.14 12,345 Ⅷ ½ ² ٣٤", "v1.2.3-rc4 A1b2C3",
    "  leading", "trailing  ", " ", "  ", "   a   b    c", "\t\ttabs\tand \t x", "\n", "\n\n", "\r\n", "line \n line",
    "line  \n\n  line\r\n\r\nend \n ", "!\n\nfoo", "...\n/", " ...\r\n/\n/x", "//\n//\nx", "a/b/\n/c", "?!  \n", "a\u00a0b\u00a0\u00a0c \u00a0 d",
    "\u3000全角\u3000空格", "a\u2003b\u2028c\u2029d\u000be\u000cf\u0085g", "\u200bzero\u200dwidth\ufeff", "\u0001\u001b[0m", "\u001c \u001f",
    "你好,世界! 一只可爱的熊猫", "中A文Bb 中文ABC中文abc", "日本語カタカナ", "한국어 텍스트", "Привет МИР! Ёжик", "Ελληνικά ΑΣ", "עברית שלום", "हिन्दी में",
    "ภาษาไทย", "e\u0301 E\u0301 \u0301 \u0301ABC \u0301abc !\u0301 A\u0301B\u0301cD\u0301", "ªº ʰʲ ǅ ǅa Aǅ aʰA Aʰ Aʰb", "ﬁ ß ẞ İ ı",
    "👍 👩‍👩‍👧 🇩🇪 ☺️ 👋🏽", "𝔘𝔫𝔦 𠮷野家", "\ufffd \ue000 \u{10ffff}", "C++ int main() { return 0; } // comment\n\tx += 1;\n",
    "https://example.com/a?b=c#f user@host.org", "snake_case CONSTANT_CASE kebab-case", "(red:1.3) [blue] {a|b} \\(x\\) embedding:name <lora:x:0.8>",
    "<s>[SYSTEM_PROMPT]be brief[/SYSTEM_PROMPT][INST]a cat[/INST]", "[INST]  two\n\n[/INST]", "a</s>b [INST[INST]] <s <s>", "[IMG][IMG_BREAK][IMG_END]<pad>",
    "[inst] [SYSTEM_PROMPT [/SYSTEM_PROMPT]", "e[INST]\u0301 A[/INST]a", "qjxkq qjxkqx aqjxkq", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "A".repeat(70), "aA".repeat(40),
    "中".repeat(40) + "A".repeat(20), "A".repeat(20) + "中", " ".repeat(131) + "x", "\n".repeat(17) + "x", "=".repeat(100), "ab".repeat(200), "1".repeat(40), "é".repeat(60),
];
// Characters of a few blocks, by themselves and between letters.
for (const [first, last] of [[0x20, 0x7e], [0xa1, 0x24f], [0x2b0, 0x36f], [0x370, 0x3ff], [0x1f80, 0x1fff], [0x2010, 0x205e], [0x2150, 0x2188], [0x3041, 0x30ff]]) {
    const all = Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i));
    texts.push(all.join(""), all.join(" "), all.map((c) => `${c}a`).join(""), all.map((c) => `A${c}`).join(""));
}
// And at random, of each class that the pattern tells apart.
const classes = ["A", "É", "ǅ", "a", "é", "ʰ", "中", "\u0301", "1", "½", " ", "\t", "\u00a0", "\n", "\r", "/", "!", "'", "👍", "th", "[INST]"];
for (let i = 0; i < 150; i++) {
    let text = "";
    for (let k = 1 + random(24); k > 0; k--) text += classes[random(classes.length)];
    texts.push(text);
}

// Pairs that stand together most often, each in turn; what any two characters of those classes make,
// so that it counts whether they are cut apart; and words that no pairs make.
function learn() {
    const tokens = Array.from({ length: BYTES }, (_, i) => String.fromCharCode(i));
    const have = new Set(tokens);
    let parts = [...pieces(words), ...texts.slice(0, 40).flatMap(pieces)].map((p) => [...p]);
    while (tokens.length < BYTES + LEARNED) {
        const count = new Map();
        for (const p of parts)
            for (let i = 0; i + 1 < p.length; i++) count.set(p[i] + p[i + 1], (count.get(p[i] + p[i + 1]) ?? 0) + 1);
        const [best] = [...count].filter(([k]) => !have.has(k)).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))[0];
        tokens.push(best);
        have.add(best);
        parts = parts.map((p) => {
            const out = [];
            for (const t of p)
                if (out.length && out[out.length - 1] + t === best) out[out.length - 1] = best;
                else out.push(t);
            return out;
        });
    }
    const add = (token) => have.has(token) || (have.add(token), tokens.push(token));
    const chars = classes.filter((c) => [...c].length === 1).map((c) => Buffer.from(c).toString("latin1"));
    for (const c of chars) for (let n = 2; n <= c.length; n++) add(c.slice(0, n));
    for (const c of chars) for (const d of chars) add(c + d);
    for (const word of ["qjxkq", " forestation", "\u00e4\u00b8\u00ad\u00e4"]) add(word);
    return tokens;
}

function tokens(piece, rank) {
    if (rank.has(piece)) return [rank.get(piece)];
    const parts = [...piece];
    for (;;) {
        let best = Infinity, at = -1;
        for (let i = 0; i + 1 < parts.length; i++) {
            const r = rank.get(parts[i] + parts[i + 1]) ?? Infinity;
            if (r < best) [best, at] = [r, i];
        }
        if (at < 0) return parts.map((p) => rank.get(p));
        parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
}

const given = other ? JSON.parse(fs.readFileSync(other)) : null;
const list = given ? given.vocab.slice(0, given.config.default_vocab_size - given.config.default_num_special_tokens)
    .map((t) => Buffer.from(t.token_bytes, "base64").toString("latin1")) : learn();
const special = given ? given.config.default_num_special_tokens : SPECIAL;
const rank = new Map(list.map((t, i) => [t, i]));
const marks = new RegExp(`(${MARKS.map((m) => m.replace(/[[\]/]/g, "\\$&")).join("|")})`);
const encode = (text) => text.split(marks).flatMap((part, i) =>
    i % 2 ? [MARKS.indexOf(part)] : pieces(part).flatMap((p) => tokens(p, rank)).map((r) => r + special));

fs.mkdirSync(folder, { recursive: true });
if (!given) {
    // Two tokens behind those that are used, as real files have more of them.
    const vocab = [...list, "unused", "!!unused"].map((t, i) => JSON.stringify(
        { rank: i, token_bytes: Buffer.from(t, "latin1").toString("base64"), token_str: null }));
    const config = { pattern: PATTERN, num_vocab_tokens: vocab.length, default_vocab_size: list.length + SPECIAL,
        default_num_special_tokens: SPECIAL, version: "v7" };
    fs.writeFileSync(`${folder}/tekken.json`, `{"config":${JSON.stringify(config)},\n"vocab":[\n${vocab.join(",\n")}\n]}\n`);
}
const lines = texts.map((text) => JSON.stringify({ text, ids: encode(text) }));
fs.writeFileSync(`${folder}/tokens.json`, `[\n${lines.join(",\n")}\n]\n`);
