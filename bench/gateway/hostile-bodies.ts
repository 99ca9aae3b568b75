/** Bodies that are meant to hold the loop of whoever reads them: most are of the longest kind that a limit still lets in. */
import { prose } from '../tokens/texts.js'

export interface HostileBody {
  readonly path: string
  readonly body: Buffer
  /** What is answered at full length, not strict and strict; 200 unless said. */
  readonly statuses?: readonly [plain: number, strict: number]
  /** What may become of its tokens at full length, as the token service counts it. */
  readonly tokens?: readonly string[]
}

const chat = '/v1/chat/completions'
const completions = '/v1/completions'

/** The same shapes each round, and never the same prompt. `size` makes them small in the tests. */
export function hostileBodies(
  round: number,
  size: (smoke: number, full: number) => number,
): Record<string, HostileBody> {
  const mega = size(100_000, 1_000_000)
  const fill = (part: string, bytes = mega): string => part.repeat(Math.ceil(bytes / part.length))
  const ids = (count: number): string =>
    Array.from({ length: count }, (_, at) => (at * 7919 + round) % 151_643).join(',')
  const complete = (prompt: string, more = ''): HostileBody =>
    asBody(completions, `{"model":"m"${more},"prompt":${prompt}}`)
  const talk = (messages: string, more = ''): HostileBody => asBody(chat, `{"model":"m"${more},"messages":${messages}}`)
  const say = (content: string): string => `[{"role":"user","content":${JSON.stringify(content)}}]`
  const tag = `${round} `
  const listOf = (count: number, content: string): string =>
    `[${Array.from({ length: count }, (_, at) => `{"role":"user","content":${JSON.stringify(`${tag}${at}${content}`)}}`).join(',')}]`
  const loop = (messages: string, more = ''): HostileBody =>
    asBody(chat, `{"model":"loops"${more},"messages":${messages}}`)
  return {
    'a million ids': complete(`[${ids(mega)}]`),
    'a million ids, the last of them none': {
      ...complete(`[${ids(mega)},-${round + 1}]`),
      statuses: [400, 400],
    },
    'ids written as fractions': complete(`[${fill('1.0,', 4 * mega)}${round}]`),
    'texts of digits': { ...complete(`["${fill('12","', 4 * mega)}${round}"]`), statuses: [200, 400] },
    'a million ids in nvext': asBody(
      chat,
      `{"model":"m","messages":${say('x')},"nvext":{"token_data":[${ids(mega)}]}}`,
    ),
    'ids of one digit, 45 MB': complete(`[${fill('1,', size(200_000, 44_000_000))}${round}]`),
    'a batch of id lists': { ...complete(`[${fill(`[${ids(250)}],`)}[${round}]]`), statuses: [200, 400] },
    'a batch of 100,000 texts': {
      ...complete(`["${tag}${fill('x","', size(4_000, 400_000))}y"]`),
      statuses: [200, 400],
    },
    'a megabyte without a cut': complete(`"${tag}${fill('a')}"`),
    'a megabyte of one character': talk(say(tag + fill('好', mega / 3))),
    'a megabyte of escaped quotes': complete(`"${tag}${fill('\\"')}"`),
    'a megabyte of backslashes': complete(`"${tag}${fill('\\\\')}"`),
    'lone surrogates': complete(`"${tag}${fill('\\ud83d')}"`),
    'control characters': complete(`"${tag}${fill('\u0001', 6 * mega)}"`),
    'a megabyte of small numbers': { ...talk(say(tag), `,"tools":[${fill('-1.5e1,')}1]`), statuses: [200, 400] },
    'random bytes': complete(JSON.stringify(tag + randomText(mega / 2, round))),
    'two million characters, mixed': complete(JSON.stringify(tag + randomText(size(100_000, 2_000_000), round))),
    'two million Chinese characters': talk(say(tag + fill('好的天地', size(100_000, 2_000_000)))),
    'four megabytes of words': talk(say(tag + fill(prose(mega / 10, 800), 4 * mega))),
    'a list of one text of backslashes, 44 MB': complete(`["${tag}${fill('\\\\', size(200_000, 44_000_000))}"]`),
    'bytes that are no UTF-8, 44 MB': {
      ...withByte(complete(`"${tag}${fill('word ', size(200_000, 44_000_000))}"`), 0xff),
      statuses: [400, 200],
    },
    'a text of 44 MB': talk(say(tag + fill('word ', size(200_000, 44_000_000)))),
    'a hundred thousand messages': talk(
      `[${Array.from({ length: size(2_000, 100_000) }, (_, at) => `{"role":"${at % 2 ? 'assistant' : 'user'}","content":"${tag}${at}"}`).join(',')}]`,
    ),
    'a huge tool schema': talk(
      say(tag),
      `,"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{${Array.from({ length: size(2_000, 40_000) }, (_, at) => `"k${round}_${at}":{"type":"string"}`).join(',')}}}}}]`,
    ),
    'nested as deep as it may be': {
      ...talk(say(tag), `,"tools":[${fill(`${'['.repeat(120)}${']'.repeat(120)},`)}1]`),
      statuses: [200, 400],
    },
    'a million empty objects': talk(`[${fill('{},', 3 * mega)}{"role":"user","content":"${round}"}]`),
    'a body of fields': {
      ...asBody(chat, `{"model":"m",${fill('"a":1,')}"messages":${say(tag)}}`),
      statuses: [400, 400],
    },
    'fields of 60 KB': {
      ...asBody(
        chat,
        `{"model":"m","messages":${say(tag)}${Array.from({ length: size(3, 100) }, (_, at) => `,"f${at}":[${fill('{"x":1},', 60_000)}1]`).join('')}}`,
      ),
      statuses: [200, 400],
    },
    'as much as is parsed on the loop': talk(listOf(size(100, 1500), prose(250, 800))),
    'a template of nested loops': loop(listOf(size(20, 400), 'x'.repeat(40))),
    'one that searches long texts': loop(listOf(size(10, 140), prose(4000, 800)), toolOf('search')),
    // Whichever limit comes first: on a quiet machine that of the work.
    'one that never ends': {
      ...loop(listOf(size(20, 1000), 'x'), toolOf('spin')),
      tokens: ['deadline', 'template-failed'],
    },
    'one that prints what is nested deep': {
      ...loop(
        say(tag),
        toolOf('print', `,"deep":${'['.repeat(110)}${fill('{"a":1},', size(500, 50_000))}1${']'.repeat(110)}`),
      ),
      tokens: ['tokenizer/proven'],
    },
    'the router, asked with a million ids': asBody('/router?model=m', `{"method":"new","tokens":[${ids(mega)}]}`),
    'three megabytes of white space': asBody(chat, `{"model":"m",${fill(' ', 3 * mega)}"messages":${say(tag)}}`),
  }
}

