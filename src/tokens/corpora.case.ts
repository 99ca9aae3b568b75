/** Texts that tokenizers get wrong, by kind; and random mixtures of the same characters. */
import { randomFrom } from '../../bench/tokens/texts.js'

export const corpora: Readonly<Record<string, readonly string[]>> = {
  english: [
    "It's the engine's own tokens that count; we'll say \"I'd've\" and DON'T, CAN'T, I'LL mean it.",
    'The quick brown fox jumps over the lazy dog. '.repeat(40),
    'Prices rose 3.14 % to $1,234,567.89 on 2026-11-15 (up from 999).\n\n\tSee §4.2–4.5 — or don’t.',
    "'S 'T 'RE 'VE 'M 'LL 'D 'ſ 're've 'x ''s '",
  ],
  code: [
    'def f(x):\r\n    return {"a": [1, 2.5, None], \'b\': x**2}  # ok\r\n\r\n\r\n',
    'const x = a?.b ?? `c${d}`;\n\tfor (;;) { i += 0xDEADBEEF >>> 3 }\n}\n\n\n// done',
    '<div class="a-b">\n        <p>&nbsp;</p>\n</div>\n<|not_a_token|> </tool_call> #include <stdio.h>',
    'SELECT * FROM "t" WHERE a<>1e-10 AND b LIKE \'%_x\'; -- 12345678901234567890',
  ],
  cjk: [
    '你好，世界！これはテスト・データです。ー゛゜カタカナ ﾊﾝｶｸ',
    '한국어 문장입니다. 漢字かな交じり文１２３４５と１２３ｋｍ',
    '龥龦一丁㐀𠀀',
  ],
  emoji: ['👩‍👩‍👧‍👦 family 🇨🇭 flag 👍🏽 ok 🏳️‍🌈❤️‍🔥', '🎉🎉🎉 1️⃣2️⃣ ☺︎☺️'],
  marks: [
    'e\u0301 vs é, a\u030a\u0323 Å ñ n\u0303',
    'x\u0338 >\u0338 =\u0338 \u0301start \u0301\u0302\u0303',
    'क्षत्रिय ไทยภาษา ภู་བོད།',
  ],
  rightToLeft: ['שלום \u200f\u200e עולם', 'مرحبا بالعالم ١٢٣٤٥ ﷺ \u202bx\u202c'],
  spaces: [
    ' '.repeat(3),
    `${' '.repeat(70)}x${' '.repeat(200)}`,
    'a          b\n\n\n\n\n        c \t \u00a0\u2003 \u3000 d\u0085e\u2028f\ufeffg ',
    '\t\t\t\n \n  \n\r\n \r\r x',
    '\u0085\u0085 \u001c\u001f\u200b\u180e',
  ],
  control: [
    '\u0000x\u0007\u001b[31mred\u001b[0m\u007f\u0080\u009f',
    '\u0000\u0000\u0000',
    '\ufffd\uffff\u{10ffff}\ue000',
  ],
  surrogates: ['\ud800x\udc00', 'a\udfff', '\ud83d', 'x\ud83dy\ude00z'],
  addedTokens: [
    'literal <s> and </s> and <unk> and <|user|> inside <|im_start|>user\nhi<|im_end|>\n<|endoftext|>',
    '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhey<|eot_id|>  <|reserved_special_token_250|>',
    '<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜> <｜tool▁calls▁begin｜><｜fim▁hole｜>x',
    '<tool_call>\n{"name": "f"}\n</tool_call><think>\n\n</think><|im_end',
    '!<|im_end|>!<|im_en|>!</s></s ></s',
  ],
  runs: [
    'a'.repeat(700),
    'ab'.repeat(300),
    '!'.repeat(300),
    '1'.repeat(100),
    '\n'.repeat(90),
    '▁▁▁ ▁mark▁ x▁',
    '好'.repeat(120),
  ],
  byteOrderMarks: [
    '\ufeffe\u0301 x',
    '\ufeffplain',
    '\ufeff▁a b',
    '\ufeff\ufeff',
    '</s>\ufeffe\u0301▁',
    '<|im_end|>\ufeffe\u0301',
  ],
  empty: ['', ' ', '\n', 'a', '\u0301'],
}

const alphabet: readonly string[] = [
  ...Array.from(' \n\r\t\'sStTrReEvVlLmMdD0129.,!?<|>_-{}"aébç你の・ー́̈\u200b\u200d👍🏽▁  \u0085\u3000שם٣½Ⅷ한ไ'),
  '</s>',
  '<|im_end|>',
  '<｜User｜>',
  '<|endoftext|>',
  '<unk>',
  ' the',
  'ing',
  '    ',
]

const cased: readonly string[] = [
  ...Array.from("ABCabcʰ日ǅÉéİßſ\u0301' \n/1!.Δδ"),
  "'s",
  "'LL",
  "'ſ",
  'XYZ',
  '\r\n',
  '//',
  '  ',
]

/** Large letters, small ones, those that are both, and what may stand before and behind words. */
export function casedMixtures(count: number, seed: number): string[] {
  return mixturesOf(cased, count, seed, 16)
}

/** Short mixtures of everything above: collisions of rules are where tokenizers differ. */
export function mixtures(count: number, seed: number, lengthMax = 30): string[] {
  return mixturesOf(alphabet, count, seed, lengthMax)
}

function mixturesOf(parts: readonly string[], count: number, seed: number, lengthMax: number): string[] {
  const random = randomFrom(seed)
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + random(lengthMax) }, () => parts[random(parts.length)]!).join(''),
  )
}
