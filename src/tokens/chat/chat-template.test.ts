// A final message that is to be continued: the text is cut behind it, and it must be there.
import { describe, expect, it } from 'vitest'
import { parseTemplate } from '../template/parse.js'
import { ChatTemplates, renderChat } from './chat-template.js'

function continued(source: string, contents: readonly string[]): string {
  const chosen = new ChatTemplates([{ name: 'default', source, parsed: parseTemplate(source) }], {}).choose(false)!
  const messages = contents.map((content, at) => ({ role: at % 2 ? 'assistant' : 'user', content }))
  const input = { messages, tools: null, documents: null, addGenerationPrompt: false, kwargs: {} }
  const limits = { stepsMax: Infinity, outputMax: 1 << 24, deadlineMs: 1e9 }
  return renderChat(chosen, { ...input, continueFinalMessage: true }, { limits, now: () => 0, date: () => new Date(0) })
}

const plain = '{% for m in messages %}<{{ m.content }}>{% endfor %}'

describe('a final message that is continued', () => {
  it.each([
    { says: 'right before the mark', source: plain, wanted: '<a>< b ' },
    { says: 'trimmed', source: plain.replace('m.content', 'm.content.strip()'), wanted: '<a><b' },
    {
      says: 'elsewhere',
      source: '{{ messages[1].content }}|{{ messages[1].content[-27:] }}',
      wanted: ' b CONTINUE_FINAL_MESSAGE_TAG |',
    },
  ])('is shown $says', ({ source, wanted }) => {
    expect(continued(source, ['a', ' b '])).toBe(wanted)
  })

  it('is refused where it is shown otherwise', () => {
    const source = plain.replace('m.content', "m.content | replace('b', 'c')")
    expect(() => continued(source, ['a', ' b '])).toThrow('does not appear')
  })

  it('is found at once in a chat that is nearly it everywhere', () => {
    const near = 'a'.repeat(250_000)
    const final = `${'a'.repeat(60_000)}b${'a'.repeat(60_000)}`
    expect(continued(plain, [near, final])).toBe(`<${near}><${final}`)
    const changed = plain.replace('m.content', "m.content | replace('b', 'c')")
    expect(() => continued(changed, [near, final])).toThrow('does not appear')
  }, 10_000)
})