/** What the template of `loops` does, and what it may do it with. */
function toolOf(kind: string, more = ''): string {
  return `,"tools":[{"type":"function","function":{"name":"${kind}"${more}}}]`
}

function asBody(path: string, text: string): HostileBody {
  return { path, body: Buffer.from(text) }
}

/** This byte in the middle, in place of what is there. */
function withByte({ path, body }: HostileBody, byte: number): HostileBody {
  body[body.length >> 1] = byte
  return { path, body }
}

function randomText(length: number, seed: number): string {
  const bytes = Buffer.alloc(length)
  let state = seed + 1
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes[at] = state >>> 24
  }
  return bytes.toString('latin1')
}

/** A chat template that does what a hostile one would, by what the first tool is called. Beside a tokenizer it makes the model `loops`. */
export const loopsTemplate = `{%- set kind = tools[0].function.name if tools else 'write' -%}
{%- for a in messages -%}
  {%- for b in messages -%}
    {%- if kind == 'write' -%}{{ b.content }}
    {%- elif kind == 'search' -%}{%- if 'zz zz' in b.content or b.content[-1] == '?' -%}?{%- endif -%}
    {%- elif kind == 'spin' -%}{%- for c in messages -%}{%- endfor -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if kind == 'print' -%}{{ tools | tojson }}{%- endif -%}
{%- endfor -%}`
