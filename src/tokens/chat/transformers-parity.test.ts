// Goal: what `transformers` itself renders, byte for byte.
// Method: every chat template that tests use over 176 chats, rare parts of the language, and templates at random, as it rendered them.
// What it renders may be refused here, and is never another text; what it refuses is refused.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { parseTemplate } from '../template/parse.js'
import { parsePythonJson } from '../template/python-json.js'
import { Template } from '../template/template.js'
import type { Value } from '../template/values.js'
import type { ChosenTemplate } from './chat-template.js'
import { ChatTemplates, renderChat } from './chat-template.js'

type Values = Readonly<Record<string, Value>>
interface Result {
  readonly output?: string
  readonly error?: string
}
type Case = Result & { readonly template: string }

interface RecordedChats {
  readonly specials: Readonly<Record<string, string>>
  readonly settings: Readonly<Record<string, Values>>
  readonly conversations: Readonly<Record<string, readonly Values[]>>
  readonly templates: readonly {
    readonly name: string
    readonly template: string
    readonly results: Readonly<Record<string, Result>>
  }[]
  readonly values: Values
  readonly language: readonly Case[]
}

function recorded(name: string): unknown {
  const bytes = readFileSync(new URL(`../../../test/fixtures/transformers/${name}.json.gz`, import.meta.url))
  return parsePythonJson(gunzipSync(bytes).toString('utf8'))
}

const chats = recorded('chats') as RecordedChats
const atRandom = ['random', 'numbers', 'typed', 'statements'].map((name) => ({
  name,
  ...(recorded(name) as { readonly values: Values; readonly cases: readonly Case[] }),
}))

const options = {
  limits: { stepsMax: 1_000_000, outputMax: 1 << 22, deadlineMs: 1000 },
  now: () => 0,
  date: () => new Date(2026, 10, 5, 14, 5, 9),
}

function outcome(render: () => string): Result {
  try {
    return { output: render() }
  } catch {
    return { error: 'refused' }
  }
}

function asHere({ output }: Result): Result {
  return output === undefined ? { error: 'refused' } : { output }
}

/** transformers 5.22 shows a template the thoughts of a message under two more names. */
function withThoughts(message: Values): Values {
  const thoughts = message['reasoning_content'] ?? message['thinking'] ?? message['reasoning']
  return thoughts === undefined || thoughts === null
    ? message
    : { thinking: thoughts, ...message, reasoning_content: thoughts }
}

describe('chats', () => {
  it.each(chats.templates)('$name', ({ template, results }) => {
    const parsed = { name: 'default', source: template, parsed: parseTemplate(template) }
    const chosen = new ChatTemplates([parsed], chats.specials).choose(false)!
    const ours = Object.keys(results).map((name) => [name, outcome(() => renderNamed(chosen, name))])
    expect(Object.fromEntries(ours)).toEqual(
      Object.fromEntries(Object.entries(results).map(([name, result]) => [name, asHere(result)])),
    )
  })

  function renderNamed(chosen: ChosenTemplate, name: string): string {
    const [chat, setting] = name.split(', ') as [string, string]
    const { tools, documents, add_generation_prompt, continue_final_message, ...kwargs } = chats.settings[setting]!
    const input = {
      messages: chats.conversations[chat]!.map(withThoughts),
      tools: tools ?? null,
      documents: documents ?? null,
      addGenerationPrompt: add_generation_prompt === true,
      continueFinalMessage: continue_final_message === true,
      kwargs,
    }
    return renderChat(chosen, input, options)
  }
})

it.each(chats.language)('$template', (recordedCase) => {
  const { template } = recordedCase
  const ours = outcome(() => new Template(parseTemplate(template)).render(chats.values, options))
  expect(ours).toEqual(asHere(recordedCase))
})

it.each(atRandom)('renders no template at random to another text: $name', ({ values, cases }) => {
  let equal = 0
  for (const recordedCase of cases) {
    const { template } = recordedCase
    const ours = outcome(() => new Template(parseTemplate(template)).render(values, options))
    const isRefused = ours.output === undefined
    if (!isRefused || recordedCase.output === undefined)
      expect({ template, ...ours }).toEqual({ template, ...asHere(recordedCase) })
    if (!isRefused) equal++
  }
  expect(equal).toBeGreaterThan(cases.length / 3) // what is refused is the exception
})
